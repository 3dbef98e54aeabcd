//! The log of XFS: checksums of its records, and a record with unfinished intents.
//!
//! The structures are those of `xfs_log_format.h` in Linux. Numbers of the log itself are big-endian,
//! those of its items little-endian.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_vfs::{FileExtent, FileExtentKind, FsRead, InodeNumber};
use diskfs_xfs::Xfs;

use crate::Sparse;

/// The size of a block of the log.
const BLOCK: usize = 512;

/// The start of a record, `XLOG_HEADER_MAGIC_NUM`.
const MAGIC: [u8; 4] = 0xfeed_babe_u32.to_be_bytes();

/// The size of the payload that one block of a header is for, and the size of the largest one.
const CYCLES_BYTES: usize = 32 << 10;
const RECORD_BYTES_MAX: usize = 256 << 10;

/// The parts of the header's blocks that the checksum covers, and its place.
const HEADER_BYTES: usize = 328;
const EXTENDED_BYTES: usize = 260;
const CRC: std::ops::Range<usize> = 32..36;

/// The place of the internal log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    start: u64,
    bytes: u64,
}

impl Log {
    /// Returns the place that a superblock says.
    pub(crate) fn of(superblock: &[u8; 512]) -> Self {
        let geometry = Geometry::of(superblock);
        let log_start = u64::from_be_bytes(field(superblock, 48));
        let log_blocks = u32::from_be_bytes(field(superblock, 96));
        Self {
            start: geometry.byte(log_start),
            bytes: u64::from(log_blocks).saturating_mul(geometry.block_bytes),
        }
    }

    fn end(self) -> u64 {
        self.start.saturating_add(self.bytes)
    }

    pub(crate) fn contains(self, offset: u64) -> bool {
        (self.start..self.end()).contains(&offset)
    }

    /// Corrects the checksums of the records that start in `buf`, which was read at `offset`. Those
    /// of mkfs.xfs have none.
    pub(crate) fn seal(self, device: &dyn BlockRead, offset: u64, buf: &mut [u8]) {
        for at in (0..buf.len()).step_by(BLOCK) {
            let block = buf.get_mut(at..at + BLOCK);
            if let Some(block) = block.filter(|block| block.starts_with(&MAGIC))
                && block[CRC] != [0; 4]
                && let Some(crc) = self.checksum(device, offset + at as u64, block)
            {
                block[CRC].copy_from_slice(&crc.to_le_bytes());
            }
        }
    }

    /// Computes the checksum of the record with the header `header` at `offset`; `None` if it is
    /// longer than the log.
    fn checksum(self, device: &dyn BlockRead, offset: u64, header: &[u8]) -> Option<u32> {
        let len = usize::try_from(u32::from_be_bytes(field(header, 12))).ok()?;
        if len > RECORD_BYTES_MAX {
            return None;
        }
        let headers = header_blocks(header)?;
        let blocks = headers + len.div_ceil(BLOCK);
        let mut record = vec![0; blocks * BLOCK];
        self.read(device, offset, &mut record)?;
        let (headers, payload) = record.split_at_mut(headers * BLOCK);
        headers[CRC].fill(0);
        let mut crc = crc32c::crc32c(&headers[..HEADER_BYTES]);
        let extended = headers.chunks(BLOCK).skip(1);
        for block in extended.take(len.div_ceil(CYCLES_BYTES).saturating_sub(1)) {
            crc = crc32c::crc32c_append(crc, &block[..EXTENDED_BYTES]);
        }
        Some(crc32c::crc32c_append(crc, payload.get(..len)?))
    }

    /// Reads around the end of the ring.
    fn read(self, device: &dyn BlockRead, offset: u64, buf: &mut [u8]) -> Option<()> {
        let before_end = usize::try_from(self.end() - offset).ok()?;
        let (first, rest) = buf.split_at_mut(before_end.min(buf.len()));
        device.read_at(offset, first).ok()?;
        device.read_at(self.start, rest).ok()
    }

    /// Returns the header of the newest record, and its offset.
    fn newest(self, image: &Sparse) -> Option<(u64, [u8; BLOCK])> {
        let mut newest: Option<(u64, [u8; BLOCK])> = None;
        for offset in (self.start..self.end()).step_by(BLOCK) {
            let mut block = [0; BLOCK];
            image.read_at(offset, &mut block).ok()?;
            let is_newer = |(_, other): &(u64, [u8; BLOCK])| block[16..24] > other[16..24];
            if block.starts_with(&MAGIC) && newest.as_ref().is_none_or(is_newer) {
                newest = Some((offset, block));
            }
        }
        newest
    }
}

