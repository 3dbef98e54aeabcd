//! Orphans: inodes without a name, or whose truncation is not complete. Recovery deletes or
//! truncates them, so they are not inconsistencies.

use std::collections::HashSet;

use super::budget::Budget;
use super::finding::{FindingKind, FindingPlace};
use super::report::Findings;
use crate::block::{FileBlock, FsBlock};
use crate::bytes::le32;
use crate::error::{ErrorKind, Result};
use crate::features::ReadOnlyCompatible;
use crate::file_blocks::runs;
use crate::inode::Inode;
use crate::inode_table;
use crate::volume::Volume;

/// The magic of a block of the orphan file, `EXT4_ORPHAN_BLOCK_MAGIC`.
const MAGIC: u32 = 0x0b10_ca04;
/// The size of magic and checksum at a block's end.
const TAIL_BYTES: usize = 8;
/// The maximum size of the orphan file (`EXT4_MAX_ORPHAN_FILE_SIZE`).
const SIZE_MAX_BYTES: u64 = 8 << 20;

/// Returns all orphans, and checks the list and the file.
pub(super) fn read(volume: &Volume, findings: &Findings, budget: &Budget) -> Result<HashSet<u32>> {
    let mut orphans = list(volume, findings, budget)?;
    if volume.superblock.orphan_file_inode != 0 {
        file(volume, findings, budget, &mut orphans)?;
    }
    Ok(orphans)
}

fn found(findings: &Findings, inode: u32, detail: String) {
    findings.add(FindingKind::Orphan, FindingPlace::inode(inode), detail);
}

/// Follows the list from the superblock through `i_dtime` of the inodes.
fn list(volume: &Volume, findings: &Findings, budget: &Budget) -> Result<HashSet<u32>> {
    let superblock = &volume.superblock;
    let mut orphans = HashSet::new();
    let mut next = superblock.last_orphan;
    while next != 0 {
        let (first, last) = (superblock.first_inode, superblock.inodes_count);
        if next < first || next > last {
            let detail = format!("the orphan list has inode {next}, expected {first} to {last}");
            found(findings, next, detail);
            break;
        }
        budget.take::<[u32; 2]>(1)?;
        if !orphans.insert(next) {
            found(findings, next, "the orphan list has a loop".into());
            break;
        }
        match inode_table::read(volume, next) {
            Ok(Some(inode)) => next = inode.deleted,
            Ok(None) => {
                found(
                    findings,
                    next,
                    "the inode on the orphan list is not in use".into(),
                );
                break;
            }
            Err(e) if e.kind() == ErrorKind::Corrupt => {
                found(findings, next, e.to_string());
                break;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(orphans)
}

/// Reads the orphan file. Its blocks count only if `orphan_present` is set.
fn file(
    volume: &Volume,
    findings: &Findings,
    budget: &Budget,
    orphans: &mut HashSet<u32>,
) -> Result<()> {
    let number = volume.superblock.orphan_file_inode;
    let inode = match inode_table::read(volume, number) {
        Ok(Some(inode)) if inode.size_bytes <= SIZE_MAX_BYTES => inode,
        Err(e) if e.kind() != ErrorKind::Corrupt => return Err(e),
        _ => {
            found(
                findings,
                number,
                "the orphan file's inode is invalid".into(),
            );
            return Ok(());
        }
    };
    let features = volume.superblock.features;
    let is_present = features.has(ReadOnlyCompatible::ORPHAN_PRESENT);
    let mut numbers = Vec::new();
    for run in runs(volume, &inode, FileBlock(0)) {
        // An invalid tree is reported when the inode is checked.
        let Ok(run) = run else { break };
        for nth in 0..run.len_blocks {
            let block = run.fs_block.after(u64::from(nth));
            numbers.extend(block_numbers(volume, findings, &inode, block)?);
        }
    }
    for orphan in numbers {
        if !is_present {
            let detail = format!("the orphan file has inode {orphan}, expected no inode");
            found(findings, number, detail);
        } else if orphan < volume.superblock.first_inode || orphan > volume.superblock.inodes_count
        {
            let detail = format!("the orphan file has inode {orphan}, which is out of range");
            found(findings, number, detail);
        } else {
            budget.take::<[u32; 2]>(1)?;
            orphans.insert(orphan);
        }
    }
    Ok(())
}

/// Checks a block of the orphan file. Returns the inodes in it.
fn block_numbers(
    volume: &Volume,
    findings: &Findings,
    file: &Inode,
    block: FsBlock,
) -> Result<Vec<u32>> {
    let bytes = volume.read_blocks(block, 1)?;
    let end = bytes.len().saturating_sub(TAIL_BYTES);
    let slots = bytes.get(..end).unwrap_or_default();
    let magic = le32(&bytes, end).unwrap_or(0);
    let stored = le32(&bytes, end.saturating_add(4)).unwrap_or(0);
    let expected = file
        .checksum_seed
        .map_or(stored, |seed| seed.of(&[&block.0.to_le_bytes(), slots]));
    if magic != MAGIC || stored != expected {
        let detail = format!(
            "block {block} of the orphan file has magic {magic:#x} and checksum {stored:#x}, \
             expected {MAGIC:#x} and {expected:#x}"
        );
        found(findings, file.number, detail);
        return Ok(Vec::new());
    }
    let numbers = slots.as_chunks::<4>().0.iter();
    let numbers = numbers.map(|&bytes| u32::from_le_bytes(bytes));
    Ok(numbers.filter(|&number| number != 0).collect())
}
