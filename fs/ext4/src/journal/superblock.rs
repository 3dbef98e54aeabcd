//! `journal_superblock_t`: block 0 of the journal, versions 1 and 2.

mod new;
mod stored;

use std::mem::offset_of;

use diskfs_vfs::Result;
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::BlockSize;
use crate::checksum::crc32c;

use super::block_header::{BlockType, MAGIC, RawBlockHeader, Sequence};
use super::checksum::BlockChecksum;
use super::error::{corrupt_superblock, unsupported};
use super::features::{Checksums, Compatible, Incompatible, unknown_names};
use super::log::LogBlock;
use super::revocation::RecordWidth;
use super::tag::TagForm;

pub(crate) use new::new_superblock;
pub(super) use stored::{LogState, StoredSuperblock};

/// The size of the journal's superblock, independent of the block size.
pub(super) const SUPERBLOCK_BYTES: usize = size_of::<RawJournalSuperblock>();

/// The journal's superblock as it is stored.
#[derive(Debug, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawJournalSuperblock {
    header: RawBlockHeader,
    s_blocksize: U32,
    s_maxlen: U32,
    s_first: U32,
    s_sequence: U32,
    s_start: U32,
    s_errno: U32,
    // The fields from here on exist only in version 2.
    s_feature_compat: U32,
    s_feature_incompat: U32,
    s_feature_ro_compat: U32,
    s_uuid: [u8; 16],
    s_nr_users: U32,
    s_dynsuper: U32,
    s_max_transaction: U32,
    s_max_trans_data: U32,
    s_checksum_type: u8,
    s_padding2: [u8; 3],
    s_num_fc_blks: U32,
    s_head: U32,
    s_padding: [u8; 160],
    s_checksum: U32,
    s_users: [u8; 768],
}

const _: () = {
    assert!(SUPERBLOCK_BYTES == 1024);
    assert!(offset_of!(RawJournalSuperblock, s_uuid) == 0x30);
    assert!(offset_of!(RawJournalSuperblock, s_num_fc_blks) == 0x54);
    assert!(offset_of!(RawJournalSuperblock, s_checksum) == 0xfc);
};

/// The maximum number of blocks of a journal that this driver replays: 4 GiB of 4 KiB blocks.
/// `mke2fs` makes none above 1 GiB by default. This bounds the memory for a replay to 64 MiB, which
/// only a completely full journal of scattered blocks needs; a usual one needs kilobytes.
const JOURNAL_BLOCKS_MAX: u32 = 1 << 20;
/// `JBD2_CRC32C_CHKSUM`, the only valid `s_checksum_type` with checksums of versions 2 and 3.
const CHECKSUM_CRC32C: u8 = 4;
/// `JBD2_DEFAULT_FAST_COMMIT_BLOCKS`: the meaning of 0 in `s_num_fc_blks`.
const FAST_COMMIT_BLOCKS_DEFAULT: u32 = 256;
/// `JBD2_MIN_JOURNAL_BLOCKS`: the log keeps at least so many blocks, or there is no fast commit
/// area.
const LOG_BLOCKS_MIN: u32 = 1024;

/// A journal superblock whose fields were checked for consistency.
#[derive(Debug, Clone)]
pub(super) struct JournalSuperblock {
    /// The number of blocks in the whole journal, including this one.
    pub(super) len_blocks: u32,
    /// The first block of the log.
    pub(super) first: LogBlock,
    /// The block after the last one of the log, where it wraps around to `first`.
    pub(super) end: LogBlock,
    /// The start of the oldest transaction, or `None` if the log is empty.
    pub(super) start: Option<LogBlock>,
    /// The sequence number of the oldest transaction.
    pub(super) sequence: Sequence,
    /// The blocks of the fast commit area; `None` without the feature.
    pub(super) fast_commits: Option<std::ops::Range<u32>>,
    pub(super) checksums: Checksums,
    pub(super) block_checksum: BlockChecksum,
    pub(super) tag_form: TagForm,
    pub(super) record_width: RecordWidth,
}

impl JournalSuperblock {
    /// Parses a journal superblock, and checks it against the filesystem's block size.
    pub(super) fn parse(bytes: &[u8], size: BlockSize) -> Result<Self> {
        let raw = RawJournalSuperblock::ref_from_bytes(bytes)
            .map_err(|_| corrupt_superblock("truncated"))?;
        let words = feature_words(raw)?;
        let checksums = Checksums::from_features(words.compatible, words.incompatible)
            .ok_or_else(|| corrupt_superblock("it has checksums of more than one version"))?;
        // The checksum is checked before the features are used: a corrupt superblock must not be
        // reported as an unsupported one.
        check_checksum(raw, bytes, checksums)?;
        words.check_known()?;
        check_block_size(raw, size)?;
        let incompatible = words.incompatible;
        let (end, fast_commits) = areas(raw, incompatible);
        let wide = incompatible.contains(Incompatible::SIXTY_FOUR_BIT);
        let this = Self {
            len_blocks: raw.s_maxlen.get(),
            first: LogBlock(raw.s_first.get()),
            end: LogBlock(end),
            start: Some(LogBlock(raw.s_start.get())).filter(|start| start.0 != 0),
            sequence: Sequence(raw.s_sequence.get()),
            fast_commits,
            checksums,
            block_checksum: BlockChecksum::of_uuid(&raw.s_uuid),
            tag_form: TagForm::new(checksums, incompatible),
            record_width: if wide {
                RecordWidth::Bits64
            } else {
                RecordWidth::Bits32
            },
        };
        this.with_checked_bounds()
    }

