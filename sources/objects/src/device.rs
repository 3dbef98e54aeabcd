//! The block device of an object.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use diskfs_block::{BlockRead, Error, ErrorKind, Extent, ExtentKind, Result, check_bounds, len_of};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::blocks::{BLOCK_BYTES, Blocks, Place};
use crate::counted::{Count, CountedObject, Statistics};
use crate::disk_cache::{CachedObject, StoredBlocks};
use crate::fetch::Fetch;
use crate::object::{Object, Opened};
use crate::open::open;
use crate::options::Options;
use crate::read_ahead::{REQUEST_BLOCKS, ReadAhead};
use crate::retry::Outage;
use crate::runtime;

/// The number of blocks on their way from which on nothing is read ahead: 32 MiB.
const MAX_COMING: usize = 512;

/// A read-only block device: an object that a server has.
///
/// Reads wait for the ranges that they need. A range is fetched once, however many threads wait for
/// it, and stays in memory as long as the budget allows.
#[derive(Debug)]
pub struct Device {
    shared: Arc<Shared>,
    ahead: ReadAhead,
    runtime: Handle,
}

#[derive(Debug)]
struct Shared {
    object: Arc<dyn Object>,
    /// The name for errors.
    name: String,
    /// The validator of the version, if the server names one.
    version: Option<String>,
    size_bytes: u64,
    blocks: Blocks,
    /// One permit for each request at once.
    requests: Semaphore,
    retry_timeout: Duration,
    outage: Outage,
    count: Arc<Count>,
}

impl Device {
    /// Opens the object of a URI: `http://`, `https://`, `s3://`, `gs://`, `az://`. `name` is the
    /// name of the device in errors; the URI may contain secrets.
    ///
    /// # Errors
    /// * [`ErrorKind::NotFound`](diskfs_block::ErrorKind::NotFound) if the server has no such
    ///   object.
    /// * [`ErrorKind::Denied`](diskfs_block::ErrorKind::Denied) if the server refuses, or is not
    ///   trusted.
    /// * [`ErrorKind::Unsupported`](diskfs_block::ErrorKind::Unsupported) if the server doesn't
    ///   serve ranges.
    /// * [`ErrorKind::Io`](diskfs_block::ErrorKind::Io) if it cannot be reached.
    pub fn open(uri: &str, name: &str, options: &Options) -> Result<Self> {
        Self::of(open(uri, name, options)?, (uri, name), options)
    }

    pub(crate) fn of(opened: Opened, (uri, name): (&str, &str), options: &Options) -> Result<Self> {
        let blocks = Blocks::new(opened.size_bytes, options.cache_bytes);
        blocks.keep(0, &opened.first);
        let ahead = ReadAhead::after(len_of(&opened.first).div_ceil(BLOCK_BYTES));
        let count = Arc::new(Count::of_first(&opened.first));
        let counted = Arc::new(CountedObject::new(opened.object, Arc::clone(&count)));
        let object: Arc<dyn Object> = match (&options.disk_cache, &opened.strong_version) {
            (Some(cache), Some(version)) => {
                let size = opened.size_bytes;
                let stored = StoredBlocks::of(cache, &[uri, version, &size.to_string()]);
                Arc::new(CachedObject::new(counted, size, stored))
            }
            _ => counted,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                object,
                name: name.to_owned(),
                version: opened.version,
                size_bytes: opened.size_bytes,
                blocks,
                requests: Semaphore::new(options.max_requests.max(1)),
                retry_timeout: options.retry_timeout,
                outage: Outage::default(),
                count,
            }),
            ahead,
            runtime: runtime::handle()?,
        })
    }

    /// Returns the validator of the object's version, if the server names one.
    pub fn version(&self) -> Option<&str> {
        self.shared.version.as_deref()
    }

    /// Returns the number of requests and bytes until now.
    pub fn statistics(&self) -> Statistics {
        self.shared.count.statistics()
    }

    fn begin(&self, fetch: Arc<Fetch>) {
        let shared = Arc::clone(&self.shared);
        self.runtime.spawn(async move {
            let (asked, range) = (Arc::clone(&shared), fetch.range.clone());
            // In a task of its own, whose panic would otherwise leave threads waiting.
            let fetched = tokio::spawn(async move { asked.fetch(&range).await }).await;
            let panicked = |_| Err(Error::new(ErrorKind::Io, "a request panicked"));
            let result = fetched.unwrap_or_else(panicked);
            if let Ok(bytes) = &result {
                shared.blocks.keep(fetch.range.start, bytes);
            }
            shared.blocks.settle(&fetch.range);
            fetch.finish(result);
        });
    }

    /// Begins to fetch what is missing of these blocks.
    fn prefetch(&self, blocks: Range<u64>) {
        if self.shared.blocks.coming() >= MAX_COMING {
            return;
        }
        let end = blocks.end;
        let plan = |block: u64, is_missing: &dyn Fn(u64) -> bool| {
            let limit = block.saturating_add(REQUEST_BLOCKS).min(end);
            let run_end = (block..limit).find(|&block| !is_missing(block));
            block..run_end.unwrap_or(limit)
        };
        self.shared
            .blocks
            .places(blocks, plan, |fetch| self.begin(fetch));
    }
}

