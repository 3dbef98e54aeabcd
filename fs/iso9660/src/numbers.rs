//! Numbers that are recorded in both byte orders (ECMA-119, 7.2.3 and 7.3.3).
//!
//! The little-endian half counts, as in Linux: there are writers that get the other one wrong.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// 7.2.3: two bytes, least significant first, and the same the other way round.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Both16 {
    little: U16,
    _big: [u8; 2],
}

/// 7.3.3: the same of four bytes.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Both32 {
    little: U32,
    _big: [u8; 4],
}

impl Both16 {
    pub(crate) fn get(self) -> u16 {
        self.little.get()
    }
}

impl Both32 {
    pub(crate) fn get(self) -> u32 {
        self.little.get()
    }

    /// The number that begins at a byte of an entry of Rock Ridge.
    pub(crate) fn at(bytes: &[u8], offset: usize) -> Option<u32> {
        let (number, _) = Self::read_from_prefix(bytes.get(offset..)?).ok()?;
        Some(number.get())
    }
}
