//! The contents of files.

mod extents;

use std::sync::Arc;

use diskfs_block::ByteCache;

pub(crate) use self::extents::Extents;
use crate::bytes::{index, len_u64};
use crate::compression::Decompressor;
use crate::data::{self, Verify};
use crate::error::Result;
use crate::file_extent_item::{CompressedExtent, ExtentKind, FileExtentItem, inline_data};
use crate::file_extents::ExtentItems;
use crate::inode::Inode;
use crate::volume::Volume;

/// The reader of contents, with its cache of decompressed extents.
#[derive(Debug)]
pub(crate) struct Reader {
    decompressor: Decompressor,
    cache: ByteCache<CompressedExtent, [u8]>,
}

/// The usual size of a decompressed extent.
const EXTENT_TYPICAL_BYTES: u64 = 128 << 10;

/// The part of an extent that is to be read.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// The start of the part within the extent.
    within: u64,
    verify: Verify,
    /// True if the part goes up to the end of the extent or of the file.
    is_last: bool,
}

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
        let mut rest = buf.get_mut(..len).unwrap_or_default();
        if rest.is_empty() {
            return Ok(0);
        }
        let mut at = offset;
        for extent in ExtentItems::new(volume, inode, offset)? {
            let extent = extent?;
            let piece_len = index(extent.end().saturating_sub(at)).min(rest.len());
            let (piece, after) = rest.split_at_mut(piece_len);
            let end = at.saturating_add(len_u64(piece_len));
            let wanted = Wanted {
                within: at.saturating_sub(extent.start),
                verify: verify(inode),
                is_last: end >= extent.end().min(size_bytes),
            };
            self.read_extent(volume, &extent, wanted, piece)?;
            at = end;
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        rest.fill(0);
        Ok(len)
    }

    fn read_extent(
        &self,
        volume: &Volume,
        extent: &FileExtentItem,
        wanted: Wanted,
        buf: &mut [u8],
    ) -> Result<()> {
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
                copy_from(&bytes, wanted.within, buf);
                Ok(())
            }
            ExtentKind::Plain { logical } => {
                data::read(volume, logical.plus(wanted.within), buf, wanted.verify)
            }
            ExtentKind::Compressed { extent, offset } => {
                let start = offset.saturating_add(wanted.within);
                self.read_compressed(volume, extent, start, wanted, buf)
            }
        }
    }

    /// Fills `buf` with decompressed bytes from byte `start` of the extent on.
    fn read_compressed(
        &self,
        volume: &Volume,
        extent: &CompressedExtent,
        start: u64,
        wanted: Wanted,
        buf: &mut [u8],
    ) -> Result<()> {
        if let Some(bytes) = self.cache.get(extent) {
            copy_from(&bytes, start, buf);
            return Ok(());
        }
        let mut packed = vec![0; index(extent.disk_bytes)];
        data::read(volume, extent.logical, &mut packed, wanted.verify)?;
        let failed = |e: crate::error::Error| match volume.blocks.storage.place(extent.logical) {
            Ok((Some(place), _)) => e.at(place.offset),
            _ => e,
        };
        if start == 0 && wanted.is_last {
            // The rest of the extent will hardly be needed.
            let run = self.decompressor.run(extent.compression, &packed, buf);
            return run.map_err(failed);
        }
        let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, index(extent.ram_bytes)).collect();
        let unshared = Arc::get_mut(&mut bytes).unwrap_or_default();
        self.decompressor
            .run(extent.compression, &packed, unshared)
            .map_err(failed)?;
        copy_from(&bytes, start, buf);
        self.cache.insert(*extent, bytes);
        Ok(())
    }
}

/// Returns whether the data of a file has checksums.
fn verify(inode: &Inode) -> Verify {
    if inode.item.flags.has_no_data_checksums() {
        Verify::No
    } else {
        Verify::Yes
    }
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
