//! What a chain of images shares: caches with a byte budget.

use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Result};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::U64;

use crate::numbers::{to_u64, to_usize};
use crate::qcow2::units::HostOffset;

/// The smallest budget for tables: 16 slices of an L2 table. Below it reads would thrash.
const TABLES_MIN_BYTES: u64 = 1 << 20;
/// The smallest budget for decompressed clusters: four of the largest.
const CLUSTERS_MIN_BYTES: u64 = 8 << 20;
/// Each cache is cut into this many shards at most, so that threads seldom meet at a lock.
const SHARDS_MAX: u64 = 16;

/// Which image of a chain a cached piece belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LayerId(pub(crate) u32);

/// Which table a piece is of, and which piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TableKey {
    /// A piece of the L1 table.
    L1(LayerId, u64),
    /// A slice of an L2 table, counted over the guest's disk.
    L2(LayerId, u64),
}

/// A compressed cluster: its image and where it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClusterKey(pub(crate) LayerId, pub(crate) HostOffset);

/// A piece of a table as stored: 64-bit big-endian words.
#[derive(Debug)]
pub(crate) struct TableSlice {
    at: HostOffset,
    words: Vec<U64>,
}

impl TableSlice {
    /// Reads `len_bytes` at `at`.
    pub(crate) fn read(file: &dyn BlockRead, at: HostOffset, len_bytes: u64) -> Result<Self> {
        let count = to_usize(len_bytes.div_ceil(8));
        let mut words = vec![U64::ZERO; count];
        let bytes = words.as_mut_bytes();
        let len = bytes.len().min(to_usize(len_bytes));
        file.read_at(at.0, bytes.get_mut(..len).unwrap_or_default())?;
        Ok(Self { at, words })
    }

    /// The `index`th word; past the end zero, which every table reads as "nothing there".
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.words.get(index).map_or(0, |word| word.get())
    }

    /// The bytes as stored.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.words.as_bytes()
    }

    /// Words in it.
    pub(crate) const fn len(&self) -> usize {
        self.words.len()
    }

    /// Where the `index`th word is stored.
    pub(crate) fn place_of(&self, index: usize) -> HostOffset {
        self.at.plus(to_u64(index).saturating_mul(8))
    }
}

/// A decompressed cluster.
pub(crate) type Cluster = Arc<Vec<u8>>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ByBytes;

impl Weighter<TableKey, Arc<TableSlice>> for ByBytes {
    fn weight(&self, _: &TableKey, slice: &Arc<TableSlice>) -> u64 {
        to_u64(slice.bytes().len()).saturating_add(128)
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

/// A cache of `budget_bytes` for values of at most `largest_bytes`, mostly around `usual_bytes`.
fn sharded<K, V>(budget_bytes: u64, largest_bytes: u64, usual_bytes: u64) -> Result<Sharded<K, V>>
where
    K: Eq + std::hash::Hash,
    V: Clone,
    ByBytes: Weighter<K, V>,
{
    // A shard that cannot hold a few of the largest values would not cache them at all.
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
        .map_err(|e| Error::invalid(format!("cache of {budget_bytes} bytes: {e}")))?;
    Ok(Cache::with_options(
        options,
        ByBytes,
        DefaultHashBuilder::default(),
        DefaultLifecycle::default(),
    ))
}
