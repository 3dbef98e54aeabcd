//! Tree blocks, read from any good copy, and cached.

use std::sync::Arc;

use diskfs_block::{ByteCache, Weight};

use crate::bytes::index;
use crate::error::{Error, Result};
use crate::logical::Logical;
use crate::storage::{Storage, no_copy};
use crate::tree_block::{BlockFormat, Expected, TreeBlock};
use crate::tree_root::TreeRoot;

impl Weight for TreeBlock {
    fn weight_bytes(&self) -> usize {
        self.len_bytes()
    }
}

/// The tree blocks of a filesystem. A block is checked once, when it is read; that it is the one
/// that a pointer leads to is checked at each use.
#[derive(Debug)]
pub(crate) struct TreeBlocks {
    pub(crate) storage: Storage,
    format: BlockFormat,
    cache: ByteCache<Logical, TreeBlock>,
}

impl TreeBlocks {
    /// Returns the blocks on `storage` with an empty cache.
    pub(crate) fn new(storage: Storage, budget_bytes: u64) -> Self {
        let superblock = &storage.devices.superblock;
        let format = BlockFormat {
            checksum: superblock.checksum,
            node_bytes: superblock.node_bytes,
            fsids: storage.devices.fsids.clone(),
        };
        Self {
            cache: ByteCache::new(budget_bytes, format.node_bytes.into()),
            format,
            storage,
        }
    }

    /// Returns the block at the root of a tree.
    pub(crate) fn root(&self, root: &TreeRoot) -> Result<Arc<TreeBlock>> {
        self.get(&Expected {
            logical: root.logical,
            level: root.level,
            generation: root.generation,
            owner: root.owner,
            first_key: None,
        })
    }

    /// Returns the block that a pointer leads to.
    pub(crate) fn get(&self, expected: &Expected) -> Result<Arc<TreeBlock>> {
        if let Some(block) = self.cache.get(&expected.logical) {
            block.check(expected)?;
            return Ok(block);
        }
        let block = Arc::new(self.read(expected)?);
        self.cache.insert(expected.logical, Arc::clone(&block));
        Ok(block)
    }

    /// Reads a block from the first copy that is what the pointer says.
    fn read(&self, expected: &Expected) -> Result<TreeBlock> {
        let logical = expected.logical;
        let mut first: Option<Error> = None;
        for copy in 0..self.storage.copies(logical)? {
            match self.read_copy(expected, copy) {
                Ok(block) => return Ok(block),
                Err(error) => {
                    tracing::debug!(%logical, copy, %error, "bad copy of a tree block");
                    first = first.or(Some(error));
                }
            }
        }
        Err(first.unwrap_or_else(|| no_copy(logical)))
    }

    fn read_copy(&self, expected: &Expected, copy: usize) -> Result<TreeBlock> {
        let mut bytes = vec![0; index(self.format.node_bytes)].into_boxed_slice();
        let place = self.storage.read_copy(expected.logical, &mut bytes, copy)?;
        let block = TreeBlock::parse(bytes, expected.logical, place, &self.format)?;
        block.check(expected)?;
        Ok(block)
    }

    /// Reads blocks that will be needed soon, neighbours with one read. Errors are left to the real
    /// reads.
    pub(crate) fn prefetch(&self, mut wanted: Vec<Expected>) {
        wanted.retain(|expected| !self.cache.contains(&expected.logical));
        wanted.sort_unstable_by_key(|expected| expected.logical);
        wanted.dedup_by_key(|expected| expected.logical);
        let node_bytes = u64::from(self.format.node_bytes);
        let follows = |a: &Expected, b: &Expected| a.logical.plus(node_bytes) == b.logical;
        for run in wanted.chunk_by(follows) {
            for run in run.chunks(PREFETCH_BLOCKS) {
                self.prefetch_run(run);
            }
        }
    }

    /// Reads neighbouring blocks from their first copies, and caches those that are right.
    fn prefetch_run(&self, run: &[Expected]) {
        let Some(first) = run.first() else { return };
        let node_bytes = index(self.format.node_bytes);
        let mut bytes = vec![0; run.len().saturating_mul(node_bytes)];
        let Ok(place) = self.storage.read_copy(first.logical, &mut bytes, 0) else {
            return;
        };
        for (expected, bytes) in run.iter().zip(bytes.chunks_exact(node_bytes)) {
            let place = place.saturating_add(expected.logical.since(first.logical));
            let block = TreeBlock::parse(bytes.into(), expected.logical, place, &self.format);
            if let Ok(block) = block
                && block.check(expected).is_ok()
            {
                self.cache.insert(expected.logical, Arc::new(block));
            }
        }
    }

    /// Returns true if the block is cached.
    pub(crate) fn has(&self, logical: Logical) -> bool {
        self.cache.contains(&logical)
    }
}

/// The number of neighbouring blocks that one read fetches, so that its buffer stays small.
const PREFETCH_BLOCKS: usize = 32;
