//! The header of all objects, `ObjectHeader`. <https://systemd.io/JOURNAL_FILE_FORMAT/#objects>

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The object types that are read, from `ObjectType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectType {
    Data,
    Field,
    Entry,
    EntryArray,
}

impl ObjectType {
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
    /// The size of the whole object, including this header.
    pub(crate) size: U64,
}

const _: () = assert!(size_of::<ObjectHeader>() == 16);

/// A structure that starts with an [`ObjectHeader`].
pub(crate) trait Object:
    FromBytes + Immutable + IntoBytes + KnownLayout + Unaligned
{
    const KIND: ObjectType;

    fn header(&self) -> &ObjectHeader;
}
