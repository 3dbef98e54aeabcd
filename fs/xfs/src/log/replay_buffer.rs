//! Replaying buffer items: the logged chunks of a block of metadata.

use crate::bytes::{index, part};
use crate::error::{Result, unsupported};
use crate::features::Incompatible;
use crate::superblock::{BASIC_BLOCK_BYTES, Superblock};
use diskfs_block::bytes::put;

use super::buffer_format::{BufferFlags, BufferFormat, CHUNK_BYTES};
use super::item::Item;
use super::log_dinode;
use super::lsn::Lsn;
use super::replay::Replay;
use super::self_describing::{Layout, SUPERBLOCK, put_checksum, stamp};

/// The largest number of buffers that transactions of the same LSN change. A checkpoint has 64 MiB
/// at most, and 200 bytes for each buffer.
const UNSTAMPED_MAX: usize = 1 << 20;

/// The offset of `di_next_unlinked` in an inode.
const NEXT_UNLINKED: usize = 96;

impl Replay<'_> {
    /// Replays a buffer item.
    ///
    /// # Errors
    /// `Corrupt`, `Unsupported`, `Io`.
    pub(super) fn buffer(&mut self, item: &Item, lsn: Lsn) -> Result<()> {
        let format = BufferFormat::parse(item.format());
        let format = format.ok_or_else(|| self.invalid("a buffer item has an invalid format"))?;
        if format.flags.contains(BufferFlags::CANCEL) {
            self.cancelled.remove(format.place);
            return Ok(());
        }
        // Quota is not read.
        if self.cancelled.contains(format.place) || format.flags.intersects(BufferFlags::QUOTA) {
            return Ok(());
        }
        let len = format.len_bytes();
        let len = len.ok_or_else(|| self.invalid("a buffer has an invalid length"))?;
        let byte = format.place.basic_block.checked_mul(BASIC_BLOCK_BYTES);
        let byte = byte.ok_or_else(|| self.invalid("a buffer exceeds the filesystem"))?;
        let mut block = self.read(byte, len)?;
        if self.is_newer(&block, lsn) {
            return Ok(());
        }
        if format.flags.contains(BufferFlags::INODE_BUFFER) {
            self.unlinked_lists(&mut block, item, &format)?;
            return self.write(byte, &block);
        }
        copy_chunks(&mut block, item, &format)
            .ok_or_else(|| self.invalid("the regions of a buffer item don't fit its bitmap"))?;
        self.write(byte, &block)?;
        if self.superblock.has_checksums() {
            self.unstamped.insert(format.place, format.contents);
            if self.unstamped.len() > UNSTAMPED_MAX {
                let reason = format!(
                    "unsupported log: a checkpoint changes more than {UNSTAMPED_MAX} buffers"
                );
                return Err(unsupported(reason));
            }
        }
        if format.contents == SUPERBLOCK && byte == 0 {
            self.take_superblock(block, lsn);
        }
        Ok(())
    }

    /// Returns true if the block has later changes than those of the transaction at `lsn`.
    fn is_newer(&self, block: &[u8], lsn: Lsn) -> bool {
        if !self.superblock.has_checksums() {
            return false;
        }
        let layout = Layout::of(block, self.has_meta_uuid());
        let stored = layout.and_then(|layout| layout.lsn_in(block, &self.superblock.meta_uuid));
        stored.is_some_and(|stored| stored >= lsn)
    }

    fn has_meta_uuid(&self) -> bool {
        self.superblock.features.has(Incompatible::META_UUID)
    }

    /// Replays the lists of unlinked inodes in a cluster of inodes. Everything else of inodes is
    /// logged in inode items.
    fn unlinked_lists(
        &self,
        block: &mut [u8],
        item: &Item,
        format: &BufferFormat<'_>,
    ) -> Result<()> {
        let size = usize::from(self.superblock.inode_bytes);
        for (offset, bytes) in chunks(item, format) {
            let end = offset.saturating_add(bytes.len());
            for inode in block.chunks_exact_mut(size).enumerate() {
                let (number, inode) = inode;
                let field = number.saturating_mul(size).saturating_add(NEXT_UNLINKED);
                if field < offset || field.saturating_add(4) > end {
                    continue;
                }
                let next = part(bytes, field.saturating_sub(offset), 4).unwrap_or_default();
                if next == [0; 4] {
                    return Err(self.invalid("an inode is followed by inode 0 in its list"));
                }
                put(inode, NEXT_UNLINKED, next);
                if self.superblock.has_checksums() {
                    put_checksum(inode, log_dinode::CRC);
                }
            }
        }
        Ok(())
    }

    /// Continues with the superblock that was replayed: the filesystem may have grown.
    fn take_superblock(&mut self, mut block: Vec<u8>, lsn: Lsn) {
        let block_len = self.superblock.block_len();
        if self.superblock.has_checksums() {
            stamp(&mut block, SUPERBLOCK, lsn, block_len, self.has_meta_uuid());
        }
        if let Ok(superblock) = Superblock::parse(&block, self.device_bytes()) {
            self.superblock = std::borrow::Cow::Owned(superblock);
        }
    }

    /// Sets the LSN and the checksum of all buffers that transactions at `lsn` have changed.
    ///
    /// The kernel does this when it writes the buffers, at the first transaction with another LSN.
    /// Until then they must keep their old LSN: transactions with the same one follow each other.
    ///
    /// # Errors
    /// `Unsupported`, `Io`.
    pub(super) fn stamp_buffers(&mut self, lsn: Lsn) -> Result<()> {
        let block_len = self.superblock.block_len();
        for (place, contents) in std::mem::take(&mut self.unstamped) {
            let byte = place.basic_block.saturating_mul(BASIC_BLOCK_BYTES);
            let len = index(place.len_basic_blocks).saturating_mul(512);
            let mut block = self.read(byte, len)?;
            stamp(&mut block, contents, lsn, block_len, self.has_meta_uuid());
            self.write(byte, &block)?;
        }
        Ok(())
    }
}

