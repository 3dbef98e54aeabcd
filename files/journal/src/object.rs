//! `ObjectHeader`: what every object of a file begins with. <https://systemd.io/JOURNAL_FILE_FORMAT/#objects>

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `ObjectType`, as far as objects are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Field,
    Entry,
    EntryArray,
}

impl Kind {
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Field => 2,
            Self::Entry => 3,
            Self::EntryArray => 6,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Field => "field",
            Self::Entry => "entry",
            Self::EntryArray => "entry array",
        }
    }
}

#[derive(Debug, Clone, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ObjectHeader {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    reserved: [u8; 6],
    /// Of all of the object, this header included.
    pub(crate) size: U64,
}

const _: () = assert!(size_of::<ObjectHeader>() == 16);

/// A structure that begins with an [`ObjectHeader`], and what it is.
pub(crate) trait Object:
    FromBytes + Immutable + IntoBytes + KnownLayout + Unaligned
{
    const KIND: Kind;

    fn header(&self) -> &ObjectHeader;
}