/// Returns the number of blocks of a record's header; `None` if it is larger than any.
fn header_blocks(header: &[u8]) -> Option<usize> {
    let version = u32::from_be_bytes(field(header, 8));
    let size = usize::try_from(u32::from_be_bytes(field(header, 320))).ok()?;
    if version & 2 == 0 {
        return Some(1);
    }
    (size <= RECORD_BYTES_MAX).then_some(size.div_ceil(CYCLES_BYTES).max(1))
}

/// The sizes by which block numbers count.
#[derive(Debug, Clone, Copy)]
struct Geometry {
    block_bytes: u64,
    ag_blocks: u64,
    ag_bits: u32,
}

impl Geometry {
    fn of(superblock: &[u8; 512]) -> Self {
        Self {
            block_bytes: u32::from_be_bytes(field(superblock, 4)).into(),
            ag_blocks: u32::from_be_bytes(field(superblock, 84)).into(),
            ag_bits: superblock[124].min(32).into(),
        }
    }

    /// Returns the byte of the device at which a block of the filesystem starts.
    fn byte(self, block: u64) -> u64 {
        let (ag, within) = (block >> self.ag_bits, block & ((1 << self.ag_bits) - 1));
        let block = ag.saturating_mul(self.ag_blocks).saturating_add(within);
        block.saturating_mul(self.block_bytes)
    }

    /// Returns the block of the filesystem at a byte of the device.
    fn block(self, byte: u64) -> u64 {
        let block = byte / self.block_bytes;
        ((block / self.ag_blocks) << self.ag_bits) | (block % self.ag_blocks)
    }
}

/// Returns the filesystem with one more record in its log: changes of mappings and other intents that
/// no later record finishes. `None` if the log is clean, or no file has its extents in a tree. Linux
/// writes such a log only if it stops between two transactions of one change.
pub(crate) fn with_intents(image: &Sparse) -> Option<Sparse> {
    with_changes(image, &[UNMAP, MAP])
}

/// Returns the filesystem with intents of these changes for one extent of each of two files: one file
/// has its extents in a tree, one in its inode.
fn with_changes(image: &Sparse, kinds: &[u32]) -> Option<Sparse> {
    let mut superblock = [0; BLOCK];
    image.read_at(0, &mut superblock).ok()?;
    let (geometry, log) = (Geometry::of(&superblock), Log::of(&superblock));
    let (offset, newest) = log.newest(image)?;
    // The record of a clean unmount has one operation.
    if u32::from_be_bytes(field(&newest, 40)) < 2 {
        return None;
    }
    let fs = Xfs::open(Arc::new(image.clone())).ok()?;
    let (tree, in_tree) = file_with(&fs, 100..usize::MAX)?;
    let (list, in_list) = file_with(&fs, 1..4)?;
    let mut changes = Vec::new();
    for (inode, extent) in [(tree, in_tree), (list, in_list)] {
        for kind in kinds {
            changes.push(mapping(geometry, inode, &extent, *kind)?);
        }
    }
    changes.extend([FREE_EXTENT, REVERSE_MAPPING].map(|kind| intent(kind, &[0; 16])));
    let payload_bytes = u32::from_be_bytes(field(&newest, 12));
    let blocks = header_blocks(&newest)? as u64 + u64::from(payload_bytes.div_ceil(512));
    let before = (offset - log.start) / BLOCK as u64;
    let record = record(&newest, [before, before + blocks], &changes)?;
    let mut dirty = image.clone();
    let mut at = offset + blocks * BLOCK as u64;
    for block in record.chunks(BLOCK) {
        if !log.contains(at) {
            at = log.start;
        }
        dirty.write(at, block);
        at += BLOCK as u64;
    }
    Some(dirty)
}

/// Returns a file with a number of extents within `counts`, and its second or only one.
fn file_with(fs: &Xfs, counts: std::ops::Range<usize>) -> Option<(InodeNumber, FileExtent)> {
    for entry in diskfs_vfs::walk(fs, fs.root()).flatten() {
        let Ok(extents) = fs.extents_of(entry.inode, 0) else {
            continue;
        };
        let is_stored = |e: &FileExtent| matches!(e.kind, FileExtentKind::Stored { .. });
        let extents: Vec<_> = extents.flatten().filter(is_stored).collect();
        if counts.contains(&extents.len()) {
            return Some((entry.inode, *extents.get(1).or(extents.first())?));
        }
    }
    None
}

/// The types of intents: `XFS_LI_EFI`, `XFS_LI_RUI`, `XFS_LI_BUI`.
const FREE_EXTENT: u16 = 0x1236;
const REVERSE_MAPPING: u16 = 0x1240;
const MAPPING: u16 = 0x1244;

/// The kinds of changes of a mapping, `XFS_BMAP_MAP` and `XFS_BMAP_UNMAP`.
const MAP: u32 = 1;
const UNMAP: u32 = 2;

