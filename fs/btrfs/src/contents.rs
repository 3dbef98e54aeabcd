//! The contents of files.

mod extents;
mod part;

use std::sync::Arc;

use diskfs_block::ByteCache;
use diskfs_vfs::parallel;

pub(crate) use self::extents::Extents;
use self::part::{Part, Parts};
use crate::bytes::index;
use crate::compression::Decompressor;
use crate::data::{self, Verify};
use crate::error::Result;
use crate::file_extent_item::{CompressedExtent, ExtentKind, inline_data};
use crate::file_extents::ExtentItems;
use crate::inode::Inode;
use crate::logical::Logical;
use crate::volume::Volume;

/// The reader of contents, with its cache of decompressed extents.
#[derive(Debug)]
pub(crate) struct Reader {
    decompressor: Decompressor,
    cache: ByteCache<CompressedExtent, [u8]>,
}

/// The usual size of a decompressed extent.
const EXTENT_TYPICAL_BYTES: u64 = 128 << 10;

/// The maximum number of parts of a read that are looked up before they are read: those of 32 MiB
/// of compressed extents.
const BATCH_PARTS: usize = 256;

impl Reader {
    pub(crate) fn new(sector_bytes: u64, cache_bytes: u64) -> Self {
        Self {
            decompressor: Decompressor::new(index(sector_bytes)),
            cache: ByteCache::new(cache_bytes, EXTENT_TYPICAL_BYTES),
        }
    }

    /// Reads from byte `offset` up to the end of the file. Returns the number of bytes read.
    pub(crate) fn read(
        &self,
        volume: &Volume,
        inode: &Inode,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize> {
        let size_bytes = inode.item.size_bytes;
        let len = index(size_bytes.saturating_sub(offset)).min(buf.len());
        let buf = buf.get_mut(..len).unwrap_or_default();
        if buf.is_empty() {
            return Ok(0);
        }
        let mut parts = Parts::new(volume, inode, offset, buf)?;
        loop {
            let mut batch = Vec::new();
            let looked_up: Result<()> = parts.by_ref().take(BATCH_PARTS).try_for_each(|part| {
                batch.push(part?);
                Ok(())
            });
            let is_last = batch.len() < BATCH_PARTS;
            // What is before an extent that cannot be looked up is read, or its error reported.
            self.read_parts(volume, batch)?;
            looked_up?;
            if is_last {
                return Ok(len);
            }
        }
    }

    /// Reads parts, on several threads if there are several to be decompressed.
    fn read_parts(&self, volume: &Volume, parts: Vec<Part<'_>>) -> Result<()> {
        let threads = parallel::threads_for(&parts, Part::slow_bytes);
        if threads > 1 {
            announce(volume, &parts);
        }
        parallel::read_parts(parts, threads, |part| self.read_part(volume, part))
    }

    fn read_part(&self, volume: &Volume, part: Part<'_>) -> Result<()> {
        let Part {
            extent,
            within,
            verify,
            is_last,
            buf,
        } = part;
        match &extent.kind {
            ExtentKind::Hole => {
                buf.fill(0);
                Ok(())
            }
            ExtentKind::Inline {
                item,
                compression,
                ram_bytes,
            } => {
                let mut bytes = vec![0; index(*ram_bytes)];
                self.decompressor
                    .run(*compression, inline_data(item), &mut bytes)?;
                copy_from(&bytes, within, buf);
                Ok(())
            }
            ExtentKind::Plain { logical } => data::read(volume, logical.plus(within), buf, verify),
            ExtentKind::Compressed { extent, offset } => {
                let start = offset.saturating_add(within);
                if start == 0 && is_last && !self.cache.contains(extent) {
                    // The rest of the extent will hardly be needed.
                    return self.decompress(volume, extent, verify, buf);
                }
                let bytes = self.cached(volume, extent, verify)?;
                copy_from(&bytes, start, buf);
                Ok(())
            }
        }
    }

    /// Returns the decompressed bytes of an extent, which are kept in the cache.
    fn cached(
        &self,
        volume: &Volume,
        extent: &CompressedExtent,
        verify: Verify,
    ) -> Result<Arc<[u8]>> {
        self.cache.get_or_make(extent, || {
            let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, index(extent.ram_bytes)).collect();
            let unshared = Arc::get_mut(&mut bytes).unwrap_or_default();
            self.decompress(volume, extent, verify, unshared)?;
            Ok(bytes)
        })
    }

    /// Fills `buf` with the first decompressed bytes of an extent.
    fn decompress(
        &self,
        volume: &Volume,
        extent: &CompressedExtent,
        verify: Verify,
        buf: &mut [u8],
    ) -> Result<()> {
        let mut packed = vec![0; index(extent.disk_bytes)];
        data::read(volume, extent.logical, &mut packed, verify)?;
        let run = self.decompressor.run(extent.compression, &packed, buf);
        run.map_err(|error| match volume.blocks.storage.place(extent.logical) {
            Ok((Some(place), _)) => error.at(place.offset),
            _ => error,
        })
    }
}

/// Announces the compressed extents of a read to the devices. Those that lie one behind the other
/// are one range.
fn announce(volume: &Volume, parts: &[Part<'_>]) {
    // What cannot be announced cannot be read, either, and the read says why.
    let will_need = |(start, len_bytes)| {
        let _ = volume.blocks.storage.will_need(start, len_bytes);
    };
    let mut range: Option<(Logical, u64)> = None;
    for extent in parts.iter().filter_map(Part::compressed) {
        let joined = range.filter(|(start, len)| start.plus(*len) == extent.logical);
        if joined.is_none() {
            range.take().into_iter().for_each(will_need);
        }
        let (start, len_bytes) = joined.unwrap_or((extent.logical, 0));
        range = Some((start, len_bytes.saturating_add(extent.disk_bytes)));
    }
    range.into_iter().for_each(will_need);
}

/// Fills `to` with the bytes from `start` on, and with zeroes past their end.
fn copy_from(bytes: &[u8], start: u64, to: &mut [u8]) {
    let from = bytes.get(index(start)..).unwrap_or_default();
    let len = from.len().min(to.len());
    let (filled, rest) = to.split_at_mut(len);
    filled.copy_from_slice(from.get(..len).unwrap_or_default());
    rest.fill(0);
}

/// Announces that these bytes will be read soon.
pub(crate) fn will_need(volume: &Volume, inode: &Inode, offset: u64, len_bytes: u64) -> Result<()> {
    let end = offset.saturating_add(len_bytes).min(inode.item.size_bytes);
    for extent in ExtentItems::new(volume, inode, offset)? {
        let extent = extent?;
        if extent.start >= end {
            break;
        }
        let start = offset.max(extent.start).saturating_sub(extent.start);
        let stop = end.min(extent.end()).saturating_sub(extent.start);
        let range = match &extent.kind {
            ExtentKind::Plain { logical } => {
                Some((logical.plus(start), stop.saturating_sub(start)))
            }
            ExtentKind::Compressed { extent, .. } => Some((extent.logical, extent.disk_bytes)),
            ExtentKind::Hole | ExtentKind::Inline { .. } => None,
        };
        if let Some((logical, len_bytes)) = range {
            volume.blocks.storage.will_need(logical, len_bytes)?;
        }
    }
    Ok(())
}
