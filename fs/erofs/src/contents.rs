//! The contents of inodes of all types.

use std::sync::Arc;

use diskfs_block::bytes::{index, len_u64, part};
use diskfs_vfs::{FileType, parallel};

use crate::decompress;
use crate::error::{Result, corrupt};
use crate::extent::{Algorithm, Decompressed, Encoded};
use crate::inode::Inode;
use crate::map::map;
use crate::mapped::{Mapped, Source};
use crate::place::Place;
use crate::volume::Volume;

/// The maximum number of parts that are looked up before they are read.
const BATCH_PARTS: usize = 256;

/// The maximum length of a read of neighbouring chunks.
const MERGED_MAX_BYTES: u64 = 4 << 20;

/// The maximum range of a file that is announced to the device, and the number of extents.
const ANNOUNCED_MAX_BYTES: u64 = 4 << 20;
const ANNOUNCED_MAX_EXTENTS: usize = 256;

/// A part of an extent to be read.
struct Part<'b> {
    source: Source,
    /// The offset in the extent.
    skip: u64,
    out: &'b mut [u8],
}

/// Reads from byte `offset` into `buf`, at most to the end of the contents.
pub(crate) fn read(volume: &Volume, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<usize> {
    let left = index(inode.size_bytes.saturating_sub(offset));
    let len = left.min(buf.len());
    let mut rest = buf.get_mut(..len).unwrap_or_default();
    let (mut at, mut parts) = (offset, Vec::new());
    while !rest.is_empty() {
        let mapped = merged(volume, inode, at, len_u64(rest.len()))?;
        let take = index(mapped.end().saturating_sub(at)).min(rest.len());
        if take == 0 {
            return Err(corrupt("invalid extent: it is empty", inode.body().at));
        }
        let (out, after) = rest.split_at_mut(take);
        parts.push(Part {
            skip: at.saturating_sub(mapped.start),
            source: mapped.source,
            out,
        });
        rest = after;
        at = at.saturating_add(len_u64(take));
        if parts.len() >= BATCH_PARTS {
            read_parts(volume, inode, std::mem::take(&mut parts))?;
        }
    }
    read_parts(volume, inode, parts)?;
    Ok(len)
}

/// Returns the range with a byte, together with those after it that are stored behind it.
fn merged(volume: &Volume, inode: &Inode, offset: u64, wanted: u64) -> Result<Mapped> {
    let mut mapped = map(volume, inode, offset)?;
    let end = offset.saturating_add(wanted.min(MERGED_MAX_BYTES));
    let end = end.min(inode.size_bytes);
    while let Source::Stored { device, at } = mapped.source {
        if mapped.end() >= end {
            break;
        }
        let next = map(volume, inode, mapped.end())?;
        let expected = at.saturating_add(mapped.len);
        match next.source {
            Source::Stored { device: other, at } if (other, at) == (device, expected) => {
                mapped.len = mapped.len.saturating_add(next.len);
            }
            _ => break,
        }
    }
    Ok(mapped)
}

/// Reads parts of extents, on several threads if there are several to be decompressed.
fn read_parts(volume: &Volume, inode: &Inode, parts: Vec<Part<'_>>) -> Result<()> {
    let slow_bytes = |part: &Part<'_>| {
        if is_slow(&part.source) {
            part.out.len()
        } else {
            0
        }
    };
    let threads = parallel::threads_for(&parts, slow_bytes);
    parallel::read_parts(parts, threads, |part| part.read(volume, inode))
}

/// Returns true if decoding takes much longer than copying.
fn is_slow(source: &Source) -> bool {
    let Source::Encoded(extent) = source else {
        return false;
    };
    !matches!(extent.algorithm, Algorithm::Shifted | Algorithm::Interlaced)
}

