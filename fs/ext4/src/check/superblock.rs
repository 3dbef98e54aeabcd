//! The superblock's fields that don't prevent reading, and the journal.

use std::sync::Arc;

use diskfs_block::BlockRead;
use zerocopy::FromBytes;

use super::finding::{FindingKind, FindingPlace};
use super::report::Findings;
use crate::error::{ErrorKind, Result, Structure, device_failed, malformed};
use crate::features::{Compatible, Incompatible, ReadOnlyCompatible};
use crate::recovery::open_journal;
use crate::superblock::{OFFSET_BYTES, RawSuperblock, SIZE_BYTES, Superblock};

/// The reserved inodes that are quota files: `EXT4_USR_QUOTA_INO` and `EXT4_GRP_QUOTA_INO`.
const QUOTA_INODES: [u32; 2] = [3, 4];
/// The size of an inode without extra fields, `EXT4_GOOD_OLD_INODE_SIZE`.
const GOOD_OLD_INODE_BYTES: u16 = 128;
/// The minimum of `i_extra_isize`: that field and `i_checksum_hi`.
const EXTRA_BYTES_MIN: u16 = 4;

/// The bytes of the superblock.
#[derive(Debug)]
pub(super) struct SuperblockBytes([u8; SIZE_BYTES]);

impl SuperblockBytes {
    /// Reads the superblock.
    pub(super) fn read(device: &dyn BlockRead) -> Result<Self> {
        let mut bytes = [0; SIZE_BYTES];
        device
            .read_at(OFFSET_BYTES, &mut bytes)
            .map_err(device_failed)?;
        Ok(Self(bytes))
    }

    /// Returns the fields.
    pub(super) fn raw(&self) -> Result<&RawSuperblock> {
        RawSuperblock::ref_from_bytes(&self.0)
            .map_err(|_| malformed(Structure::Superblock, "truncated"))
    }
}

/// Checks the fields that were not checked when the superblock was read.
pub(super) fn check(superblock: &Superblock, raw: &RawSuperblock, findings: &Findings) {
    let features = superblock.features;
    let half = superblock.blocks_count.wrapping_div(2);
    let reserved = superblock.reserved_blocks_count;
    let gdt_blocks = superblock.reserved_gdt_blocks;
    let is_resizable = features.has(Compatible::RESIZE_INODE);
    let has_journal = features.has(Compatible::HAS_JOURNAL);
    let per_block = superblock.block_size.bytes().wrapping_shr(2);
    let problems = [
        (
            reserved > half,
            format!("s_r_blocks_count is {reserved}, expected at most {half}"),
        ),
        (
            !is_resizable && gdt_blocks != 0,
            format!("s_reserved_gdt_blocks is {gdt_blocks}, expected 0 without `resize_inode`"),
        ),
        (
            u32::from(gdt_blocks) > per_block,
            format!("s_reserved_gdt_blocks is {gdt_blocks}, expected at most {per_block}"),
        ),
        (
            is_resizable && features.has(Incompatible::META_BG),
            "the features `resize_inode` and `meta_bg` exclude each other".into(),
        ),
        (
            features.has(ReadOnlyCompatible::METADATA_CSUM)
                && features.has(ReadOnlyCompatible::GDT_CSUM),
            "the features `metadata_csum` and `uninit_bg` exclude each other".into(),
        ),
        (
            features.has(Incompatible::CSUM_SEED)
                && !features.has(ReadOnlyCompatible::METADATA_CSUM),
            "the feature `metadata_csum_seed` needs `metadata_csum`".into(),
        ),
        (
            !has_journal && features.has(Incompatible::NEEDS_RECOVERY),
            "the feature `needs_recovery` is set without `has_journal`".into(),
        ),
        (
            !has_journal && superblock.journal_inode != 0,
            format!(
                "s_journal_inum is {}, expected 0 without `has_journal`",
                superblock.journal_inode
            ),
        ),
        (
            has_journal && superblock.journal_inode == 0 && raw.s_journal_dev.get() == 0,
            "the feature `has_journal` is set, but the superblock names no journal".into(),
        ),
    ];
    let problems = problems
        .into_iter()
        .chain(special_fields(superblock, raw))
        .chain(extra_sizes(superblock, raw));
    for (is_problem, detail) in problems {
        if is_problem {
            let place = FindingPlace::filesystem();
            findings.add(FindingKind::SuperblockField, place, detail);
        }
    }
}

