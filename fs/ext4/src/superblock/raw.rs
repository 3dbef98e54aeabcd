//! The bytes of the superblock, `struct ext4_super_block`.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Super Block". The
//! names of the fields are the specification's.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The 1024 bytes at byte 1024 of the device.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
pub(crate) struct RawSuperblock {
    pub(crate) s_inodes_count: U32,
    pub(crate) s_blocks_count_lo: U32,
    pub(crate) s_r_blocks_count_lo: U32,
    pub(crate) s_free_blocks_count_lo: U32,
    pub(crate) s_free_inodes_count: U32,
    pub(crate) s_first_data_block: U32,
    pub(crate) s_log_block_size: U32,
    pub(crate) s_log_cluster_size: U32,
    pub(crate) s_blocks_per_group: U32,
    pub(crate) s_clusters_per_group: U32,
    pub(crate) s_inodes_per_group: U32,
    pub(crate) s_mtime: U32,
    pub(crate) s_wtime: U32,
    pub(crate) s_mnt_count: U16,
    pub(crate) s_max_mnt_count: U16,
    pub(crate) s_magic: U16,
    pub(crate) s_state: U16,
    pub(crate) s_errors: U16,
    s_minor_rev_level: U16,
    pub(crate) s_lastcheck: U32,
    s_checkinterval: U32,
    pub(crate) s_creator_os: U32,
    pub(crate) s_rev_level: U32,
    s_def_resuid: U16,
    s_def_resgid: U16,
    pub(crate) s_first_ino: U32,
    pub(crate) s_inode_size: U16,
    pub(crate) s_block_group_nr: U16,
    pub(crate) s_feature_compat: U32,
    pub(crate) s_feature_incompat: U32,
    pub(crate) s_feature_ro_compat: U32,
    pub(crate) s_uuid: [u8; 16],
    pub(crate) s_volume_name: [u8; 16],
    s_last_mounted: [u8; 64],
    s_algorithm_usage_bitmap: U32,
    s_prealloc_blocks: u8,
    s_prealloc_dir_blocks: u8,
    pub(crate) s_reserved_gdt_blocks: U16,
    pub(crate) s_journal_uuid: [u8; 16],
    pub(crate) s_journal_inum: U32,
    pub(crate) s_journal_dev: U32,
    pub(crate) s_last_orphan: U32,
    pub(crate) s_hash_seed: [U32; 4],
    pub(crate) s_def_hash_version: u8,
    pub(crate) s_jnl_backup_type: u8,
    pub(crate) s_desc_size: U16,
    pub(crate) s_default_mount_opts: U32,
    pub(crate) s_first_meta_bg: U32,
    pub(crate) s_mkfs_time: U32,
    pub(crate) s_jnl_blocks: [U32; 17],
    pub(crate) s_blocks_count_hi: U32,
    pub(crate) s_r_blocks_count_hi: U32,
    pub(crate) s_free_blocks_count_hi: U32,
    pub(crate) s_min_extra_isize: U16,
    pub(crate) s_want_extra_isize: U16,
    pub(crate) s_flags: U32,
    pub(crate) s_raid_stride: U16,
    s_mmp_interval: U16,
    pub(crate) s_mmp_block: U64,
    pub(crate) s_raid_stripe_width: U32,
    pub(crate) s_log_groups_per_flex: u8,
    pub(crate) s_checksum_type: u8,
    s_encryption_level: u8,
    s_reserved_pad: u8,
    pub(crate) s_kbytes_written: U64,
    pub(crate) s_snapshot_inum: U32,
    s_snapshot_id: U32,
    s_snapshot_r_blocks_count: U64,
    s_snapshot_list: U32,
    pub(crate) s_error_count: U32,
    pub(crate) s_first_error_time: U32,
    pub(crate) s_first_error_ino: U32,
    pub(crate) s_first_error_block: U64,
    pub(crate) s_first_error_func: [u8; 32],
    pub(crate) s_first_error_line: U32,
    pub(crate) s_last_error_time: U32,
    pub(crate) s_last_error_ino: U32,
    pub(crate) s_last_error_line: U32,
    pub(crate) s_last_error_block: U64,
    pub(crate) s_last_error_func: [u8; 32],
    s_mount_opts: [u8; 64],
    pub(crate) s_usr_quota_inum: U32,
    pub(crate) s_grp_quota_inum: U32,
    pub(crate) s_overhead_clusters: U32,
    pub(crate) s_backup_bgs: [U32; 2],
    pub(crate) s_encrypt_algos: [u8; 4],
    s_encrypt_pw_salt: [u8; 16],
    s_lpf_ino: U32,
    pub(crate) s_prj_quota_inum: U32,
    pub(crate) s_checksum_seed: U32,
    pub(crate) s_time_hi: [u8; 6],
    pub(crate) s_error_codes: [u8; 2],
    pub(crate) s_encoding: U16,
    pub(crate) s_encoding_flags: U16,
    pub(crate) s_orphan_file_inum: U32,
    s_reserved: [U32; 94],
    pub(crate) s_checksum: U32,
}

/// The byte offset of the superblock on the device, independent of the block size.
pub(crate) const OFFSET_BYTES: u64 = 1024;
/// The size of the superblock.
pub(crate) const SIZE_BYTES: usize = 1024;
/// The number of bytes that the checksum covers: all before it.
pub(super) const CHECKED_BYTES: usize = std::mem::offset_of!(RawSuperblock, s_checksum);

const _: () = {
    assert!(size_of::<RawSuperblock>() == SIZE_BYTES);
    assert!(std::mem::offset_of!(RawSuperblock, s_magic) == 0x38);
    assert!(std::mem::offset_of!(RawSuperblock, s_feature_compat) == 0x5c);
    assert!(std::mem::offset_of!(RawSuperblock, s_journal_uuid) == 0xd0);
    assert!(std::mem::offset_of!(RawSuperblock, s_desc_size) == 0xfe);
    assert!(std::mem::offset_of!(RawSuperblock, s_blocks_count_hi) == 0x150);
    assert!(std::mem::offset_of!(RawSuperblock, s_checksum_type) == 0x175);
    assert!(std::mem::offset_of!(RawSuperblock, s_error_count) == 0x194);
    assert!(std::mem::offset_of!(RawSuperblock, s_overhead_clusters) == 0x248);
    assert!(std::mem::offset_of!(RawSuperblock, s_checksum_seed) == 0x270);
    assert!(std::mem::offset_of!(RawSuperblock, s_encoding) == 0x27c);
    assert!(CHECKED_BYTES == 0x3fc);
};
