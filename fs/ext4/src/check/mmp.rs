//! The block of multiple mount protection, `struct mmp_struct`.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Multiple Mount
//! Protection".

use super::finding::{FindingKind, FindingPlace};
use super::report::Findings;
use crate::block::FsBlock;
use crate::bytes::le32;
use crate::error::Result;
use crate::features::Incompatible;
use crate::superblock::RawSuperblock;
use crate::volume::Volume;

/// `EXT4_MMP_MAGIC`.
const MAGIC: u32 = 0x004d_4d50;
/// `EXT4_MMP_SEQ_CLEAN`: the filesystem was unmounted.
const SEQUENCE_CLEAN: u32 = 0xff4d_4d50;
/// `EXT4_MMP_SEQ_FSCK`: e2fsck runs, or was interrupted.
const SEQUENCE_FSCK: u32 = 0xe24d_4d50;
/// The offset of `mmp_seq`.
const SEQUENCE: usize = 4;
/// The offset of `mmp_checksum`, which covers all bytes before it.
const CHECKSUM: usize = 1020;

/// Checks the block. Returns a note if a kernel may have the filesystem mounted.
pub(super) fn check(
    volume: &Volume,
    raw: &RawSuperblock,
    findings: &Findings,
) -> Result<Option<String>> {
    let superblock = &volume.superblock;
    if !superblock.features.has(Incompatible::MMP) {
        return Ok(None);
    }
    let block = FsBlock(raw.s_mmp_block.get());
    let place = FindingPlace::filesystem().with_block(block.0);
    let found = |detail: String| {
        findings.add(FindingKind::MultipleMount, place.clone(), detail);
        Ok(None)
    };
    if !superblock.holds(block, 1) {
        return found(format!("s_mmp_block is {block}, outside of the filesystem"));
    }
    let bytes = volume.read_blocks(block, 1)?;
    let field = |offset: usize| le32(&bytes, offset).unwrap_or(0);
    let (magic, sequence) = (field(0), field(SEQUENCE));
    if magic != MAGIC {
        return found(format!("mmp_magic is {magic:#x}, expected {MAGIC:#x}"));
    }
    let covered = bytes.get(..CHECKSUM).unwrap_or_default();
    let expected = superblock.checksum_seed.map(|seed| seed.of(&[covered]));
    if let Some(expected) = expected
        && expected != field(CHECKSUM)
    {
        let stored = field(CHECKSUM);
        return found(format!(
            "mmp_checksum is {stored:#x}, expected {expected:#x}"
        ));
    }
    Ok(match sequence {
        SEQUENCE_CLEAN => None,
        SEQUENCE_FSCK => {
            return found("mmp_seq says that e2fsck runs, or was interrupted".into());
        }
        _ => Some("another machine may have the filesystem mounted (`mmp`)".into()),
    })
}
