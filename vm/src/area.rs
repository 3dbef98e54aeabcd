//! The area: memory that a machine sees as a disk, through which file contents bypass the console.
//!
//! A console's driver moves one page with each system call of the agent. A disk's driver moves a
//! megabyte at once.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use diskfs_block::{BlockRead, BlockWrite, check_bounds, len_of};
use diskfs_remote::client::BulkArea;
use diskfs_remote::protocol::{BULK_AREA_BYTES, BULK_AREA_SERIAL, MAX_BULK, MAX_IN_FLIGHT};

use diskfs_export::vhost_user::BlockDevice;

/// The memory of the area: a piece for each request that may be in flight. Each piece has its own
/// lock, because the machine may write one while this process reads another. A piece takes memory
/// from its first use on.
#[derive(Debug)]
pub(super) struct Area {
    pieces: Box<[RwLock<Vec<u8>>]>,
}

/// Returns the area as a block device for the machine.
pub(super) fn disk(area: &Arc<Area>) -> BlockDevice {
    let device: Arc<Area> = Arc::clone(area);
    BlockDevice::writable(device).with_serial(BULK_AREA_SERIAL)
}

impl Default for Area {
    fn default() -> Self {
        let mut pieces = Vec::new();
        pieces.resize_with(MAX_IN_FLIGHT, RwLock::default);
        Self {
            pieces: pieces.into(),
        }
    }
}

/// A range of bytes within one piece of the area.
struct Part {
    piece: usize,
    within: Range<usize>,
}

/// Returns the ranges that `offset` and `len` consist of, all of them within the area.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut next = usize::try_from(offset).unwrap_or(usize::MAX);
    let end = next.saturating_add(len);
    std::iter::from_fn(move || {
        if next >= end {
            return None;
        }
        let (piece, begin) = (next / MAX_BULK, next % MAX_BULK);
        let part_end = begin.saturating_add(end.saturating_sub(next)).min(MAX_BULK);
        let within = begin..part_end;
        next = next.saturating_add(within.len());
        Some(Part { piece, within })
    })
}

impl BlockRead for Area {
    fn size_bytes(&self) -> u64 {
        u64::try_from(BULK_AREA_BYTES).unwrap_or_default()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> diskfs_block::Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes())?;
        let mut buf = buf;
        for Part { piece, within } in parts(offset, buf.len()) {
            let (now, later) = buf.split_at_mut(within.len());
            let piece = self
                .pieces
                .get(piece)
                .map(|piece| piece.read().unwrap_or_else(PoisonError::into_inner));
            match piece.as_ref().and_then(|piece| piece.get(within)) {
                Some(bytes) => now.copy_from_slice(bytes),
                None => now.fill(0),
            }
            buf = later;
        }
        Ok(())
    }
}

impl BlockWrite for Area {
    fn write_at(&self, offset: u64, buf: &[u8]) -> diskfs_block::Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes())?;
        let mut buf = buf;
        for Part { piece, within } in parts(offset, buf.len()) {
            let (now, later) = buf.split_at(within.len());
            if let Some(piece) = self.pieces.get(piece) {
                let mut piece = piece.write().unwrap_or_else(PoisonError::into_inner);
                if piece.is_empty() {
                    *piece = vec![0; MAX_BULK];
                }
                if let Some(bytes) = piece.get_mut(within) {
                    bytes.copy_from_slice(now);
                }
            }
            buf = later;
        }
        Ok(())
    }

    fn flush(&self) -> diskfs_block::Result<()> {
        Ok(())
    }
}

impl BulkArea for Area {
    fn read(&self, offset: u64, to: &mut [u8]) -> diskfs_vfs::Result<()> {
        self.read_at(offset, to).map_err(outside)
    }

    fn write(&self, offset: u64, from: &[u8]) -> diskfs_vfs::Result<()> {
        self.write_at(offset, from).map_err(outside)
    }
}

fn outside(error: diskfs_block::Error) -> diskfs_vfs::Error {
    diskfs_vfs::Error::new(diskfs_vfs::ErrorKind::Io, "access outside the area").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_device() {
        let area = Area::default();
        let border = MAX_BULK as u64;
        let mut back = [9; 100];
        area.read_at(border - 50, &mut back).unwrap();
        assert_eq!(back, [0; 100], "the area is unchanged");
        area.write_at(border - 30, &[1; 60]).unwrap();
        area.read_at(border - 50, &mut back).unwrap();
        assert_eq!(
            (back[..20].to_vec(), back[20..80].to_vec()),
            (vec![0; 20], vec![1; 60])
        );
        assert_eq!(back[80..], [0; 20]);
        let end = area.size_bytes();
        area.write_at(end - 1, &[7]).unwrap();
        assert!(area.write_at(end, &[7]).is_err());
        assert!(area.read_at(u64::MAX, &mut back).is_err());
    }
}
