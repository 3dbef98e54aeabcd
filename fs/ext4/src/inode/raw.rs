//! The bytes of an inode, `struct ext4_inode`.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Index Nodes".
//! Field names are the specification's; those of a union are the ones that Linux uses.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The part that every inode has.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawInode {
    pub(crate) i_mode: U16,
    pub(crate) i_uid: U16,
    pub(crate) i_size_lo: U32,
    pub(crate) i_atime: U32,
    pub(crate) i_ctime: U32,
    pub(crate) i_mtime: U32,
    pub(crate) i_dtime: U32,
    pub(crate) i_gid: U16,
    pub(crate) i_links_count: U16,
    pub(crate) i_blocks_lo: U32,
    pub(crate) i_flags: U32,
    pub(crate) l_i_version: U32,
    pub(crate) i_block: [u8; 60],
    pub(crate) i_generation: U32,
    pub(crate) i_file_acl_lo: U32,
    pub(crate) i_size_high: U32,
    pub(crate) i_obso_faddr: U32,
    pub(crate) l_i_blocks_high: U16,
    pub(crate) l_i_file_acl_high: U16,
    pub(crate) l_i_uid_high: U16,
    pub(crate) l_i_gid_high: U16,
    pub(crate) l_i_checksum_lo: U16,
    l_i_reserved: U16,
}

/// The size of [`RawInode`]: `EXT4_GOOD_OLD_INODE_SIZE`.
pub(crate) const SIZE_BYTES: usize = 128;

/// The size of all fields that Linux knows, `sizeof(struct ext4_inode)`.
pub(crate) const KNOWN_BYTES: usize = 160;

/// The offsets of the fields after [`RawInode`]. A field exists only if `i_extra_isize` reaches
/// past its end.
pub(crate) mod extra {
    pub(crate) const I_EXTRA_ISIZE: usize = 0x80;
    pub(crate) const I_CHECKSUM_HI: usize = 0x82;
    pub(crate) const I_CTIME_EXTRA: usize = 0x84;
    pub(crate) const I_MTIME_EXTRA: usize = 0x88;
    pub(crate) const I_ATIME_EXTRA: usize = 0x8c;
    pub(crate) const I_CRTIME: usize = 0x90;
    pub(crate) const I_CRTIME_EXTRA: usize = 0x94;
    pub(crate) const I_PROJID: usize = 0x9c;
}

pub(crate) const CHECKSUM_LO: usize = std::mem::offset_of!(RawInode, l_i_checksum_lo);

const _: () = {
    assert!(size_of::<RawInode>() == SIZE_BYTES);
    assert!(std::mem::offset_of!(RawInode, i_block) == 0x28);
    assert!(std::mem::offset_of!(RawInode, i_file_acl_lo) == 0x68);
    assert!(CHECKSUM_LO == 0x7c);
};