/// Returns the logged parts of a buffer: their offset and their bytes. A run of chunks can be
/// logged in several regions.
fn chunks<'a>(
    item: &'a Item,
    format: &BufferFormat<'a>,
) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
    let mut regions = item.regions.iter().skip(1);
    let mut runs = format.runs();
    let mut rest: Option<(usize, usize)> = None;
    std::iter::from_fn(move || {
        let (start, count) = rest.take().or_else(|| runs.next())?;
        let region = regions.next()?;
        let taken = count.min(region.len().wrapping_div(CHUNK_BYTES));
        if taken == 0 {
            return None;
        }
        if taken < count {
            rest = Some((start.saturating_add(taken), count.saturating_sub(taken)));
        }
        let bytes = region.get(..taken.saturating_mul(CHUNK_BYTES))?;
        Some((start.saturating_mul(CHUNK_BYTES), bytes))
    })
}

/// Copies the logged chunks into a block; `None` if they don't fit.
fn copy_chunks(block: &mut [u8], item: &Item, format: &BufferFormat<'_>) -> Option<()> {
    let mut copied = 0_usize;
    for (offset, bytes) in chunks(item, format) {
        let end = offset.checked_add(bytes.len())?;
        block.get_mut(offset..end)?.copy_from_slice(bytes);
        copied = copied.saturating_add(bytes.len().wrapping_div(CHUNK_BYTES));
    }
    let logged = format
        .runs()
        .fold(0_usize, |sum, (_, count)| sum.saturating_add(count));
    (copied == logged).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(map: u32, regions: &[Vec<u8>]) -> Item {
        let mut format = vec![0x3c, 0x12, 3, 0, 0, 0x20, 8, 0];
        format.extend(8_i64.to_le_bytes());
        format.extend(1_u32.to_le_bytes());
        format.extend(map.to_le_bytes());
        let mut all = vec![format];
        all.extend_from_slice(regions);
        Item {
            expected: 3,
            regions: all,
        }
    }

    #[test]
    fn a_run_can_have_several_regions() {
        let item = item(0b1_0011, &[vec![1; 128], vec![2; 128], vec![3; 128]]);
        let format = BufferFormat::parse(item.format()).unwrap();
        let mut block = vec![0; 1024];
        copy_chunks(&mut block, &item, &format).unwrap();
        assert_eq!(
            (block[127], block[128], block[255], block[256]),
            (1, 2, 2, 0)
        );
        assert_eq!((block[512], block[639], block[640]), (3, 3, 0));
    }

    #[test]
    fn missing_regions_are_refused() {
        let item = item(0b101, &[vec![1; 128]]);
        let format = BufferFormat::parse(item.format()).unwrap();
        assert!(copy_chunks(&mut [0; 1024], &item, &format).is_none());
        assert!(copy_chunks(&mut [0; 64], &item, &format).is_none());
    }
}