impl Part<'_> {
    fn read(self, volume: &Volume, inode: &Inode) -> Result<()> {
        match self.source {
            Source::Hole => self.out.fill(0),
            Source::Inline(place) => {
                volume.read_metadata(place.after(self.skip), self.out)?;
            }
            Source::Stored { device, at } => {
                let at = at.saturating_add(self.skip);
                // Directories and symlinks are metadata, which is cached.
                if device == 0 && inode.file_type != FileType::Regular && volume.devices.is_single()
                {
                    volume.read_metadata(Place::on_device(at), self.out)?;
                } else {
                    volume.devices.read_at(device, at, self.out)?;
                }
            }
            Source::Encoded(extent) => read_encoded(volume, &extent, self.skip, self.out)?,
            Source::Fragment(start) => {
                let at = start.saturating_add(self.skip);
                read_fragment(volume, inode, at, self.out)?;
            }
        }
        Ok(())
    }
}

/// Reads a part of an extent: a whole one straight into the buffer, others through the cache.
fn read_encoded(volume: &Volume, extent: &Encoded, skip: u64, out: &mut [u8]) -> Result<()> {
    if skip == 0 && len_u64(out.len()) == extent.len {
        if let Some(kept) = volume.extents.get(extent) {
            diskfs_block::bytes::put(out, 0, &kept.0);
            return Ok(());
        }
        return decompress::read(volume, extent, out);
    }
    let kept = volume
        .extents
        .get_or_make(extent, || -> Result<Arc<Decompressed>> {
            let mut bytes = vec![0; index(extent.len)];
            decompress::read(volume, extent, &mut bytes)?;
            Ok(Arc::new(Decompressed(bytes)))
        })?;
    let bytes = part(&kept.0, index(skip), out.len());
    let short = || corrupt("invalid extent: too short", extent.place.at());
    out.copy_from_slice(bytes.ok_or_else(short)?);
    Ok(())
}

/// Reads bytes of the packed inode, which itself has no fragments.
fn read_fragment(volume: &Volume, inode: &Inode, at: u64, out: &mut [u8]) -> Result<()> {
    let Some(packed) = volume.superblock.packed else {
        let reason = "invalid extent: a fragment without the packed inode";
        return Err(corrupt(reason, inode.body().at));
    };
    let packed = Inode::read_named(volume, packed)?;
    if packed.number == inode.number {
        let reason = "invalid packed inode: it has a fragment";
        return Err(corrupt(reason, inode.body().at));
    }
    if read(volume, &packed, at, out)? != out.len() {
        let reason = "invalid fragment: outside of the packed inode";
        return Err(corrupt(reason, inode.body().at));
    }
    Ok(())
}

/// Announces a part of a file to the device.
pub(crate) fn will_need(volume: &Volume, inode: &Inode, offset: u64, len_bytes: u64) -> Result<()> {
    inode.check_file()?;
    let end = offset.saturating_add(len_bytes.min(ANNOUNCED_MAX_BYTES));
    let end = end.min(inode.size_bytes);
    let mut at = offset;
    for _ in 0..ANNOUNCED_MAX_EXTENTS {
        if at >= end {
            break;
        }
        let mapped = map(volume, inode, at)?;
        if let Some((start, len)) = stored_bytes(&mapped, at, end) {
            let (device, start) = volume.devices.resolve(0, start)?;
            device.will_need(start, len);
        }
        at = mapped.end().max(at.saturating_add(1));
    }
    Ok(())
}

/// Returns the bytes of the primary device that a read of `at..end` needs.
fn stored_bytes(mapped: &Mapped, at: u64, end: u64) -> Option<(u64, u64)> {
    match &mapped.source {
        Source::Stored {
            device: 0,
            at: start,
        } => {
            let skip = at.saturating_sub(mapped.start);
            let len = end.min(mapped.end()).saturating_sub(at);
            Some((start.saturating_add(skip), len))
        }
        Source::Encoded(extent) => Some((extent.place.at(), extent.stored_bytes.into())),
        _ => None,
    }
}
