//! Blocks of metadata: read once, checked, and the last ones kept.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use diskfs_block::{BlockRead, Error, Result};

use super::crc::checksum;
use crate::map::Area;

/// All of dm's metadata is in blocks of this size.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// Blocks that are kept: 1 MiB, with which a walk in order reads each block once.
const MAX_KEPT: usize = 256;

/// A kind of block: where it says its own number, and what its checksum is changed by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) xor: u32,
    pub(super) number_at: usize,
}

/// The metadata of a pool or cache.
pub(crate) struct Blocks<D: ?Sized> {
    area: Area<D>,
    count: u64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    blocks: HashMap<u64, Arc<Vec<u8>>>,
    /// The oldest first.
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
    /// The whole blocks of `area`.
    pub(crate) fn new(area: Area<D>) -> Self {
        // A block's size fits.
        let block_bytes = u64::try_from(BLOCK_BYTES).unwrap_or(u64::MAX);
        let count = area.len_bytes().checked_div(block_bytes).unwrap_or(0);
        Self {
            area,
            count,
            kept: Mutex::default(),
        }
    }

    /// Block 0 with its first four bytes, a checksum, found right.
    pub(crate) fn superblock(&self, what: &str, xor: u32) -> Result<Vec<u8>> {
        let bytes = self.read(0)?;
        check(&bytes, 0, what, xor)?;
        Ok(bytes)
    }

    /// A block that is of that kind, and says that it is where it is.
    pub(super) fn get(&self, number: u64, kind: Kind) -> Result<Arc<Vec<u8>>> {
        if let Some(kept) = self.kept().blocks.get(&number) {
            return Ok(Arc::clone(kept));
        }
        let bytes = self.read(number)?;
        check(&bytes, number, kind.name, kind.xor)?;
        let says = bytes.get(kind.number_at..).and_then(<[u8]>::first_chunk);
        let says = says.map(|bytes| u64::from_le_bytes(*bytes));
        if says != Some(number) {
            let (name, says) = (kind.name, says.unwrap_or_default());
            let reason = format!("its {name} in block {number} says that it is in {says}");
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
            let reason = format!("names block {number} of its metadata, which has {count}");
            Error::corrupt(reason)
        })?;
        let mut bytes = vec![0; BLOCK_BYTES];
        self.area.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        // Whatever panicked, what is kept are whole blocks.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
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
        .ok_or_else(|| Error::corrupt("a block without bytes"))?;
    let (stored, actual) = (u32::from_le_bytes(*stored), checksum(rest, xor));
    if stored == actual {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "its {what} in block {number} of the metadata has a wrong checksum ({actual:#010x}, stored \
         {stored:#010x})"
    )))
}
