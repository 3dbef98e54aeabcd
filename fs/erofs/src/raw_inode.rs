//! Inodes as they are stored: `struct erofs_inode_compact` and `struct erofs_inode_extended`.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// A compact inode.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "the names are those of Linux")]
pub(crate) struct RawCompactInode {
    pub(crate) i_format: U16,
    pub(crate) i_xattr_icount: U16,
    pub(crate) i_mode: U16,
    pub(crate) i_nb: U16,
    pub(crate) i_size: U32,
    pub(crate) i_mtime: U32,
    pub(crate) i_u: U32,
    pub(crate) i_ino: U32,
    pub(crate) i_uid: U16,
    pub(crate) i_gid: U16,
    pub(crate) i_reserved: U32,
}

/// An extended inode.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "the names are those of Linux")]
pub(crate) struct RawExtendedInode {
    pub(crate) i_format: U16,
    pub(crate) i_xattr_icount: U16,
    pub(crate) i_mode: U16,
    pub(crate) i_nb: U16,
    pub(crate) i_size: U64,
    pub(crate) i_u: U32,
    pub(crate) i_ino: U32,
    pub(crate) i_uid: U32,
    pub(crate) i_gid: U32,
    pub(crate) i_mtime: U64,
    pub(crate) i_mtime_nsec: U32,
    pub(crate) i_nlink: U32,
    pub(crate) i_reserved2: [u8; 16],
}

const _: () = assert!(size_of::<RawCompactInode>() == 32);
const _: () = assert!(size_of::<RawExtendedInode>() == 64);
