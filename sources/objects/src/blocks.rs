//! The blocks of an object: those in memory, and those that are being fetched.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use diskfs_block::len_of;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::fetch::Fetch;

/// The size of a block.
pub(crate) const BLOCK_BYTES: u64 = 64 << 10;

/// The part of the cache for blocks that were read more than once. The other part must hold what is
/// read ahead until it is read.
const HOT: f64 = 0.25;

/// The place of a block's bytes.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// In memory.
    Cached(Arc<[u8]>),
    /// On its way.
    Coming(Arc<Fetch>),
}

#[derive(Debug, Clone, Copy)]
struct ByBytes;

impl Weighter<u64, Arc<[u8]>> for ByBytes {
    fn weight(&self, _: &u64, block: &Arc<[u8]>) -> u64 {
        len_of(block).max(1)
    }
}

/// The blocks of an object.
#[derive(Debug)]
pub(crate) struct Blocks {
    size_bytes: u64,
    cached: Cache<u64, Arc<[u8]>, ByBytes>,
    /// Held while fetches are planned, so that no block is fetched twice at once.
    coming: Mutex<HashMap<u64, Arc<Fetch>>>,
}

impl Blocks {
    /// Creates an empty cache for an object.
    pub(crate) fn new(size_bytes: u64, cache_bytes: u64) -> Self {
        let count = cache_bytes.checked_div(BLOCK_BYTES).unwrap_or(0).max(16);
        let mut options = OptionsBuilder::new();
        options
            .shards(1)
            .estimated_items_capacity(usize::try_from(count).unwrap_or(usize::MAX))
            .weight_capacity(cache_bytes)
            .hot_allocation(HOT);
        // OK to expect: it fails only if a capacity is missing.
        #[expect(clippy::expect_used, reason = "the capacities are set above")]
        let options = options.build().expect("both capacities are set");
        Self {
            size_bytes,
            cached: Cache::with_options(
                options,
                ByBytes,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            coming: Mutex::default(),
        }
    }

    /// Returns the number of blocks.
    pub(crate) fn count(&self) -> u64 {
        self.size_bytes.div_ceil(BLOCK_BYTES)
    }

    /// Returns the bytes of a run of blocks. The last block may be shorter than the others.
    pub(crate) fn bytes_of(&self, blocks: &Range<u64>) -> Range<u64> {
        let at = |block: u64| block.saturating_mul(BLOCK_BYTES).min(self.size_bytes);
        at(blocks.start)..at(blocks.end)
    }

    /// Returns the places of blocks. `plan` is called for each missing block with what says whether
    /// a block is missing, and returns the run around it to fetch; the new fetches are given to
    /// `begin`.
    pub(crate) fn places(
        &self,
        blocks: Range<u64>,
        mut plan: impl FnMut(u64, &dyn Fn(u64) -> bool) -> Range<u64>,
        mut begin: impl FnMut(Arc<Fetch>),
    ) -> Vec<Place> {
        let mut coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
        let mut places = Vec::new();
        for block in blocks {
            let place = match (self.cached.get(&block), coming.get(&block)) {
                (Some(bytes), _) => Place::Cached(bytes),
                (None, Some(fetch)) => Place::Coming(Arc::clone(fetch)),
                (None, None) => {
                    let is_missing = |block: u64| {
                        self.cached.peek(&block).is_none() && !coming.contains_key(&block)
                    };
                    let run = plan(block, &is_missing);
                    let fetch = Arc::new(Fetch::new(self.bytes_of(&run)));
                    coming.extend(run.map(|block| (block, Arc::clone(&fetch))));
                    begin(Arc::clone(&fetch));
                    Place::Coming(fetch)
                }
            };
            places.push(place);
        }
        places
    }

    /// Returns the number of blocks that are being fetched.
    pub(crate) fn coming(&self) -> usize {
        let coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
        coming.len()
    }

    /// Caches the bytes of a fetch that has ended, which begin with a block.
    pub(crate) fn keep(&self, start: u64, bytes: &Bytes) {
        let first = start.checked_div(BLOCK_BYTES).unwrap_or(0);
        let block_len = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
        for (block, piece) in (first..).zip(bytes.chunks(block_len)) {
            let end = self.bytes_of(&(block..block.saturating_add(1))).end;
            let whole = end.saturating_sub(block.saturating_mul(BLOCK_BYTES));
            if len_of(piece) == whole {
                self.cached.insert(block, piece.into());
            }
        }
    }

    /// Forgets that a range is being fetched.
    pub(crate) fn settle(&self, range: &Range<u64>) {
        let first = range.start.checked_div(BLOCK_BYTES).unwrap_or(0);
        let mut coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
        for block in first..range.end.div_ceil(BLOCK_BYTES) {
            coming.remove(&block);
        }
    }
}
