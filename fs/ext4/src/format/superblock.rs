//! The superblock of a new filesystem.

use zerocopy::FromZeros;
use zerocopy::little_endian::U32;

use super::geometry::Geometry;
use super::options::FormatOptions;
use crate::bytes::{array, put, split32, split64};
use crate::checksum::ChecksumSeed;
use crate::error::{Error, ErrorKind, Result};
use crate::features::{Features, Incompatible, ReadOnlyCompatible};
use crate::superblock::{self, MAGIC, RawSuperblock, STATE_VALID};

/// `EXT2_DEFM_XATTR_USER` and `EXT2_DEFM_ACL`: the default mount options of mke2fs.
const MOUNT_OPTIONS: u32 = 0x4 | 0x8;
/// The behaviour after errors: to continue, `EXT2_ERRORS_CONTINUE`.
const ERRORS_CONTINUE: u16 = 1;
/// The number of mounts before a check: never.
const MOUNTS_MAX: u16 = u16::MAX;
/// The first inode that is not reserved, `EXT2_GOOD_OLD_FIRST_INO`.
pub(super) const FIRST_INODE: u32 = 11;
/// The size of the inode's fields after the first 128 bytes.
pub(super) const EXTRA_INODE_BYTES: u16 = 32;
/// The hash of directory names: half MD4, `EXT2_HASH_HALF_MD4`.
const HASH_HALF_MD4: u8 = 1;
/// The encoding of names with `casefold`: `EXT4_ENC_UTF8_12_1`.
const ENCODING_UTF8: u16 = 1;
/// The default modes of encryption: AES-256-XTS for contents, AES-256-CTS for names.
const ENCRYPTION_MODES: [u8; 4] = [1, 4, 0, 0];
/// The ext4 features with which mke2fs begins to count the kilobytes that were written.
const COUNTED_WRITES: ReadOnlyCompatible = ReadOnlyCompatible::HUGE_FILE
    .union(ReadOnlyCompatible::GDT_CSUM)
    .union(ReadOnlyCompatible::DIR_NLINK)
    .union(ReadOnlyCompatible::METADATA_CSUM)
    .union(ReadOnlyCompatible::EXTRA_ISIZE);

/// Returns the superblock, complete except for what depends on the allocation of blocks.
///
/// # Errors
/// `Invalid` if the label is too long.
pub(super) fn new(options: &FormatOptions, geometry: &Geometry) -> Result<RawSuperblock> {
    let mut raw = RawSuperblock::new_zeroed();
    raw.s_magic.set(MAGIC);
    raw.s_state.set(STATE_VALID);
    raw.s_errors.set(ERRORS_CONTINUE);
    raw.s_max_mnt_count.set(MOUNTS_MAX);
    raw.s_rev_level.set(1);
    raw.s_first_ino.set(FIRST_INODE);
    raw.s_default_mount_opts.set(MOUNT_OPTIONS);
    raw.s_volume_name = label(&options.label)?;
    set_sizes(&mut raw, geometry);
    set_features(&mut raw, geometry.features, options);
    set_identity(&mut raw, geometry.features, options);
    set_time(&mut raw, options);
    raw.s_raid_stride.set(options.extended.stride_blocks);
    raw.s_raid_stripe_width
        .set(options.extended.stripe_width_blocks);
    Ok(raw)
}

