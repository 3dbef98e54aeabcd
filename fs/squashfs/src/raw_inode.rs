//! Inodes as they are stored: `struct squashfs_*_inode`, without their common header.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The header of all inodes: `struct squashfs_base_inode`.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawBaseInode {
    pub(crate) inode_type: U16,
    pub(crate) mode: U16,
    pub(crate) uid: U16,
    pub(crate) guid: U16,
    pub(crate) mtime: U32,
    pub(crate) inode_number: U32,
}

/// A FIFO or socket.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawIpcInode {
    pub(crate) nlink: U32,
}

/// A device node.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawDevInode {
    pub(crate) nlink: U32,
    pub(crate) rdev: U32,
}

/// A symlink; its target follows.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawSymlinkInode {
    pub(crate) nlink: U32,
    pub(crate) symlink_size: U32,
}

/// A regular file of up to 4 GiB; its list of blocks follows.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawRegInode {
    pub(crate) start_block: U32,
    pub(crate) fragment: U32,
    pub(crate) offset: U32,
    pub(crate) file_size: U32,
}

/// An extended regular file; its list of blocks follows.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawLregInode {
    pub(crate) start_block: U64,
    pub(crate) file_size: U64,
    pub(crate) sparse: U64,
    pub(crate) nlink: U32,
    pub(crate) fragment: U32,
    pub(crate) offset: U32,
    pub(crate) xattr: U32,
}

/// A directory with a listing of less than 64 KiB.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawDirInode {
    pub(crate) start_block: U32,
    pub(crate) nlink: U32,
    pub(crate) file_size: U16,
    pub(crate) offset: U16,
    pub(crate) parent_inode: U32,
}

/// An extended directory; its index follows.
#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawLdirInode {
    pub(crate) nlink: U32,
    pub(crate) file_size: U32,
    pub(crate) start_block: U32,
    pub(crate) parent_inode: U32,
    pub(crate) i_count: U16,
    pub(crate) offset: U16,
    pub(crate) xattr: U32,
}

const _: () = assert!(size_of::<RawBaseInode>() == 16);
const _: () = assert!(size_of::<RawRegInode>() == 16);
const _: () = assert!(size_of::<RawLregInode>() == 40);
const _: () = assert!(size_of::<RawDirInode>() == 16);
const _: () = assert!(size_of::<RawLdirInode>() == 24);