/// Returns whether fields that few features use are invalid, and why.
fn special_fields(superblock: &Superblock, raw: &RawSuperblock) -> [(bool, String); 4] {
    let features = superblock.features;
    let has_quota = features.has(ReadOnlyCompatible::QUOTA);
    let first_meta_bg = raw.s_first_meta_bg.get();
    let table_bytes =
        u64::from(superblock.groups_count).saturating_mul(u64::from(superblock.descriptor_size));
    let table_blocks = superblock.block_size.blocks_for(table_bytes);
    let quota = |field: &str, inode: u32| {
        let is_reserved = inode < superblock.first_inode && !QUOTA_INODES.contains(&inode);
        (
            has_quota && inode != 0 && (is_reserved || inode > superblock.inodes_count),
            format!("{field} is {inode}, which cannot be a quota file"),
        )
    };
    [
        (
            features.has(Incompatible::META_BG) && u64::from(first_meta_bg) > table_blocks,
            format!("s_first_meta_bg is {first_meta_bg}, expected at most {table_blocks}"),
        ),
        quota("s_usr_quota_inum", raw.s_usr_quota_inum.get()),
        quota("s_grp_quota_inum", raw.s_grp_quota_inum.get()),
        quota("s_prj_quota_inum", raw.s_prj_quota_inum.get()),
    ]
}

/// Returns whether the sizes of extra fields for new inodes are invalid, and why.
fn extra_sizes(superblock: &Superblock, raw: &RawSuperblock) -> [(bool, String); 2] {
    let max = superblock.inode_size.saturating_sub(GOOD_OLD_INODE_BYTES);
    let size = |field: &str, value: u16| {
        let is_valid = (EXTRA_BYTES_MIN..=max).contains(&value) && value.is_multiple_of(4);
        (
            max > 0 && value != 0 && !is_valid,
            format!("{field} is {value}, expected a multiple of 4 up to {max}"),
        )
    };
    [
        size("s_min_extra_isize", raw.s_min_extra_isize.get()),
        size("s_want_extra_isize", raw.s_want_extra_isize.get()),
    ]
}

/// Returns the notes about properties that the check leaves out.
pub(super) fn notes(superblock: &Superblock, raw: &RawSuperblock) -> Vec<String> {
    let features = superblock.features;
    let notes = [
        (
            superblock.state.errors,
            "the superblock records errors that the kernel found",
        ),
        (
            !superblock.state.clean && !features.has(Compatible::HAS_JOURNAL),
            "the filesystem was not unmounted cleanly",
        ),
        (
            raw.s_journal_dev.get() != 0,
            "the external journal is not checked",
        ),
        (
            features.has(Incompatible::ENCRYPT),
            "the contents of encrypted files are not checked",
        ),
    ];
    let set = notes.into_iter().filter(|(is_set, _)| *is_set);
    set.map(|(_, note)| note.to_owned()).collect()
}

/// Checks the internal journal, which was not replayed: its inode and its superblock. Without
/// `needs_recovery` it must be empty.
pub(super) fn check_journal(
    device: &Arc<dyn BlockRead>,
    superblock: &Superblock,
    findings: &Findings,
) -> Result<()> {
    let features = superblock.features;
    if !features.has(Compatible::HAS_JOURNAL) || superblock.journal_inode == 0 {
        return Ok(());
    }
    let place = FindingPlace::inode(superblock.journal_inode);
    match open_journal(Arc::clone(device), superblock) {
        Ok(journal) => {
            if journal.has_transactions() && !features.has(Incompatible::NEEDS_RECOVERY) {
                let detail = "the journal has transactions, but `needs_recovery` is not set";
                findings.add(FindingKind::Journal, place, detail);
            }
            Ok(())
        }
        Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported) => {
            findings.add(FindingKind::Journal, place, e.to_string());
            Ok(())
        }
        Err(e) => Err(e),
    }
}