fn label(text: &str) -> Result<[u8; 16]> {
    let mut label = [0; 16];
    if text.len() > label.len() || text.contains('\0') {
        let reason = "invalid label: ext4 allows at most 16 bytes";
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    put(&mut label, 0, text.as_bytes());
    Ok(label)
}

fn set_sizes(raw: &mut RawSuperblock, geometry: &Geometry) {
    let log = geometry.block_size.bits().saturating_sub(10);
    raw.s_log_block_size.set(log);
    raw.s_log_cluster_size
        .set(log.saturating_add(geometry.cluster_bits));
    raw.s_first_data_block.set(geometry.first_data_block);
    raw.s_blocks_per_group.set(geometry.blocks_per_group);
    let clusters = geometry
        .blocks_per_group
        .wrapping_shr(geometry.cluster_bits);
    raw.s_clusters_per_group.set(clusters);
    raw.s_inodes_per_group.set(geometry.inodes_per_group);
    let inodes = geometry.groups.saturating_mul(geometry.inodes_per_group);
    raw.s_inodes_count.set(inodes);
    set_wide(
        &mut raw.s_blocks_count_hi,
        &mut raw.s_blocks_count_lo,
        geometry.blocks_count,
    );
    set_wide(
        &mut raw.s_r_blocks_count_hi,
        &mut raw.s_r_blocks_count_lo,
        geometry.reserved_blocks,
    );
    raw.s_inode_size.set(geometry.inode_bytes);
    if geometry.inode_bytes > 128 {
        raw.s_min_extra_isize.set(EXTRA_INODE_BYTES);
        raw.s_want_extra_isize.set(EXTRA_INODE_BYTES);
    }
    if geometry.features.has(Incompatible::SIXTY_FOUR_BIT) {
        raw.s_desc_size.set(geometry.descriptor_bytes);
    }
    raw.s_reserved_gdt_blocks.set(geometry.reserved_gdt_blocks);
    raw.s_log_groups_per_flex = u8::try_from(geometry.flex_bits).unwrap_or(0);
    raw.s_backup_bgs = geometry.backup_groups.map(U32::new);
}

/// Sets both halves of a block count.
pub(super) fn set_wide(high: &mut U32, low: &mut U32, value: u64) {
    let (upper, lower) = split64(value);
    high.set(upper);
    low.set(lower);
}

fn set_features(raw: &mut RawSuperblock, features: Features, options: &FormatOptions) {
    raw.s_feature_compat.set(features.compatible.bits());
    raw.s_feature_incompat.set(features.incompatible.bits());
    raw.s_feature_ro_compat
        .set(features.read_only_compatible.bits());
    if features.has(ReadOnlyCompatible::METADATA_CSUM) {
        raw.s_checksum_type = superblock::CHECKSUM_CRC32C;
    }
    if features.has(Incompatible::ENCRYPT) {
        raw.s_encrypt_algos = ENCRYPTION_MODES;
    }
    if features.has(Incompatible::CASEFOLD) {
        raw.s_encoding.set(ENCODING_UTF8);
        let strict = u16::from(options.extended.strict_encoding);
        raw.s_encoding_flags
            .set(strict.wrapping_mul(superblock::ENCODING_STRICT));
    }
    let counts = features.read_only_compatible.intersects(COUNTED_WRITES);
    if counts || features.has(Incompatible::FLEX_BG) {
        raw.s_kbytes_written.set(1);
    }
}

fn set_identity(raw: &mut RawSuperblock, features: Features, options: &FormatOptions) {
    raw.s_uuid = options.uuid;
    if features.has(Incompatible::CSUM_SEED) {
        raw.s_checksum_seed
            .set(ChecksumSeed::of_uuid(&options.uuid).0);
    }
    for (nth, word) in raw.s_hash_seed.iter_mut().enumerate() {
        let bytes = array(&options.hash_seed, nth.saturating_mul(4)).unwrap_or_default();
        *word = U32::from_bytes(bytes);
    }
    raw.s_def_hash_version = HASH_HALF_MD4;
    let mut flags = superblock::FLAG_SIGNED_HASH;
    if options.extended.test_filesystem {
        flags |= superblock::FLAG_TEST;
    }
    raw.s_flags.set(flags);
}

fn set_time(raw: &mut RawSuperblock, options: &FormatOptions) {
    const WTIME: usize = 0;
    const MKFS_TIME: usize = 2;
    const LASTCHECK: usize = 3;
    let (high, low) = split64(options.time.seconds.cast_unsigned());
    let [high, ..] = high.to_le_bytes();
    raw.s_wtime.set(low);
    raw.s_mkfs_time.set(low);
    raw.s_lastcheck.set(low);
    for nth in [WTIME, MKFS_TIME, LASTCHECK] {
        put(&mut raw.s_time_hi, nth, &[high]);
    }
}

/// Sets the copy of the journal's inode that e2fsck uses if the inode is damaged.
pub(super) fn set_journal(raw: &mut RawSuperblock, number: u32, i_block: &[u8; 60], bytes: u64) {
    /// The kind of copy: the whole `i_block`, `EXT3_JNL_BACKUP_BLOCKS`.
    const BACKUP_BLOCKS: u8 = 1;
    raw.s_journal_inum.set(number);
    raw.s_jnl_backup_type = BACKUP_BLOCKS;
    let (high, low) = split64(bytes);
    let words = i_block
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| u32::from_le_bytes(bytes));
    let words = words.chain([high, low]);
    for (place, word) in raw.s_jnl_blocks.iter_mut().zip(words) {
        place.set(word);
    }
}

/// Returns the bytes of the copy for a group, with their checksum.
pub(super) fn bytes_for_group(raw: &mut RawSuperblock, group: u32) -> [u8; 1024] {
    let (high, low) = split32(group);
    raw.s_block_group_nr
        .set(if high == 0 { low } else { u16::MAX });
    // A backup is never marked clean, so that e2fsck checks a filesystem that was restored from it.
    let state = if group == 0 { STATE_VALID } else { 0 };
    raw.s_state.set(state);
    superblock::sealed(raw)
}
