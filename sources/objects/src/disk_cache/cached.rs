//! An object whose blocks are also in the cache on disk.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use diskfs_block::len_of;
use tokio::task::spawn_blocking;

use super::{StoredBlocks, len_in};
use crate::blocks::BLOCK_BYTES;
use crate::object::{FetchError, Fetching, Object};

/// An object whose blocks are first looked for in the cache on disk.
#[derive(Debug)]
pub(crate) struct CachedObject {
    object: Arc<dyn Object>,
    size_bytes: u64,
    pub(super) stored: StoredBlocks,
    /// True after a block could not be stored.
    is_full: AtomicBool,
}

impl CachedObject {
    /// Returns the object, with the blocks that are stored of it.
    pub(crate) fn new(object: Arc<dyn Object>, size_bytes: u64, stored: StoredBlocks) -> Self {
        Self {
            object,
            size_bytes,
            stored,
            is_full: AtomicBool::new(false),
        }
    }

    /// Returns the stored blocks at the beginning of a run, and those at its end.
    fn load(&self, blocks: &Range<u64>) -> (Bytes, Bytes) {
        let load = |block| self.stored.load(block, len_in(self.size_bytes, block));
        let mut head = BytesMut::new();
        let mut missing = blocks.clone();
        while let Some(bytes) = missing.clone().next().and_then(load) {
            head.extend_from_slice(&bytes);
            missing.start = missing.start.saturating_add(1);
        }
        let tail: Vec<Vec<u8>> = missing.rev().map_while(load).collect();
        let tail: Vec<u8> = tail.into_iter().rev().flatten().collect();
        (head.freeze(), tail.into())
    }

    fn store(&self, first: u64, bytes: &Bytes) {
        let block_len = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
        for (block, piece) in (first..).zip(bytes.chunks(block_len)) {
            let is_whole = piece.len() == len_in(self.size_bytes, block);
            if !is_whole || self.is_full.load(Ordering::Relaxed) {
                return;
            }
            if let Err(error) = self.stored.store(block, piece) {
                self.is_full.store(true, Ordering::Relaxed);
                tracing::warn!("blocks are not cached on disk any more: {error}");
            }
        }
    }

    async fn fetch_range(self: Arc<Self>, range: Range<u64>) -> Result<Bytes, FetchError> {
        let at = |offset: u64| offset.checked_div(BLOCK_BYTES).unwrap_or(0);
        let blocks = at(range.start)..range.end.div_ceil(BLOCK_BYTES);
        let this = Arc::clone(&self);
        let (head, tail) = blocking(move || this.load(&blocks)).await?;
        let missing =
            range.start.saturating_add(len_of(&head))..range.end.saturating_sub(len_of(&tail));
        if missing.is_empty() {
            return Ok(head);
        }
        let first = at(missing.start);
        let fetched = Arc::clone(&self.object).fetch(missing).await?;
        let bytes = fetched.clone();
        blocking(move || self.store(first, &bytes)).await?;
        if head.is_empty() && tail.is_empty() {
            return Ok(fetched);
        }
        let mut whole = BytesMut::from(head);
        whole.extend_from_slice(&fetched);
        whole.extend_from_slice(&tail);
        Ok(whole.freeze())
    }
}

impl Object for CachedObject {
    fn fetch(self: Arc<Self>, range: Range<u64>) -> Fetching {
        Box::pin(self.fetch_range(range))
    }
}

/// Runs what waits for the host's disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, FetchError> {
    let panicked = |_| FetchError::passing("the cache on disk panicked");
    spawn_blocking(work).await.map_err(panicked)
}
