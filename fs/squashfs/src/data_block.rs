//! Data blocks: pieces of files, which may be compressed.

use std::sync::Arc;

use diskfs_block::bytes::{index, len_u64};
use diskfs_block::{BlockRead, ByteCache, Weight};

use crate::compressor::Compressor;
use crate::decompress::decompress;
use crate::error::{Result, corrupt, device_failed};

/// The budget of the cache of decompressed blocks. It serves reads of parts of blocks, and
/// fragments; whole blocks are decompressed to the reader's buffer.
const BUDGET_BYTES: u64 = 16 << 20;

/// The bit of a size that says that the block is stored without compression.
const UNCOMPRESSED: u32 = 1 << 24;

/// The size of a stored block in bytes, and whether it is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StoredSize(pub(crate) u32);

impl StoredSize {
    /// Returns true for a block of zeroes, which is not stored.
    pub(crate) const fn is_hole(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn is_compressed(self) -> bool {
        self.0 & UNCOMPRESSED == 0
    }

    /// Returns the number of bytes on the device.
    pub(crate) const fn bytes(self) -> u32 {
        self.0 & !UNCOMPRESSED
    }
}

/// A block on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DataBlock {
    /// The place on the device.
    pub(crate) start: u64,
    pub(crate) size: StoredSize,
}

/// The key of a cached block. The same bytes may be read as blocks of several lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    block: DataBlock,
    /// The decompressed length; `None` for a fragment block, which may have any.
    len: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Decompressed(Vec<u8>);

impl Decompressed {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Weight for Decompressed {
    fn weight_bytes(&self) -> usize {
        self.0.len()
    }
}

/// The data blocks of a filesystem.
#[derive(Debug)]
pub(crate) struct DataBlocks {
    device: Arc<dyn BlockRead>,
    cache: ByteCache<Key, Decompressed>,
    compressor: Compressor,
    block_bytes: u32,
    bytes_used: u64,
}

impl DataBlocks {
    pub(crate) fn new(
        device: Arc<dyn BlockRead>,
        compressor: Compressor,
        block_bytes: u32,
        bytes_used: u64,
    ) -> Self {
        Self {
            device,
            cache: ByteCache::new(BUDGET_BYTES, block_bytes.into()),
            compressor,
            block_bytes,
            bytes_used,
        }
    }

    /// Announces a read of stored bytes.
    pub(crate) fn will_need(&self, start: u64, len_bytes: u64) {
        self.device.will_need(start, len_bytes);
    }

    /// Reads a whole block of a file, which has as many bytes as `out`.
    pub(crate) fn read_whole(&self, block: DataBlock, out: &mut [u8]) -> Result<()> {
        let key = Key {
            block,
            len: Some(out.len()),
        };
        if block.size.is_compressed()
            && let Some(kept) = self.cache.get(&key)
        {
            diskfs_block::bytes::put(out, 0, kept.bytes());
            return Ok(());
        }
        self.unpack(block, out)
    }

    /// Reads bytes of a block from `skip` on. The whole block has `len` bytes.
    pub(crate) fn read_part(
        &self,
        block: DataBlock,
        len: usize,
        skip: usize,
        out: &mut [u8],
    ) -> Result<()> {
        if !block.size.is_compressed() {
            self.check(block, Some(len))?;
            let start = block.start.saturating_add(len_u64(skip));
            return self.device.read_at(start, out).map_err(device_failed);
        }
        let key = Key {
            block,
            len: Some(len),
        };
        let kept = self
            .cache
            .get_or_make(&key, || -> Result<Arc<Decompressed>> {
                let mut bytes = vec![0; len];
                self.unpack(block, &mut bytes)?;
                Ok(Arc::new(Decompressed(bytes)))
            })?;
        let part = diskfs_block::bytes::part(kept.bytes(), skip, out.len());
        out.copy_from_slice(part.ok_or_else(|| corrupt("invalid block: too short", block.start))?);
        Ok(())
    }

    /// Returns a fragment block, which has at most as many bytes as a block of a file.
    pub(crate) fn fragment(&self, block: DataBlock) -> Result<Arc<Decompressed>> {
        let key = Key { block, len: None };
        self.cache
            .get_or_make(&key, || -> Result<Arc<Decompressed>> {
                let stored = self.stored(block)?;
                if !block.size.is_compressed() {
                    return Ok(Arc::new(Decompressed(stored)));
                }
                let mut bytes = vec![0; index(self.block_bytes)];
                let len = self.decompress(block, &stored, &mut bytes)?;
                bytes.truncate(len);
                Ok(Arc::new(Decompressed(bytes)))
            })
    }

    fn unpack(&self, block: DataBlock, out: &mut [u8]) -> Result<()> {
        if !block.size.is_compressed() {
            self.check(block, Some(out.len()))?;
            return self.device.read_at(block.start, out).map_err(device_failed);
        }
        let stored = self.stored(block)?;
        let len = self.decompress(block, &stored, out)?;
        if len != out.len() {
            let reason = format!("invalid data block: {len} bytes, expected {}", out.len());
            return Err(corrupt(reason, block.start));
        }
        Ok(())
    }

    fn decompress(&self, block: DataBlock, stored: &[u8], out: &mut [u8]) -> Result<usize> {
        let name = self.compressor.name();
        let reason = || format!("invalid data block: it can't be decompressed with {name}");
        decompress(self.compressor, stored, out)
            .map_err(|error| corrupt(reason(), block.start).with_source(error))
    }

    fn stored(&self, block: DataBlock) -> Result<Vec<u8>> {
        self.check(block, None)?;
        let mut stored = vec![0; index(block.size.bytes())];
        self.device
            .read_at(block.start, &mut stored)
            .map_err(device_failed)?;
        Ok(stored)
    }

    /// Fails unless a block lies in the filesystem and is not larger than a block may be. A block
    /// without compression must have the expected length.
    fn check(&self, block: DataBlock, expected: Option<usize>) -> Result<()> {
        let size = block.size.bytes();
        let end = block.start.checked_add(size.into());
        if end.is_none_or(|end| end > self.bytes_used) {
            let reason = format!("invalid data block: {size} bytes, outside of the filesystem");
            return Err(corrupt(reason, block.start));
        }
        if size > self.block_bytes || expected.is_some_and(|expected| expected != index(size)) {
            return Err(corrupt(
                format!("invalid data block: {size} bytes are stored"),
                block.start,
            ));
        }
        Ok(())
    }
}
