//! Parsing and checking of single fields of the superblock.

use diskfs_vfs::Error;

use crate::block::BlockSize;
use crate::bytes::join64;
use crate::checksum::{ChecksumSeed, crc32c};
use crate::error::{Corrupt, Result, Structure, Unsupported};
use crate::features::{Compatible, Features, Incompatible, ReadOnlyCompatible};
use crate::htree::{Algorithm, HashSignedness};

use super::{
    CHECKSUM_CRC32C, FLAG_SIGNED_HASH, FLAG_UNSIGNED_HASH, FilesystemState, MAGIC, RawSuperblock,
    STATE_ERRORS, STATE_VALID, raw,
};

pub(super) fn field(field: &'static str, value: u64, range: &'static str) -> Error {
    Corrupt::Field {
        structure: Structure::Superblock,
        field,
        value,
        range,
    }
    .into()
}

pub(super) fn check_magic(raw: &RawSuperblock) -> Result<()> {
    let actual = raw.s_magic.get();
    if actual == MAGIC {
        return Ok(());
    }
    Err(Corrupt::Magic {
        structure: Structure::Superblock,
        expected: u32::from(MAGIC),
        actual: u32::from(actual),
    }
    .into())
}

/// Returns the feature words, unless they contain features that prevent reading.
pub(super) fn features(raw: &RawSuperblock) -> Result<Features> {
    // Revision 0 has no feature words: the bytes there are undefined.
    let (compatible, incompatible, read_only) = match raw.s_rev_level.get() {
        0 => (0, 0, 0),
        1 => (
            raw.s_feature_compat.get(),
            raw.s_feature_incompat.get(),
            raw.s_feature_ro_compat.get(),
        ),
        other => return Err(Unsupported::Revision(other).into()),
    };
    let features = Features {
        compatible: Compatible::from_bits_retain(compatible),
        incompatible: Incompatible::from_bits_retain(incompatible),
        read_only_compatible: ReadOnlyCompatible::from_bits_retain(read_only),
    };
    if features.has(Incompatible::JOURNAL_DEV) {
        return Err(Unsupported::JournalDevice.into());
    }
    let unreadable = features.unreadable_names();
    if !unreadable.is_empty() {
        return Err(Unsupported::Features(unreadable).into());
    }
    Ok(features)
}

/// Returns the seed of the checksums, after checking the superblock's own checksum; `None` without
/// `metadata_csum`.
pub(super) fn checksum_seed(
    raw: &RawSuperblock,
    features: Features,
    bytes: &[u8; raw::SIZE_BYTES],
) -> Result<Option<ChecksumSeed>> {
    if !features.has(ReadOnlyCompatible::METADATA_CSUM) {
        return Ok(None);
    }
    if raw.s_checksum_type != CHECKSUM_CRC32C {
        let value = u64::from(raw.s_checksum_type);
        return Err(field("s_checksum_type", value, "1 (CRC-32C)"));
    }
    let covered = bytes.get(..raw::CHECKED_BYTES).unwrap_or_default();
    let expected = crc32c(u32::MAX, covered);
    let actual = raw.s_checksum.get();
    if expected != actual {
        return Err(Corrupt::Checksum {
            structure: Structure::Superblock,
            expected,
            actual,
        }
        .into());
    }
    Ok(Some(seed(raw, features)))
}

pub(super) fn seed(raw: &RawSuperblock, features: Features) -> ChecksumSeed {
    if features.has(Incompatible::CSUM_SEED) {
        ChecksumSeed(raw.s_checksum_seed.get())
    } else {
        ChecksumSeed::of_uuid(&raw.s_uuid)
    }
}

pub(super) fn block_size(raw: &RawSuperblock) -> Result<BlockSize> {
    let log = raw.s_log_block_size.get();
    BlockSize::from_log(log).ok_or_else(|| field("s_log_block_size", u64::from(log), "0 to 6"))
}

pub(super) fn cluster_ratio_bits(raw: &RawSuperblock, features: Features) -> Result<u32> {
    /// `EXT4_MAX_CLUSTER_LOG_SIZE`, 1 GiB.
    const LOG_MAX: u32 = 30;
    if !features.has(ReadOnlyCompatible::BIGALLOC) {
        return Ok(0);
    }
    let log = raw.s_log_cluster_size.get();
    match log.checked_sub(raw.s_log_block_size.get()) {
        Some(bits) if log <= LOG_MAX.saturating_sub(10) => Ok(bits),
        _ => Err(field(
            "s_log_cluster_size",
            u64::from(log),
            "a value from s_log_block_size to 20",
        )),
    }
}

