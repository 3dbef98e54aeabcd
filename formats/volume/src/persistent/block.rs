//! A cache of checked metadata blocks.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use diskfs_block::{BlockRead, Error, Result};

use super::crc::checksum;
use crate::map::Area;

/// The size of all metadata blocks of device-mapper.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// The number of cached blocks: 1 MiB, with which an ordered walk reads each block once.
const MAX_KEPT: usize = 256;

/// A kind of block: the offset of its own number, and the constant of its checksum.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockKind {
    pub(super) name: &'static str,
    pub(super) xor: u32,
    pub(super) number_at: usize,
}

/// The metadata of a thin pool or cache.
pub(crate) struct Blocks<D: ?Sized> {
    area: Area<D>,
    count: u64,
    kept: Mutex<CachedBlocks>,
}

#[derive(Default)]
struct CachedBlocks {
    blocks: HashMap<u64, Arc<Vec<u8>>>,
    /// The numbers of the cached blocks, oldest first.
    order: VecDeque<u64>,
}

impl<D: ?Sized> fmt::Debug for Blocks<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl<D: BlockRead + ?Sized> Blocks<D> {
    /// Creates a reader of the whole blocks of `area`.
    pub(crate) fn new(area: Area<D>) -> Self {
        // The block size fits in 64 bits.
        let block_bytes = u64::try_from(BLOCK_BYTES).unwrap_or(u64::MAX);
        let count = area.len_bytes().checked_div(block_bytes).unwrap_or(0);
        Self {
            area,
            count,
            kept: Mutex::default(),
        }
    }

    /// Reads block 0 and checks its checksum in the first four bytes.
    pub(crate) fn superblock(&self, what: &str, xor: u32) -> Result<Vec<u8>> {
        let bytes = self.read(0)?;
        check(&bytes, 0, what, xor)?;
        Ok(bytes)
    }

    /// Returns a block, after checking its kind, its checksum and its own number.
    pub(super) fn get(&self, number: u64, kind: BlockKind) -> Result<Arc<Vec<u8>>> {
        if let Some(kept) = self.kept().blocks.get(&number) {
            return Ok(Arc::clone(kept));
        }
        let bytes = self.read(number)?;
        check(&bytes, number, kind.name, kind.xor)?;
        let says = bytes.get(kind.number_at..).and_then(<[u8]>::first_chunk);
        let says = says.map(|bytes| u64::from_le_bytes(*bytes));
        if says != Some(number) {
            let (name, says) = (kind.name, says.unwrap_or_default());
            let reason =
                format!("has an invalid {name} in block {number}: its own number is {says}");
            return Err(Error::corrupt(reason));
        }
        let block = Arc::new(bytes);
        self.kept().put(number, &block);
        Ok(block)
    }

    fn read(&self, number: u64) -> Result<Vec<u8>> {
        let count = self.count;
        let offset = u64::try_from(BLOCK_BYTES).ok();
        let offset = offset.and_then(|bytes| bytes.checked_mul(number));
        let offset = offset.filter(|_| number < count).ok_or_else(|| {
            let reason = format!(
                "has an invalid reference to block {number} of its metadata, \
                 which has {count} blocks"
            );
            Error::corrupt(reason)
        })?;
        let mut bytes = vec![0; BLOCK_BYTES];
        self.area.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, CachedBlocks> {
        // After a panic the cache still has only complete blocks.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedBlocks {
    fn put(&mut self, number: u64, block: &Arc<Vec<u8>>) {
        if self.blocks.insert(number, Arc::clone(block)).is_none() {
            self.order.push_back(number);
        }
        if self.order.len() > MAX_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.blocks.remove(&oldest);
        }
    }
}

fn check(bytes: &[u8], number: u64, what: &str, xor: u32) -> Result<()> {
    let (stored, rest) = bytes
        .split_first_chunk()
        .ok_or_else(|| Error::corrupt("invalid metadata block: it is empty"))?;
    let (stored, actual) = (u32::from_le_bytes(*stored), checksum(rest, xor));
    if stored == actual {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "has an invalid {what} in block {number} of the metadata: wrong checksum \
         ({actual:#010x}, stored {stored:#010x})"
    )))
}