/// Returns the intent to change a mapping.
fn mapping(
    geometry: Geometry,
    inode: InodeNumber,
    extent: &FileExtent,
    kind: u32,
) -> Option<Vec<u8>> {
    let FileExtentKind::Stored { device_offset } = extent.kind else {
        return None;
    };
    let blocks = u32::try_from(extent.len_bytes.div_ceil(geometry.block_bytes)).ok()?;
    let mut bytes = Vec::new();
    for number in [
        inode.0,
        geometry.block(device_offset),
        extent.offset / geometry.block_bytes,
    ] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(blocks.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    Some(intent(MAPPING, &bytes))
}

/// Returns a log item with one region, which has one extent.
fn intent(kind: u16, extent: &[u8]) -> Vec<u8> {
    // An intent is known by its address in the kernel's memory. Here it is a number that no other has.
    let id = u64::from(kind) << 32 | u64::from(crc32c::crc32c(extent));
    let (regions, extents) = (1_u16.to_le_bytes(), 1_u32.to_le_bytes());
    [
        &kind.to_le_bytes()[..],
        &regions,
        &extents,
        &id.to_le_bytes(),
        extent,
    ]
    .concat()
}

/// The flags of the first and the last operation of a transaction, `XLOG_START_TRANS` and
/// `XLOG_COMMIT_TRANS`.
const START: u8 = 1;
const COMMIT: u8 = 2;

/// Returns a record with one transaction of these items. It follows the record with the header `last`;
/// `places` are the blocks of the log at which both start. Its checksum is left to [`Log::seal`].
fn record(last: &[u8; BLOCK], places: [u64; 2], items: &[Vec<u8>]) -> Option<Vec<u8>> {
    const TRANSACTION: u32 = 0x0f0f_0f0f;
    // `XFS_TRANS_HEADER_MAGIC`.
    const HEADER_MAGIC: u32 = 0x5452_414e;
    let operation = |flags: u8, bytes: &[u8]| {
        let mut operation = TRANSACTION.to_be_bytes().to_vec();
        operation.extend(u32::try_from(bytes.len()).unwrap_or(0).to_be_bytes());
        operation.extend([0x69, flags, 0, 0]);
        operation.extend(bytes);
        operation
    };
    let numbers = [
        HEADER_MAGIC,
        0,
        TRANSACTION,
        u32::try_from(items.len()).ok()?,
    ];
    let head: Vec<u8> = numbers.into_iter().flat_map(u32::to_le_bytes).collect();
    let mut payload = [operation(START, &[]), operation(0, &head)].concat();
    for item in items {
        payload.extend(operation(0, item));
    }
    payload.extend(operation(COMMIT, &[]));
    let operations = u32::try_from(items.len() + 3).ok()?;
    let len = u32::try_from(payload.len()).ok()?;
    payload.resize(payload.len().next_multiple_of(BLOCK), 0);

    let cycle: [u8; 4] = field(last, 4);
    let [before, at] = places.map(|place| u32::try_from(place).ok());
    let mut headers = vec![0; header_blocks(last)? * BLOCK];
    headers[..BLOCK].copy_from_slice(last);
    headers[12..16].copy_from_slice(&len.to_be_bytes());
    headers[16..20].copy_from_slice(&cycle);
    headers[20..24].copy_from_slice(&at?.to_be_bytes());
    headers[36..40].copy_from_slice(&before?.to_be_bytes());
    headers[40..44].copy_from_slice(&operations.to_be_bytes());
    // The first word of each block is in the header, and the cycle in its place.
    for (block, place) in payload.chunks_mut(BLOCK).zip((44..300).step_by(4)) {
        headers[place..place + 4].copy_from_slice(&block[..4]);
        block[..4].copy_from_slice(&cycle);
    }
    for block in headers.chunks_mut(BLOCK).skip(1) {
        block[..4].copy_from_slice(&cycle);
    }
    Some([headers, payload].concat())
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a range of N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xfs_seal::Sealed;

    /// Otherwise the replay would end before the new record.
    #[test]
    fn the_intents_are_finished() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fixtures/images/xfs-log-trees.zst"
        );
        let image = crate::seeds::decompress(path.as_ref()).unwrap();
        let open = |image: Sparse| Xfs::open(Arc::new(Sealed::new(Arc::new(image)))).unwrap();
        let before = open(image.clone());
        let extents = |fs: &Xfs, inode| {
            fs.extents_of(inode, 0)
                .unwrap()
                .flatten()
                .collect::<Vec<_>>()
        };
        let unmapped = open(with_changes(&image, &[UNMAP]).unwrap());
        let same = open(with_intents(&image).unwrap());
        for counts in [100..usize::MAX, 1..4] {
            let (inode, extent) = file_with(&before, counts).unwrap();
            assert!(!extents(&unmapped, inode).contains(&extent), "{inode:?}");
            assert_eq!(extents(&same, inode), extents(&before, inode));
        }
    }
}
