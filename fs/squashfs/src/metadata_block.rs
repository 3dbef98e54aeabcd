//! Metadata blocks: a header of two bytes, and up to 8 KiB that may be compressed.

use std::sync::Arc;

use diskfs_block::bytes::{index, len_u64};
use diskfs_block::{BlockRead, ByteCache, Cache, CacheOptions, Weight};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::compressor::Compressor;
use crate::decompress::decompress;
use crate::error::{Result, corrupt, device_failed};
use crate::inode_reference::InodeReference;

/// The size of a decompressed metadata block, except the last one of a table.
pub(crate) const METADATA_BYTES: usize = 8192;

/// The bit of the header that says that the block is stored without compression.
const UNCOMPRESSED: u16 = 0x8000;

/// The budget of the cache of decompressed blocks.
const BUDGET_BYTES: u64 = 8 << 20;

/// The cache of the stored blocks: neighbours are read together, and decompressed when needed.
const STORED: CacheOptions = CacheOptions {
    budget_bytes: 1 << 20,
    block_bytes: 16 << 10,
    bypass_bytes: 64 << 10,
};

/// A decompressed metadata block.
#[derive(Debug)]
struct MetadataBlock {
    /// The contents; never empty.
    bytes: Vec<u8>,
    /// The place of the next block on the device.
    next: u64,
}

impl Weight for MetadataBlock {
    fn weight_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The metadata blocks of a filesystem.
#[derive(Debug)]
pub(crate) struct MetadataBlocks {
    stored: Cache,
    blocks: ByteCache<u64, MetadataBlock>,
    compressor: Compressor,
    bytes_used: u64,
}

impl MetadataBlocks {
    pub(crate) fn new(
        device: Arc<dyn BlockRead>,
        compressor: Compressor,
        bytes_used: u64,
    ) -> Result<Self> {
        Ok(Self {
            stored: Cache::new(device, STORED).map_err(device_failed)?,
            blocks: ByteCache::new(BUDGET_BYTES, len_u64(METADATA_BYTES)),
            compressor,
            bytes_used,
        })
    }

    /// Reads bytes that are stored outside of metadata blocks.
    ///
    /// # Errors
    /// `Corrupt` if they lie outside of the filesystem.
    pub(crate) fn read_stored(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        let end = at.checked_add(len_u64(buf.len()));
        if end.is_none_or(|end| end > self.bytes_used) {
            return Err(corrupt("invalid place: outside of the filesystem", at));
        }
        self.stored.read_at(at, buf).map_err(device_failed)
    }

    fn block(&self, at: u64) -> Result<Arc<MetadataBlock>> {
        self.blocks
            .get_or_make(&at, || self.read_block(at).map(Arc::new))
    }

    fn read_block(&self, at: u64) -> Result<MetadataBlock> {
        let mut header = [0; 2];
        self.read_stored(at, &mut header)?;
        let header = u16::from_le_bytes(header);
        let size = usize::from(header & !UNCOMPRESSED);
        if size == 0 || size > METADATA_BYTES {
            let reason = format!("invalid metadata block: its size is {size} bytes");
            return Err(corrupt(reason, at));
        }
        let start = at.saturating_add(2);
        let mut stored = vec![0; size];
        self.read_stored(start, &mut stored)?;
        let bytes = if header & UNCOMPRESSED == 0 {
            self.decompressed(&stored, at)?
        } else {
            stored
        };
        let next = start.saturating_add(len_u64(size));
        Ok(MetadataBlock { bytes, next })
    }

