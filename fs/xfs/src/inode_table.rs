//! Reading inodes by their numbers: a chunk's worth of them at once.
//!
//! Inodes are allocated in chunks of 64 that are contiguous and usually aligned. A window of 64
//! inodes is read and cached as plain bytes; each inode is checked when it is used, so a window
//! that also contains other blocks does no harm.
//!
//! Source: "XFS Algorithms & Data Structures", section "Inode Numbers".

mod chunks;

use std::sync::Arc;

use diskfs_vfs::InodeNumber;

use crate::bytes::{index, part};
use crate::error::{Result, corrupt};
use crate::inode::Inode;
use crate::metadata_cache::{BlockKind, Key};
use crate::superblock::INODES_PER_CHUNK;
use crate::volume::Volume;

/// The bytes of 64 inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Window {
    /// The byte of the device.
    start: u64,
    /// Shorter at the end of an allocation group.
    len_bytes: u64,
}

impl Window {
    fn key(self) -> Key {
        Key {
            kind: BlockKind::InodeWindow,
            owner: 0,
            place: self.start,
        }
    }
}

/// Returns the window that contains an inode, and the byte of the device at which that starts.
fn window(volume: &Volume, number: u64) -> Option<(Window, u64)> {
    let superblock = &volume.superblock;
    let (ag, within) = superblock.inode_place(number)?;
    let size = u64::from(superblock.inode_bytes);
    let bytes_of = |inodes: u32| u64::from(inodes).saturating_mul(size);
    let first = within & !INODES_PER_CHUNK.wrapping_sub(1);
    let ag_bytes = superblock.bytes_of(superblock.ag_len_blocks(ag).into());
    let ag_start = superblock.ag_start(ag);
    let window = Window {
        start: ag_start.saturating_add(bytes_of(first)),
        len_bytes: bytes_of(INODES_PER_CHUNK).min(ag_bytes.saturating_sub(bytes_of(first))),
    };
    Some((window, ag_start.saturating_add(bytes_of(within))))
}

impl Volume {
    /// Returns the inode; `None` if it is free or cannot exist.
    ///
    /// # Errors
    /// `Corrupt`; `Io`.
    pub(crate) fn inode(&self, number: u64) -> Result<Option<Arc<Inode>>> {
        let read = || match read(self, number) {
            Ok(Some(inode)) => Ok(Arc::new(inode)),
            Ok(None) => Err(None),
            Err(e) => Err(Some(e.in_inode(InodeNumber(number)))),
        };
        match self.inodes.get_or_insert_with(&number, read) {
            Ok(inode) => Ok(Some(inode)),
            Err(None) => Ok(None),
            Err(Some(e)) => Err(e),
        }
    }
}

fn read(volume: &Volume, number: u64) -> Result<Option<Inode>> {
    let Some((window, at)) = window(volume, number) else {
        return Ok(None);
    };
    let bytes = volume
        .metadata
        .get_or_make(&window.key(), || -> Result<Arc<[u8]>> {
            volume.read_bytes(window.start, index(window.len_bytes))
        })?;
    let offset = index(at.saturating_sub(window.start));
    let size = usize::from(volume.superblock.inode_bytes);
    let bytes = part(&bytes, offset, size).ok_or_else(|| corrupt("inode is truncated", at))?;
    if Inode::has_magic(bytes) || chunks::contains(volume, number)? {
        return Inode::parse(&volume.superblock, number, bytes, at);
    }
    Ok(None)
}

/// Announces that these inodes will be read soon: once for each run of windows.
pub(crate) fn will_need(volume: &Volume, numbers: impl Iterator<Item = u64>) {
    let mut windows: Vec<Window> = numbers
        .filter_map(|number| window(volume, number))
        .map(|(window, _)| window)
        .collect();
    windows.sort_unstable();
    windows.dedup();
    windows.retain(|window| !volume.metadata.contains(&window.key()));
    for run in merge(&windows) {
        volume.device.will_need(run.start, run.len_bytes);
    }
}

/// Joins adjacent windows.
fn merge(windows: &[Window]) -> Vec<Window> {
    let mut runs: Vec<Window> = Vec::new();
    for window in windows {
        match runs.last_mut() {
            Some(last) if last.start.saturating_add(last.len_bytes) == window.start => {
                last.len_bytes = last.len_bytes.saturating_add(window.len_bytes);
            }
            _ => runs.push(*window),
        }
    }
    runs
}
