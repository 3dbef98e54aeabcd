//! The bytes of an inode, `struct ext4_inode`.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Index Nodes".
//! Field names are the specification's; those of a union are the ones that Linux uses.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The part that every inode has.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawInode {
    pub(super) i_mode: U16,
    pub(super) i_uid: U16,
    pub(super) i_size_lo: U32,
    pub(super) i_atime: U32,
    pub(super) i_ctime: U32,
    pub(super) i_mtime: U32,
    pub(super) i_dtime: U32,
    pub(super) i_gid: U16,
    pub(super) i_links_count: U16,
    pub(super) i_blocks_lo: U32,
    pub(super) i_flags: U32,
    pub(super) l_i_version: U32,
    pub(super) i_block: [u8; 60],
    pub(super) i_generation: U32,
    pub(super) i_file_acl_lo: U32,
    pub(super) i_size_high: U32,
    i_obso_faddr: U32,
    pub(super) l_i_blocks_high: U16,
    pub(super) l_i_file_acl_high: U16,
    pub(super) l_i_uid_high: U16,
    pub(super) l_i_gid_high: U16,
    pub(super) l_i_checksum_lo: U16,
    l_i_reserved: U16,
}

/// The size of [`RawInode`]: `EXT4_GOOD_OLD_INODE_SIZE`.
pub(super) const SIZE_BYTES: usize = 128;

/// The size of all fields that Linux knows, `sizeof(struct ext4_inode)`.
pub(super) const KNOWN_BYTES: usize = 160;

/// The offsets of the fields after [`RawInode`]. A field exists only if `i_extra_isize` reaches
/// past its end.
pub(super) mod extra {
    pub(in super::super) const I_EXTRA_ISIZE: usize = 0x80;
    pub(in super::super) const I_CHECKSUM_HI: usize = 0x82;
    pub(in super::super) const I_CTIME_EXTRA: usize = 0x84;
    pub(in super::super) const I_MTIME_EXTRA: usize = 0x88;
    pub(in super::super) const I_ATIME_EXTRA: usize = 0x8c;
    pub(in super::super) const I_CRTIME: usize = 0x90;
    pub(in super::super) const I_CRTIME_EXTRA: usize = 0x94;
    pub(in super::super) const I_PROJID: usize = 0x9c;
}

pub(super) const CHECKSUM_LO: usize = std::mem::offset_of!(RawInode, l_i_checksum_lo);

const _: () = {
    assert!(size_of::<RawInode>() == SIZE_BYTES);
    assert!(std::mem::offset_of!(RawInode, i_block) == 0x28);
    assert!(std::mem::offset_of!(RawInode, i_file_acl_lo) == 0x68);
    assert!(CHECKSUM_LO == 0x7c);
};
