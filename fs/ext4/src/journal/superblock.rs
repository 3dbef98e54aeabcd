//! `journal_superblock_t`: block 0 of the journal, versions 1 and 2.

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

pub(super) use stored::{LogState, StoredSuperblock};

/// The size of the journal's superblock, whatever the block size.
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
    // From here on with version 2 only.
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

/// The most blocks of a journal that this driver replays: 4 GiB of 4 KiB blocks. `mke2fs` makes
/// none above 1 GiB unless it is told to. It bounds what a replay keeps in memory to 64 MiB, and
/// that only for a journal of scattered blocks that is full to the last; a usual one takes
/// kilobytes.
const JOURNAL_BLOCKS_MAX: u32 = 1 << 20;
/// `JBD2_CRC32C_CHKSUM`, the only `s_checksum_type` with versions 2 and 3.
const CHECKSUM_CRC32C: u8 = 4;
/// `JBD2_DEFAULT_FAST_COMMIT_BLOCKS`: what `s_num_fc_blks` of 0 stands for.
const FAST_COMMIT_BLOCKS_DEFAULT: u32 = 256;
/// `JBD2_MIN_JOURNAL_BLOCKS`: the log keeps as many, or there is no area for fast commits.
const LOG_BLOCKS_MIN: u32 = 1024;

/// A journal superblock whose fields hold together.
#[derive(Debug, Clone)]
pub(super) struct JournalSuperblock {
    /// Blocks in the whole journal, this one among them.
    pub(super) len_blocks: u32,
    /// The first block of the log.
    pub(super) first: LogBlock,
    /// The block behind the last one of the log, where it starts over at `first`.
    pub(super) end: LogBlock,
    /// Where the oldest transaction begins; `None` when the log is empty.
    pub(super) start: Option<LogBlock>,
    /// The oldest transaction's number.
    pub(super) sequence: Sequence,
    /// The blocks of the fast commits; `None` without the feature.
    pub(super) fast_commits: Option<std::ops::Range<u32>>,
    pub(super) checksums: Checksums,
    pub(super) block_checksum: BlockChecksum,
    pub(super) tag_form: TagForm,
    pub(super) record_width: RecordWidth,
}

impl JournalSuperblock {
    /// Checks a journal superblock against the filesystem's block size.
    pub(super) fn parse(bytes: &[u8], size: BlockSize) -> Result<Self> {
        let raw = RawJournalSuperblock::ref_from_bytes(bytes)
            .map_err(|_| corrupt_superblock("it is cut short"))?;
        let words = feature_words(raw)?;
        let checksums = Checksums::from_features(words.compatible, words.incompatible)
            .ok_or_else(|| corrupt_superblock("it has checksums of more than one version"))?;
        // Before the features are believed: unsupported is another matter than corrupt.
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

    /// How many blocks the log has.
    pub(super) fn log_blocks(&self) -> u32 {
        self.end.0.saturating_sub(self.first.0)
    }

    fn with_checked_bounds(self) -> Result<Self> {
        let (first, end) = (self.first.0, self.end.0);
        if first == 0 || first >= end {
            return Err(corrupt_superblock(format_args!(
                "s_first is {first}, outside of the log's 1 to {end}"
            )));
        }
        if let Some(start) = self.start
            && !(first..end).contains(&start.0)
        {
            return Err(corrupt_superblock(format_args!(
                "s_start is {start}, outside of the log's {first} to {end}"
            )));
        }
        if self.len_blocks > JOURNAL_BLOCKS_MAX {
            let blocks = self.len_blocks;
            return Err(unsupported(format_args!(
                "its {blocks} blocks are more than the {JOURNAL_BLOCKS_MAX} that are replayed"
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
        Err(unsupported(format_args!(
            "it has features that this driver lacks: {names}"
        )))
    }
}

/// The features; none with version 1, where their words did not exist.
fn feature_words(raw: &RawJournalSuperblock) -> Result<FeatureWords> {
    let magic = raw.header.h_magic.get();
    if magic != MAGIC {
        return Err(corrupt_superblock(format_args!(
            "the magic is {magic:#x}, not {MAGIC:#x}"
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
                "its block type is {other:?}"
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
            "its blocks are {block_size} bytes, the filesystem's {expected}"
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
            "s_checksum_type is {kind}, not {CHECKSUM_CRC32C}, which is CRC-32C"
        )));
    }
    let expected = checksum_of(bytes);
    let actual = raw.s_checksum.get();
    if actual != expected {
        return Err(corrupt_superblock(format_args!(
            "it has checksum {actual:#x}, its bytes say {expected:#x}"
        )));
    }
    Ok(())
}

/// The checksum of a superblock, in which its own bytes count as zeroes.
fn checksum_of(bytes: &[u8]) -> u32 {
    let field = offset_of!(RawJournalSuperblock, s_checksum);
    let before = bytes.get(..field).unwrap_or_default();
    let after = bytes.get(field.saturating_add(4)..).unwrap_or_default();
    crc32c(crc32c(crc32c(u32::MAX, before), &[0; 4]), after)
}

/// Where the log ends, and which blocks behind it are the fast commits'. One block between the two
/// belongs to neither.
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

    /// A superblock of version 2: 4 KiB blocks, 2048 of them, log from 1, start at 5, transaction 7.
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

    /// Makes the checksum right.
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
            (0xc, 1024, "1024 bytes"),
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
            (0x10, u32::MAX, "4294967295 blocks are more than"),
        ];
        for (offset, value, says) in cases {
            let e = with(&[(offset, value)]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
            assert!(e.to_string().contains(says), "{e}");
        }
    }
}
