//! The bytes of an inode, `struct xfs_dinode`.
//!
//! Source: "XFS Algorithms & Data Structures", section "On-disk Inode". The names of the fields are
//! the specification's.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The part that all versions have.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
pub(crate) struct RawInode {
    pub(crate) di_magic: [u8; 2],
    pub(crate) di_mode: U16,
    pub(crate) di_version: u8,
    pub(crate) di_format: u8,
    pub(crate) di_onlink: U16,
    pub(crate) di_uid: U32,
    pub(crate) di_gid: U32,
    pub(crate) di_nlink: U32,
    pub(crate) di_projid_lo: U16,
    pub(crate) di_projid_hi: U16,
    /// The number of extents with `nrext64`; padding and `di_flushiter` without.
    pub(crate) di_big_nextents: U64,
    pub(crate) di_atime: U64,
    pub(crate) di_mtime: U64,
    pub(crate) di_ctime: U64,
    pub(crate) di_size: U64,
    pub(crate) di_nblocks: U64,
    di_extsize: U32,
    /// With `nrext64`, the number of extents of the attribute fork.
    pub(crate) di_nextents: U32,
    pub(crate) di_anextents: U16,
    pub(crate) di_forkoff: u8,
    pub(crate) di_aformat: u8,
    di_dmevmask: U32,
    di_dmstate: U16,
    pub(crate) di_flags: U16,
    pub(crate) di_gen: U32,
    pub(crate) di_next_unlinked: U32,
}

/// The part that only version 3 has, after [`RawInode`].
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
pub(crate) struct RawInodeV3 {
    di_crc: [u8; 4],
    di_changecount: U64,
    di_lsn: U64,
    pub(crate) di_flags2: U64,
    di_cowextsize: U32,
    di_pad2: [u8; 12],
    pub(crate) di_crtime: U64,
    pub(crate) di_ino: U64,
    pub(crate) di_uuid: [u8; 16],
}

/// The offset of `di_crc`.
pub(crate) const CRC_OFFSET: usize = size_of::<RawInode>();
/// The length of the inode before its forks in version 1 and 2.
pub(crate) const CORE_BYTES: usize = size_of::<RawInode>();
/// The length of the inode before its forks in version 3.
pub(crate) const CORE_V3_BYTES: usize = CORE_BYTES + size_of::<RawInodeV3>();

const _: () = assert!(CORE_BYTES == 100 && CORE_V3_BYTES == 176);
