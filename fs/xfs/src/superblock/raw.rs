//! The bytes of the superblock, `struct xfs_dsb`.
//!
//! Source: "XFS Algorithms & Data Structures", section "Superblocks". The names of the fields are
//! the specification's.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The bytes at the start of the first sector of an allocation group.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
pub(crate) struct RawSuperblock {
    pub(crate) sb_magicnum: [u8; 4],
    pub(crate) sb_blocksize: U32,
    pub(crate) sb_dblocks: U64,
    pub(crate) sb_rblocks: U64,
    pub(crate) sb_rextents: U64,
    pub(crate) sb_uuid: [u8; 16],
    pub(crate) sb_logstart: U64,
    pub(crate) sb_rootino: U64,
    pub(crate) sb_rbmino: U64,
    pub(crate) sb_rsumino: U64,
    pub(crate) sb_rextsize: U32,
    pub(crate) sb_agblocks: U32,
    pub(crate) sb_agcount: U32,
    pub(crate) sb_rbmblocks: U32,
    pub(crate) sb_logblocks: U32,
    pub(crate) sb_versionnum: U16,
    pub(crate) sb_sectsize: U16,
    pub(crate) sb_inodesize: U16,
    pub(crate) sb_inopblock: U16,
    pub(crate) sb_fname: [u8; 12],
    pub(crate) sb_blocklog: u8,
    pub(crate) sb_sectlog: u8,
    pub(crate) sb_inodelog: u8,
    pub(crate) sb_inopblog: u8,
    pub(crate) sb_agblklog: u8,
    pub(crate) sb_rextslog: u8,
    pub(crate) sb_inprogress: u8,
    pub(crate) sb_imax_pct: u8,
    pub(crate) sb_icount: U64,
    pub(crate) sb_ifree: U64,
    pub(crate) sb_fdblocks: U64,
    pub(crate) sb_frextents: U64,
    pub(crate) sb_uquotino: U64,
    pub(crate) sb_gquotino: U64,
    pub(crate) sb_qflags: U16,
    pub(crate) sb_flags: u8,
    pub(crate) sb_shared_vn: u8,
    pub(crate) sb_inoalignmt: U32,
    pub(crate) sb_unit: U32,
    pub(crate) sb_width: U32,
    pub(crate) sb_dirblklog: u8,
    pub(crate) sb_logsectlog: u8,
    pub(crate) sb_logsectsize: U16,
    pub(crate) sb_logsunit: U32,
    pub(crate) sb_features2: U32,
    pub(crate) sb_bad_features2: U32,
    pub(crate) sb_features_compat: U32,
    pub(crate) sb_features_ro_compat: U32,
    pub(crate) sb_features_incompat: U32,
    pub(crate) sb_features_log_incompat: U32,
    pub(crate) sb_crc: [u8; 4],
    pub(crate) sb_spino_align: U32,
    pub(crate) sb_pquotino: U64,
    pub(crate) sb_lsn: U64,
    pub(crate) sb_meta_uuid: [u8; 16],
}

/// The offset of `sb_crc`, which covers the whole sector.
pub(crate) const CRC_OFFSET: usize = 224;
/// The length of the structure.
pub(crate) const SIZE_BYTES: usize = size_of::<RawSuperblock>();

const _: () = assert!(SIZE_BYTES == 264);