    fn decompressed(&self, stored: &[u8], at: u64) -> Result<Vec<u8>> {
        let name = self.compressor.name();
        let reason = || format!("invalid metadata block: it can't be decompressed with {name}");
        let mut bytes = vec![0; METADATA_BYTES];
        let len = decompress(self.compressor, stored, &mut bytes)
            .map_err(|error| corrupt(reason(), at).with_source(error))?;
        if len == 0 {
            return Err(corrupt("invalid metadata block: it is empty", at));
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Returns a cursor at a place of a table on the device: `start..end` in bytes.
    ///
    /// # Errors
    /// `Corrupt` if the place lies outside of the table, or of its block.
    pub(crate) fn cursor(&self, table: Table, place: InodeReference) -> Result<MetadataCursor<'_>> {
        let at = table.start.saturating_add(place.block());
        let mut cursor = self.cursor_at(MetadataPlace { at, offset: 0 }, table);
        cursor.skip_to(place.offset())?;
        Ok(cursor)
    }

    /// Returns a cursor at the position of another cursor of the same table.
    pub(crate) fn cursor_at(&self, place: MetadataPlace, table: Table) -> MetadataCursor<'_> {
        MetadataCursor {
            blocks: self,
            block: None,
            at: place.at,
            offset: place.offset,
            end: table.end,
        }
    }
}

/// The bytes of the device that a table may have: its blocks start there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// A place in a table that is stored, so that a [`MetadataCursor`] can continue there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MetadataPlace {
    /// The byte of the block on the device.
    at: u64,
    offset: usize,
}

/// A reader of consecutive metadata blocks.
#[derive(Debug, Clone)]
pub(crate) struct MetadataCursor<'a> {
    blocks: &'a MetadataBlocks,
    block: Option<Arc<MetadataBlock>>,
    /// The place of the block on the device.
    at: u64,
    offset: usize,
    end: u64,
}

impl MetadataCursor<'_> {
    /// Returns the place on the device of the block that is read next, for errors.
    pub(crate) fn place(&self) -> u64 {
        self.at
    }

    /// Returns the position, to continue there with
    /// [`cursor_at`](MetadataBlocks::cursor_at).
    pub(crate) fn position(&self) -> MetadataPlace {
        MetadataPlace {
            at: self.at,
            offset: self.offset,
        }
    }

    fn load(&mut self) -> Result<Arc<MetadataBlock>> {
        if let Some(block) = &self.block {
            return Ok(Arc::clone(block));
        }
        if self.at >= self.end {
            return Err(corrupt(
                "invalid place: after the end of its table",
                self.at,
            ));
        }
        let block = self.blocks.block(self.at)?;
        self.block = Some(Arc::clone(&block));
        Ok(block)
    }

    fn skip_to(&mut self, offset: usize) -> Result<()> {
        let block = self.load()?;
        if offset >= block.bytes.len() {
            let reason = "invalid place: after the end of its metadata block";
            return Err(corrupt(reason, self.at));
        }
        self.offset = offset;
        Ok(())
    }

    /// Passes the next bytes piecewise to `take`, with the number of bytes that follow.
    fn advance(&mut self, len: usize, mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let block = self.load()?;
            let rest = block.bytes.get(self.offset..).unwrap_or_default();
            let piece = rest.get(..left).unwrap_or(rest);
            take(piece);
            left = left.saturating_sub(piece.len());
            self.offset = self.offset.saturating_add(piece.len());
            if self.offset >= block.bytes.len() {
                (self.at, self.offset, self.block) = (block.next, 0, None);
            }
        }
        Ok(())
    }

    /// Skips `len` bytes. The time is that of decompressing the blocks between.
    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        self.advance(index(len), |_| ())
    }

    /// Fills `buf` with the next bytes.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> Result<()> {
        let mut done = 0_usize;
        let len = buf.len();
        self.advance(len, |piece| {
            diskfs_block::bytes::put(buf, done, piece);
            done = done.saturating_add(piece.len());
        })
    }

    /// Reads `len` bytes; the caller limits the length.
    pub(crate) fn read_vec(&mut self, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a structure.
    pub(crate) fn read_raw<T>(&mut self) -> Result<T>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        /// The size of the largest structure; see the assertion in `raw_inode.rs`.
        const RAW_MAX_BYTES: usize = 64;
        let at = self.at;
        let mut bytes = [0; RAW_MAX_BYTES];
        let buf = bytes.get_mut(..size_of::<T>()).unwrap_or_default();
        self.read(buf)?;
        T::read_from_bytes(buf).map_err(|_| corrupt("invalid structure: wrong size", at))
    }
}