    /// Returns the number of blocks of the log.
    pub(super) fn log_blocks(&self) -> u32 {
        self.end.0.saturating_sub(self.first.0)
    }

    fn with_checked_bounds(self) -> Result<Self> {
        let (first, end) = (self.first.0, self.end.0);
        if first == 0 || first >= end {
            return Err(corrupt_superblock(format_args!(
                "s_first is {first}, expected at least 1 and less than {end}"
            )));
        }
        if let Some(start) = self.start
            && !(first..end).contains(&start.0)
        {
            return Err(corrupt_superblock(format_args!(
                "s_start is {start}, expected at least {first} and less than {end}"
            )));
        }
        if self.len_blocks > JOURNAL_BLOCKS_MAX {
            let blocks = self.len_blocks;
            return Err(unsupported(format_args!(
                "it is too large: {blocks} blocks, at most {JOURNAL_BLOCKS_MAX} are replayed"
            )));
        }
        Ok(self)
    }
}

struct FeatureWords {
    compatible: Compatible,
    incompatible: Incompatible,
    read_only: u32,
}

impl FeatureWords {
    fn check_known(&self) -> Result<()> {
        let unknown = unknown_names(self.incompatible, self.read_only);
        if unknown.is_empty() {
            return Ok(());
        }
        let names = unknown.join(", ");
        Err(unsupported(format_args!("unsupported features: {names}")))
    }
}

/// Returns the features. Version 1 has none, because their fields did not exist.
fn feature_words(raw: &RawJournalSuperblock) -> Result<FeatureWords> {
    let magic = raw.header.h_magic.get();
    if magic != MAGIC {
        return Err(corrupt_superblock(format_args!(
            "magic is {magic:#x}, expected {MAGIC:#x}"
        )));
    }
    let (compatible, incompatible, read_only) = match raw.header.h_blocktype.get().into() {
        BlockType::SuperblockV1 => (0, 0, 0),
        BlockType::SuperblockV2 => (
            raw.s_feature_compat.get(),
            raw.s_feature_incompat.get(),
            raw.s_feature_ro_compat.get(),
        ),
        other => {
            return Err(corrupt_superblock(format_args!(
                "unexpected block type {other:?}"
            )));
        }
    };
    Ok(FeatureWords {
        compatible: Compatible::from_bits_retain(compatible),
        incompatible: Incompatible::from_bits_retain(incompatible),
        read_only,
    })
}

fn check_block_size(raw: &RawJournalSuperblock, size: BlockSize) -> Result<()> {
    let block_size = raw.s_blocksize.get();
    if block_size != size.bytes() {
        let expected = size.bytes();
        return Err(corrupt_superblock(format_args!(
            "s_blocksize is {block_size}, expected the filesystem's {expected}"
        )));
    }
    Ok(())
}

fn check_checksum(raw: &RawJournalSuperblock, bytes: &[u8], checksums: Checksums) -> Result<()> {
    if !checksums.per_block() {
        return Ok(());
    }
    if raw.s_checksum_type != CHECKSUM_CRC32C {
        let kind = raw.s_checksum_type;
        return Err(corrupt_superblock(format_args!(
            "s_checksum_type is {kind}, expected {CHECKSUM_CRC32C} (CRC-32C)"
        )));
    }
    let expected = checksum_of(bytes);
    let actual = raw.s_checksum.get();
    if actual != expected {
        return Err(corrupt_superblock(format_args!(
            "checksum is {actual:#x}, expected {expected:#x}"
        )));
    }
    Ok(())
}

/// Computes the checksum of a superblock, in which the checksum's bytes count as zeroes.
fn checksum_of(bytes: &[u8]) -> u32 {
    let field = offset_of!(RawJournalSuperblock, s_checksum);
    let before = bytes.get(..field).unwrap_or_default();
    let after = bytes.get(field.saturating_add(4)..).unwrap_or_default();
    crc32c(crc32c(crc32c(u32::MAX, before), &[0; 4]), after)
}

