//! Numbers that are recorded in both byte orders (ECMA-119, 7.2.3 and 7.3.3).
//!
//! Only the little-endian half is read, as on Linux: some writers get the other half wrong.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// A number of two bytes, recorded in both byte orders (7.2.3).
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Both16 {
    little: U16,
    _big: [u8; 2],
}

/// A number of four bytes, recorded in both byte orders (7.3.3).
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

    /// Returns the number at an offset of a Rock Ridge entry; `None` if the entry is too short.
    pub(crate) fn at(bytes: &[u8], offset: usize) -> Option<u32> {
        let (number, _) = Self::read_from_prefix(bytes.get(offset..)?).ok()?;
        Some(number.get())
    }
}
