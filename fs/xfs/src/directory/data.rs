//! Blocks of entries: those of the data part, and the one of the block form.
//!
//! A block is checked once, when it enters the cache: entries and free ranges follow each other
//! without gaps, and each entry is valid. So a walk over a cached block needs no more checks.
//!
//! Source: "XFS Algorithms & Data Structures", sections "Block Directories" and "Leaf Directories".

use crate::bytes::{array, be16, be32, be64, index, len_u64, part};
use crate::checksum;
use crate::error::{Result, corrupt};
use crate::inode::Inode;
use crate::superblock::{Superblock, basic_block};

use super::{ENTRY_ALIGNMENT, is_valid_name};

/// The structure's name in messages.
const NAME: &str = "directory block";
/// The length of the header in version 4 and 5.
const HEADER_BYTES: usize = 16;
const HEADER_V5_BYTES: usize = 64;
const CRC_OFFSET: usize = 4;
const BLOCK_OFFSET: usize = 8;
const UUID_OFFSET: usize = 24;
const OWNER_OFFSET: usize = 40;
/// `XFS_DIR2_DATA_FREE_TAG`, at the start of a free range.
const FREE_TAG: u16 = 0xffff;
/// The length of the tail of the block form: the numbers of index records, and of stale ones.
const TAIL_BYTES: usize = 8;
/// The length of a record of the index: hash and position.
const INDEX_RECORD_BYTES: usize = 8;

/// The form of a block, by its magic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataForm {
    /// Entries and their index: the block form.
    Block,
    /// Entries only.
    Data,
}

/// An entry of a checked block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataEntry<'a> {
    /// The offset in the block.
    pub(super) offset: usize,
    /// The offset after the entry.
    pub(super) end: usize,
    pub(super) name: &'a [u8],
    pub(super) file_type: u8,
    pub(super) inode: u64,
}

/// Returns the form of a block.
pub(super) fn form(superblock: &Superblock, bytes: &[u8]) -> Option<DataForm> {
    let magic: [u8; 4] = array(bytes, 0)?;
    match (&magic, superblock.has_checksums()) {
        (b"XD2B", false) | (b"XDB3", true) => Some(DataForm::Block),
        (b"XD2D", false) | (b"XDD3", true) => Some(DataForm::Data),
        _ => None,
    }
}

fn header_bytes(superblock: &Superblock) -> usize {
    if superblock.has_checksums() {
        HEADER_V5_BYTES
    } else {
        HEADER_BYTES
    }
}

/// Returns the range of the index of a block in block form: its start, and the number of records.
pub(super) fn index_of(bytes: &[u8]) -> Option<(usize, usize)> {
    let tail = bytes.len().checked_sub(TAIL_BYTES)?;
    let count = index(be32(bytes, tail)?);
    let start = tail.checked_sub(count.checked_mul(INDEX_RECORD_BYTES)?)?;
    Some((start, count))
}

/// Returns the offset at which the entries of a block end.
fn end_of_entries(superblock: &Superblock, bytes: &[u8]) -> Option<usize> {
    match form(superblock, bytes)? {
        DataForm::Block => index_of(bytes).map(|(start, _)| start),
        DataForm::Data => Some(bytes.len()),
    }
}

/// Checks a block that starts at byte `at` of the device.
pub(super) fn check(superblock: &Superblock, inode: &Inode, bytes: &[u8], at: u64) -> Result<()> {
    let invalid = |what: &str| corrupt(format!("invalid {NAME}: {what}"), at);
    let form = form(superblock, bytes).ok_or_else(|| invalid("wrong magic"))?;
    if superblock.has_checksums() {
        checksum::verify(bytes, CRC_OFFSET, NAME, at)?;
        checksum::verify_uuid(bytes, UUID_OFFSET, &superblock.meta_uuid, NAME, at)?;
        if be64(bytes, BLOCK_OFFSET) != Some(basic_block(at)) {
            return Err(invalid("it belongs to another place"));
        }
        if be64(bytes, OWNER_OFFSET) != Some(inode.number) {
            return Err(invalid("it belongs to another inode"));
        }
    }
    if form == DataForm::Block {
        let (start, count) = index_of(bytes).ok_or_else(|| invalid("its index lies outside"))?;
        super::index::check_order(bytes, start, count)
            .ok_or_else(|| invalid("its index is not sorted"))?;
    }
    check_entries(superblock, bytes, at)
}

