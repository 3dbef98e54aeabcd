//! The caches that a chain of images shares, with a byte budget.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use diskfs_block::{BlockRead, Error, Result};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use zerocopy::IntoBytes;

use crate::numbers::{to_u64, to_usize};
use crate::qcow2::units::HostOffset;

/// The smallest budget for tables: 16 slices of an L2 table. With less, reads would thrash.
const TABLES_MIN_BYTES: u64 = 1 << 20;
/// The smallest budget for decompressed clusters: four of the largest.
const CLUSTERS_MIN_BYTES: u64 = 8 << 20;
/// The largest number of shards of a cache. Threads rarely contend for one of so many locks.
const SHARDS_MAX: u64 = 16;

/// The number of an image in its chain, as a part of cache keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LayerId(pub(crate) u32);

/// The key of a cached piece: which table, and which piece of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TableKey {
    /// A piece of the L1 table.
    L1(LayerId, u64),
    /// A slice of an L2 table, numbered over the guest's disk.
    L2(LayerId, u64),
    /// A slice of a refcount block, numbered over the image file.
    Refcounts(LayerId, u64),
}

/// The key of a decompressed cluster: its image and its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClusterKey(pub(crate) LayerId, pub(crate) HostOffset);

/// A piece of a table as stored: 64-bit big-endian words.
///
/// A writer changes words in place while other threads read them. A single word is always
/// consistent; an entry of two words must be read with [`pair`](Self::pair).
#[derive(Debug)]
pub(crate) struct TableSlice {
    at: HostOffset,
    words: Vec<AtomicU64>,
    /// The sequence number of pair changes. It is incremented before and after each change, so it
    /// is odd during a change.
    pair_changes: AtomicU64,
    /// True if the slice was used since the last eviction pass.
    used: AtomicBool,
}

impl TableSlice {
    /// Reads `len_bytes` at `at`.
    pub(crate) fn read(file: &dyn BlockRead, at: HostOffset, len_bytes: u64) -> Result<Self> {
        let mut slice = Self::zeroed(at, len_bytes);
        let bytes = slice.words.as_mut_slice().as_mut_bytes();
        let len = bytes.len().min(to_usize(len_bytes));
        file.read_at(at.0, bytes.get_mut(..len).unwrap_or_default())?;
        Ok(slice)
    }

    /// Creates a slice of `len_bytes` of zeroes for offset `at`.
    pub(crate) fn zeroed(at: HostOffset, len_bytes: u64) -> Self {
        let count = to_usize(len_bytes.div_ceil(8));
        let mut words = Vec::new();
        words.resize_with(count, AtomicU64::default);
        Self {
            at,
            words,
            pair_changes: AtomicU64::default(),
            used: AtomicBool::default(),
        }
    }

    /// Returns the `index`th word. Past the end it is zero, which every table reads as
    /// "unallocated".
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.words
            .get(index)
            .map_or(0, |word| u64::from_be(word.load(Ordering::Acquire)))
    }

    /// Changes the `index`th word. Only one thread at a time may change a slice.
    pub(crate) fn set_word(&self, index: usize, value: u64) {
        if let Some(word) = self.words.get(index) {
            word.store(value.to_be(), Ordering::Release);
        }
    }

    /// Returns two words of one entry, from the `index`th on.
    pub(crate) fn pair(&self, index: usize) -> (u64, u64) {
        loop {
            let before = self.pair_changes.load(Ordering::Acquire);
            let pair = (self.word(index), self.word(index.saturating_add(1)));
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.pair_changes.load(Ordering::Relaxed) == before {
                return pair;
            }
            std::hint::spin_loop();
        }
    }

    /// Changes two words of one entry.
    pub(crate) fn set_pair(&self, index: usize, (first, second): (u64, u64)) {
        self.pair_changes.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.set_word(index, first);
        self.set_word(index.saturating_add(1), second);
        self.pair_changes.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of words.
    pub(crate) const fn len(&self) -> usize {
        self.words.len()
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        to_u64(self.words.len()).saturating_mul(8)
    }

    /// Returns the offset at which the slice is stored.
    pub(crate) const fn at(&self) -> HostOffset {
        self.at
    }

    /// Returns the offset at which the `index`th word is stored.
    pub(crate) fn place_of(&self, index: usize) -> HostOffset {
        self.at.plus(to_u64(index).saturating_mul(8))
    }

    /// Returns a copy of some of its words, as stored.
    pub(crate) fn copy_of(&self, words: Range<usize>) -> Vec<u8> {
        let words = self.words.get(words).unwrap_or_default();
        words
            .iter()
            .flat_map(|word| word.load(Ordering::Acquire).to_ne_bytes())
            .collect()
    }

    pub(crate) fn mark_used(&self) {
        // Load first: a store would take the cache line away from the other processors.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if the slice was used since the last call.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
}

/// A decompressed cluster.
pub(crate) type Cluster = Arc<Vec<u8>>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ByBytes;

impl Weighter<TableKey, Arc<TableSlice>> for ByBytes {
    fn weight(&self, _: &TableKey, slice: &Arc<TableSlice>) -> u64 {
        slice.size_bytes().saturating_add(128)
    }
}

impl Weighter<ClusterKey, Cluster> for ByBytes {
    fn weight(&self, _: &ClusterKey, cluster: &Cluster) -> u64 {
        to_u64(cluster.len()).saturating_add(128)
    }
}

type Sharded<K, V> = Cache<K, V, ByBytes, DefaultHashBuilder, DefaultLifecycle<K, V>>;

/// The caches of one open image, over its whole chain.
#[derive(Debug)]
pub(crate) struct Caches {
    pub(crate) tables: Sharded<TableKey, Arc<TableSlice>>,
    pub(crate) clusters: Sharded<ClusterKey, Cluster>,
    /// The budget of `clusters`.
    pub(crate) clusters_bytes: u64,
}

impl Caches {
    pub(crate) fn new(budget_bytes: u64) -> Result<Self> {
        let half = budget_bytes / 2;
        let tables_bytes = half.max(TABLES_MIN_BYTES);
        let clusters_bytes = half.max(CLUSTERS_MIN_BYTES);
        Ok(Self {
            tables: sharded(tables_bytes, 64 << 10, 512)?,
            clusters: sharded(clusters_bytes, 2 << 20, 64 << 10)?,
            clusters_bytes,
        })
    }
}

/// Creates a cache of `budget_bytes` for values of at most `largest_bytes`, usually of about
/// `usual_bytes`.
fn sharded<K, V>(budget_bytes: u64, largest_bytes: u64, usual_bytes: u64) -> Result<Sharded<K, V>>
where
    K: Eq + std::hash::Hash,
    V: Clone,
    ByBytes: Weighter<K, V>,
{
    // A shard that cannot hold several of the largest values would not cache them.
    let shards = budget_bytes
        .checked_div(largest_bytes.saturating_mul(4))
        .unwrap_or(1)
        .clamp(1, SHARDS_MAX);
    let items = budget_bytes
        .checked_div(usual_bytes)
        .unwrap_or(1)
        .clamp(16, 1024);
    let options = OptionsBuilder::new()
        .weight_capacity(budget_bytes)
        .estimated_items_capacity(to_usize(items))
        .shards(to_usize(shards))
        .build()
        .map_err(|e| {
            Error::invalid(format!(
                "cannot create a cache of {budget_bytes} bytes: {e}"
            ))
        })?;
    Ok(Cache::with_options(
        options,
        ByBytes,
        DefaultHashBuilder::default(),
        DefaultLifecycle::default(),
    ))
}
