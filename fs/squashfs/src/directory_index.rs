//! The index of a large directory: the first name of some runs of its listing.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::directory_entry::{NAME_MAX_BYTES, RunPlace};
use crate::error::{Result, corrupt};
use crate::inode_body::Directory;
use crate::metadata_block::METADATA_BYTES;
use crate::volume::Volume;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDirIndex {
    /// The offset of the run's header in the listing.
    index: U32,
    start_block: U32,
    /// The length of the name, less one.
    size: U32,
}

/// Returns the last run in the index for which `is_before` returns true; the first run, if there is
/// none. `is_before` gets the offset of a run in the listing and its first name.
pub(crate) fn last_run(
    volume: &Volume,
    directory: &Directory,
    mut is_before: impl FnMut(u32, &[u8]) -> bool,
) -> Result<RunPlace> {
    let mut found = RunPlace::first(directory);
    let mut cursor = volume
        .blocks
        .cursor_at(directory.index, volume.inode_table());
    for _ in 0..directory.index_entries {
        let place = cursor.place();
        let raw: RawDirIndex = cursor.read_raw()?;
        let len = diskfs_block::bytes::index(raw.size.get()).saturating_add(1);
        if len > NAME_MAX_BYTES {
            let reason = format!("invalid directory index: a name of {len} bytes");
            return Err(corrupt(reason, place));
        }
        let name = cursor.read_vec(len)?;
        if !is_before(raw.index.get(), &name) {
            break;
        }
        found = RunPlace {
            position: raw.index.get(),
            start_block: raw.start_block.get(),
            offset: offset_in_block(directory.offset, raw.index.get()),
        };
    }
    Ok(found)
}

/// Returns the offset in its metadata block of a byte of a listing that begins at `first`.
fn offset_in_block(first: u16, position: u32) -> u16 {
    let block = u32::try_from(METADATA_BYTES).unwrap_or(u32::MAX);
    let offset = u32::from(first).saturating_add(position);
    u16::try_from(offset.checked_rem(block).unwrap_or(0)).unwrap_or(u16::MAX)
}