impl Shared {
    async fn fetch(&self, range: &Range<u64>) -> Result<Bytes> {
        let in_file = |error: Error| error.in_file(&self.name);
        // It is never closed.
        let _permit = self.requests.acquire().await;
        let attempt = || Arc::clone(&self.object).fetch(range.clone());
        let fetched = self.outage.with_retries(self.retry_timeout, attempt).await;
        fetched.map_err(in_file)
    }
}

/// Returns the blocks that a range touches.
fn blocks_of(offset: u64, len_bytes: u64) -> Range<u64> {
    let first = offset.checked_div(BLOCK_BYTES).unwrap_or(0);
    first..offset.saturating_add(len_bytes).div_ceil(BLOCK_BYTES)
}

/// Copies the bytes that two ranges of a device have in common.
fn copy_common(from: &[u8], from_offset: u64, to: &mut [u8], to_offset: u64) {
    let start = from_offset.max(to_offset);
    let end = from_offset
        .saturating_add(len_of(from))
        .min(to_offset.saturating_add(len_of(to)));
    let index = |at: u64, base: u64| usize::try_from(at.saturating_sub(base)).unwrap_or(usize::MAX);
    if let Some(source) = from.get(index(start, from_offset)..index(end, from_offset))
        && let Some(target) = to.get_mut(index(start, to_offset)..index(end, to_offset))
    {
        target.copy_from_slice(source);
    }
}

impl BlockRead for Device {
    fn size_bytes(&self) -> u64 {
        self.shared.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes())?;
        if buf.is_empty() {
            return Ok(());
        }
        let blocks = &self.shared.blocks;
        let wanted = blocks_of(offset, len_of(buf));
        let plan = |block: u64, is_missing: &dyn Fn(u64) -> bool| {
            let count = blocks.count();
            self.ahead.around(block, wanted.end, count, is_missing)
        };
        let places = blocks.places(wanted.clone(), plan, |fetch| self.begin(fetch));
        if let Some(ahead) = self.ahead.note(&wanted, blocks.count()) {
            self.prefetch(ahead);
        }
        let mut waited: Option<(Arc<Fetch>, Bytes)> = None;
        for (block, place) in wanted.zip(places) {
            match place {
                Place::Cached(bytes) => {
                    copy_common(&bytes, block.saturating_mul(BLOCK_BYTES), buf, offset);
                }
                Place::Coming(fetch) => {
                    if waited
                        .as_ref()
                        .is_some_and(|(it, _)| Arc::ptr_eq(it, &fetch))
                    {
                        continue;
                    }
                    let bytes = fetch.wait().map_err(|e| e.in_file(&self.shared.name))?;
                    copy_common(&bytes, fetch.range.start, buf, offset);
                    waited = Some((fetch, bytes));
                }
            }
        }
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        check_bounds(offset, 1, self.size_bytes())?;
        Ok(Extent {
            len_bytes: self.size_bytes().saturating_sub(offset),
            kind: ExtentKind::Data,
        })
    }

    fn block_size(&self) -> u32 {
        4096
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        let len_bytes = len_bytes.min(self.size_bytes().saturating_sub(offset));
        if len_bytes == 0 || offset >= self.size_bytes() {
            return;
        }
        let blocks = blocks_of(offset, len_bytes);
        let limit = blocks
            .start
            .saturating_add(REQUEST_BLOCKS.saturating_mul(4));
        self.prefetch(blocks.start..blocks.end.min(limit));
    }
}
