//! Decompressed extents, cached.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::bytes::{index, len_u64};
use crate::file_extent_item::CompressedExtent;

#[derive(Debug, Clone, Copy)]
struct ByBytes;

impl Weighter<CompressedExtent, Arc<[u8]>> for ByBytes {
    fn weight(&self, _: &CompressedExtent, bytes: &Arc<[u8]>) -> u64 {
        /// The memory for an entry besides its bytes: key, pointer, overhead of the cache.
        const ENTRY_BYTES: u64 = 112;
        len_u64(bytes.len()).saturating_add(ENTRY_BYTES)
    }
}

/// A sharded cache of decompressed extents with a budget in bytes.
#[derive(Debug)]
pub(crate) struct ExtentCache {
    extents: Cache<CompressedExtent, Arc<[u8]>, ByBytes>,
}

impl ExtentCache {
    pub(crate) fn new(budget_bytes: u64) -> Self {
        /// The usual size of a decompressed extent.
        const TYPICAL_BYTES: u64 = 128 << 10;
        let items = index(budget_bytes.wrapping_div(TYPICAL_BYTES));
        Self {
            extents: Cache::with_weighter(items, budget_bytes, ByBytes),
        }
    }

    pub(crate) fn get(&self, extent: &CompressedExtent) -> Option<Arc<[u8]>> {
        self.extents.get(extent)
    }

    pub(crate) fn insert(&self, extent: CompressedExtent, bytes: Arc<[u8]>) {
        self.extents.insert(extent, bytes);
    }
}