/// Returns where the log ends, and which blocks after it are the fast commit area. One block
/// between the two belongs to neither.
fn areas(
    raw: &RawJournalSuperblock,
    incompatible: Incompatible,
) -> (u32, Option<std::ops::Range<u32>>) {
    let len_blocks = raw.s_maxlen.get();
    if !incompatible.contains(Incompatible::FAST_COMMIT) {
        return (len_blocks, None);
    }
    let count = match raw.s_num_fc_blks.get() {
        0 => FAST_COMMIT_BLOCKS_DEFAULT,
        count => count,
    };
    match len_blocks.checked_sub(count) {
        Some(end) if end >= LOG_BLOCKS_MIN => (end, Some(end.saturating_add(1)..len_blocks)),
        _ => (len_blocks, Some(0..0)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use diskfs_vfs::ErrorKind;

    use super::*;

    /// Returns a superblock of version 2: 4 KiB blocks, 2048 of them, log from 1, start at 5,
    /// transaction 7.
    pub(crate) fn sample(compatible: u32, incompatible: u32) -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        let fields = [
            (0x0, MAGIC),
            (0x4, 4),
            (0xc, 4096),
            (0x10, 2048),
            (0x14, 1),
            (0x18, 7),
            (0x1c, 5),
            (0x24, compatible),
            (0x28, incompatible),
        ];
        for (offset, value) in fields {
            put(&mut bytes, offset, value);
        }
        if incompatible & 0x18 != 0 {
            bytes[0x50] = CHECKSUM_CRC32C;
        }
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn put(bytes: &mut [u8], offset: usize, value: u32) {
        bytes[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Updates the checksum.
    pub(crate) fn seal(bytes: &mut [u8]) {
        put(bytes, 0xfc, 0);
        let sum = crc32c(u32::MAX, bytes);
        put(bytes, 0xfc, sum);
    }

    fn parse(bytes: &[u8]) -> Result<JournalSuperblock> {
        JournalSuperblock::parse(bytes, BlockSize::from_log(2).unwrap())
    }

    fn with(changes: &[(usize, u32)]) -> Result<JournalSuperblock> {
        let mut bytes = sample(0, 0x13);
        for &(offset, value) in changes {
            put(&mut bytes, offset, value);
        }
        seal(&mut bytes);
        parse(&bytes)
    }

    #[test]
    fn a_sound_one_is_read() {
        let s = with(&[]).unwrap();
        assert_eq!(
            (s.first, s.end, s.start),
            (LogBlock(1), LogBlock(2048), Some(LogBlock(5)))
        );
        assert_eq!(s.sequence, Sequence(7));
        assert_eq!(s.checksums, Checksums::V3);
        assert_eq!(s.record_width, RecordWidth::Bits64);
        assert_eq!(s.fast_commits, None);
        assert_eq!(with(&[(0x1c, 0)]).unwrap().start, None);
    }

    #[test]
    fn version_1_has_no_features() {
        let mut bytes = sample(1, 0xffff_ffff);
        put(&mut bytes, 4, 3);
        let s = parse(&bytes).unwrap();
        assert_eq!(s.checksums, Checksums::None);
        assert_eq!(s.tag_form.size_bytes(), 8);
    }

    #[test]
    fn fast_commits_have_the_end_of_the_journal() {
        let s = with(&[(0x28, 0x33)]).unwrap();
        assert_eq!((s.end.0, s.fast_commits), (1792, Some(1793..2048)));
        let s = with(&[(0x28, 0x33), (0x54, 1024)]).unwrap();
        assert_eq!((s.end.0, s.fast_commits), (1024, Some(1025..2048)));
        for count in [1025, u32::MAX] {
            let s = with(&[(0x28, 0x33), (0x54, count)]).unwrap();
            assert_eq!((s.end.0, s.fast_commits), (2048, Some(0..0)));
        }
    }

    #[test]
    fn what_makes_no_sense_is_corrupt() {
        let cases = [
            (0x0, 1, "magic"),
            (0x4, 1, "block type"),
            (0xc, 1024, "s_blocksize is 1024"),
            (0x14, 0, "s_first"),
            (0x14, 2048, "s_first"),
            (0x1c, 2048, "s_start"),
            (0x1c, u32::MAX, "s_start"),
            (0x28, 0x1b, "more than one version"),
            (0x50, 0x0100_0000, "s_checksum_type"),
        ];
        for (offset, value, says) in cases {
            let e = with(&[(offset, value)]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
            assert!(e.to_string().contains(says), "{e} does not say {says}");
        }
        let mut bytes = sample(0, 0x13);
        bytes[0x200] = 1;
        assert!(parse(&bytes).unwrap_err().to_string().contains("checksum"));
        assert!(parse(&bytes[..1023]).is_err());
    }

    #[test]
    fn what_is_not_known_is_unsupported_by_name() {
        let cases = [
            (0x28, 0x40, "FEATURE_I6"),
            (0x2c, 1, "FEATURE_R0"),
            (0x10, u32::MAX, "4294967295 blocks, at most"),
        ];
        for (offset, value, says) in cases {
            let e = with(&[(offset, value)]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
            assert!(e.to_string().contains(says), "{e}");
        }
    }
}