fn check_entries(superblock: &Superblock, bytes: &[u8], at: u64) -> Result<()> {
    let end = end_of_entries(superblock, bytes).unwrap_or(0);
    let mut offset = header_bytes(superblock);
    if offset > end {
        return Err(corrupt(format!("invalid {NAME}: no space for entries"), at));
    }
    while offset < end {
        let next = match slot(superblock, bytes, offset) {
            Some(Slot::Free { end }) => end,
            Some(Slot::Entry(entry)) if is_valid(superblock, &entry) => entry.end,
            _ => end.saturating_add(1),
        };
        if next > end {
            let place = at.saturating_add(len_u64(offset));
            return Err(corrupt("invalid directory entry", place));
        }
        offset = next;
    }
    Ok(())
}

fn is_valid(superblock: &Superblock, entry: &DataEntry<'_>) -> bool {
    is_valid_name(entry.name) && superblock.inode_place(entry.inode).is_some()
}

/// An entry or a free range.
enum Slot<'a> {
    Free { end: usize },
    Entry(DataEntry<'a>),
}

/// Returns the slot at an offset, if it ends with its tag, which repeats the offset.
fn slot<'a>(superblock: &Superblock, bytes: &'a [u8], offset: usize) -> Option<Slot<'a>> {
    let end;
    let slot = if be16(bytes, offset)? == FREE_TAG {
        let len = usize::from(be16(bytes, offset.checked_add(2)?)?);
        end = offset.checked_add(len)?;
        if len < ENTRY_ALIGNMENT || !len.is_multiple_of(ENTRY_ALIGNMENT) {
            return None;
        }
        Slot::Free { end }
    } else {
        let entry = unchecked_entry(superblock, bytes, offset)?;
        end = entry.end;
        Slot::Entry(entry)
    };
    let tag = be16(bytes, end.checked_sub(2)?)?;
    (usize::from(tag) == offset && end <= bytes.len()).then_some(slot)
}

fn unchecked_entry<'a>(
    superblock: &Superblock,
    bytes: &'a [u8],
    offset: usize,
) -> Option<DataEntry<'a>> {
    /// The length of `inumber` and `namelen`, before the name.
    const BEFORE_NAME: usize = 9;
    const TAG_BYTES: usize = 2;
    let inode = be64(bytes, offset)?;
    let [name_len] = array(bytes, offset.checked_add(8)?)?;
    let start = offset.checked_add(BEFORE_NAME)?;
    let name = part(bytes, start, name_len.into())?;
    let mut after = start.checked_add(name.len())?;
    let mut file_type = 0;
    if superblock.features.has_file_types() {
        [file_type] = array(bytes, after)?;
        after = after.checked_add(1)?;
    }
    let end = after
        .checked_add(TAG_BYTES)?
        .checked_next_multiple_of(ENTRY_ALIGNMENT)?;
    Some(DataEntry {
        offset,
        end,
        name,
        file_type,
        inode,
    })
}

/// Returns the entry at an offset that the index refers to; `None` if there is no entry.
pub(super) fn entry_at<'a>(
    superblock: &Superblock,
    bytes: &'a [u8],
    offset: usize,
) -> Option<DataEntry<'a>> {
    let is_within = offset >= header_bytes(superblock)
        && offset < end_of_entries(superblock, bytes)?
        && offset.is_multiple_of(ENTRY_ALIGNMENT);
    match slot(superblock, bytes, offset)? {
        Slot::Entry(entry) if is_within && is_valid(superblock, &entry) => Some(entry),
        _ => None,
    }
}

/// Returns the first entry of a checked block at or after an offset. The walk starts at the block's
/// first slot, so that any offset is safe, unless `from` is a position that a walk returned.
pub(super) fn next_entry<'a>(
    superblock: &Superblock,
    bytes: &'a [u8],
    position: &mut usize,
    from: usize,
) -> Option<DataEntry<'a>> {
    let end = end_of_entries(superblock, bytes)?;
    *position = (*position).max(header_bytes(superblock));
    while *position < end {
        match slot(superblock, bytes, *position)? {
            Slot::Free { end } => *position = end,
            Slot::Entry(entry) => {
                *position = entry.end;
                if entry.offset >= from {
                    return Some(entry);
                }
            }
        }
    }
    None
}