/// Returns a block count: its upper half is valid only with `64bit`.
pub(super) fn wide(features: Features, high: u32, low: u32) -> u64 {
    if features.has(Incompatible::SIXTY_FOUR_BIT) {
        join64(high, low)
    } else {
        u64::from(low)
    }
}

pub(super) fn flex_group_bits(raw: &RawSuperblock, features: Features) -> u32 {
    let bits = u32::from(raw.s_log_groups_per_flex);
    // The value only improves placement; the kernel ignores an invalid one.
    if features.has(Incompatible::FLEX_BG) && bits < u32::BITS {
        bits
    } else {
        0
    }
}

pub(super) fn inode_size(raw: &RawSuperblock, block_size: BlockSize) -> Result<u16> {
    if raw.s_rev_level.get() == 0 {
        return Ok(128);
    }
    let size = raw.s_inode_size.get();
    if size < 128 || !size.is_power_of_two() || usize::from(size) > block_size.len() {
        let range = "a power of two from 128 to the block size";
        return Err(field("s_inode_size", u64::from(size), range));
    }
    Ok(size)
}

pub(super) fn first_inode(raw: &RawSuperblock) -> Result<u32> {
    const GOOD_OLD_FIRST_INO: u32 = 11;
    if raw.s_rev_level.get() == 0 {
        return Ok(GOOD_OLD_FIRST_INO);
    }
    let first = raw.s_first_ino.get();
    if first < GOOD_OLD_FIRST_INO {
        return Err(field("s_first_ino", u64::from(first), "11 or more"));
    }
    Ok(first)
}

pub(super) fn descriptor_size(
    raw: &RawSuperblock,
    features: Features,
    block_size: BlockSize,
) -> Result<u16> {
    if !features.has(Incompatible::SIXTY_FOUR_BIT) {
        return Ok(32);
    }
    let size = raw.s_desc_size.get();
    if size < 64 || !size.is_power_of_two() || usize::from(size) > block_size.len() {
        let range = "a power of two from 64 to the block size";
        return Err(field("s_desc_size", u64::from(size), range));
    }
    Ok(size)
}

pub(super) fn orphan_file_inode(raw: &RawSuperblock, features: Features) -> u32 {
    if features.has(Compatible::ORPHAN_FILE) {
        raw.s_orphan_file_inum.get()
    } else {
        0
    }
}

/// Returns the size of the extra fields that the kernel gives new inodes: all fields that it knows,
/// or more if the superblock asks for it and there is room.
pub(super) fn want_extra_isize(raw: &RawSuperblock, features: Features) -> u16 {
    const KNOWN: u16 = 32;
    let room = raw.s_inode_size.get().saturating_sub(128);
    if raw.s_rev_level.get() == 0 || room == 0 {
        return 0;
    }
    let asked = if features.has(ReadOnlyCompatible::EXTRA_ISIZE) {
        raw.s_want_extra_isize
            .get()
            .max(raw.s_min_extra_isize.get())
    } else {
        0
    };
    let size = KNOWN.max(asked);
    // A field's size is a multiple of 4; a size that does not fit is ignored, as in Linux.
    if size > room || size & 3 != 0 {
        KNOWN
    } else {
        size
    }
}

pub(super) fn hash_signedness(raw: &RawSuperblock) -> HashSignedness {
    let flags = raw.s_flags.get();
    // If neither flag is set, the kernel decides by its own `char`, which is signed on x86. Most
    // images come from there.
    if flags & FLAG_UNSIGNED_HASH != 0 && flags & FLAG_SIGNED_HASH == 0 {
        HashSignedness::Unsigned
    } else {
        HashSignedness::Signed
    }
}

pub(super) fn default_hash(raw: &RawSuperblock) -> Option<Algorithm> {
    match raw.s_def_hash_version {
        0 => Some(Algorithm::Legacy),
        1 => Some(Algorithm::HalfMd4),
        2 => Some(Algorithm::Tea),
        _ => None,
    }
}

pub(super) fn state(raw: &RawSuperblock) -> FilesystemState {
    let state = raw.s_state.get();
    FilesystemState {
        clean: state & STATE_VALID != 0,
        errors: state & STATE_ERRORS != 0,
        error_count: raw.s_error_count.get(),
        orphans: raw.s_last_orphan.get() != 0,
    }
}
