//! Reading of a whole object, in order.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use diskfs_block::{Error, ErrorKind, Result, len_of};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::fetch::Fetch;
use crate::object::Object;
use crate::open::open;
use crate::options::Options;
use crate::retry::with_retries;
use crate::runtime;

/// The number of bytes of a request. Longer ones need more memory, and were not faster.
const PART_BYTES: u64 = 4 << 20;

/// An object whose bytes are all read, in order, by several requests at once.
///
/// All bytes are of the version that was opened: if the object changes, reading fails.
#[derive(Debug)]
pub struct Download {
    object: Arc<dyn Object>,
    /// The name for errors.
    name: String,
    size_bytes: u64,
    version: Option<String>,
    /// The bytes at the beginning, which came when the object was opened.
    first: Bytes,
    max_requests: usize,
    retry_timeout: Duration,
    runtime: Handle,
}

impl Download {
    /// Opens the object of a URI, as [`Device::open`](crate::Device::open) does.
    ///
    /// # Errors
    /// As for [`Device::open`](crate::Device::open).
    pub fn open(uri: &str, name: &str, options: &Options) -> Result<Self> {
        let opened = open(uri, name, options)?;
        Ok(Self {
            object: opened.object,
            name: name.to_owned(),
            size_bytes: opened.size_bytes,
            version: opened.version,
            first: opened.first,
            max_requests: options.max_requests.max(1),
            retry_timeout: options.retry_timeout,
            runtime: runtime::handle()?,
        })
    }

    /// Returns the size of the object in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns what tells this version of the object from others, if the server names it.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Reads the object from byte `start` to its end, and gives its parts to `take` in order.
    ///
    /// # Errors
    /// Those of the server, and of `take`; the first one ends the reading.
    pub fn read_from<E: From<Error>>(
        &self,
        start: u64,
        mut take: impl FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut coming = Coming::default();
        let mut next = start;
        let skipped = usize::try_from(start).unwrap_or(usize::MAX);
        if let Some(first) = self.first.get(skipped..).filter(|it| !it.is_empty()) {
            take(first)?;
            next = len_of(&self.first);
        }
        loop {
            while next < self.size_bytes && coming.parts.len() < self.max_requests {
                let end = next.saturating_add(PART_BYTES).min(self.size_bytes);
                coming.parts.push_back(self.begin(next..end));
                next = end;
            }
            let Some((part, _)) = coming.parts.pop_front() else {
                return Ok(());
            };
            let bytes = part.wait().map_err(|e| e.in_file(&self.name))?;
            take(&bytes)?;
        }
    }

    fn begin(&self, range: Range<u64>) -> (Arc<Fetch>, AbortHandle) {
        let part = Arc::new(Fetch::new(range));
        let (ours, object, timeout) = (
            Arc::clone(&part),
            Arc::clone(&self.object),
            self.retry_timeout,
        );
        let task = self.runtime.spawn(async move {
            let range = ours.range.clone();
            let asked = tokio::spawn(async move { fetch(&object, timeout, range).await });
            let _aborted = AbortOnDrop(asked.abort_handle());
            // In a task of its own, whose panic would otherwise leave the reader waiting.
            let panicked = |_| Err(Error::new(ErrorKind::Io, "a request panicked"));
            ours.finish(asked.await.unwrap_or_else(panicked));
        });
        (part, task.abort_handle())
    }
}

async fn fetch(object: &Arc<dyn Object>, timeout: Duration, range: Range<u64>) -> Result<Bytes> {
    with_retries(timeout, || Arc::clone(object).fetch(range.clone())).await
}

/// A task that ends with its parent.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The parts that are on their way, in order. Their requests end when this is dropped.
#[derive(Debug, Default)]
struct Coming {
    parts: VecDeque<(Arc<Fetch>, AbortHandle)>,
}

impl Drop for Coming {
    fn drop(&mut self) {
        for (_, task) in &self.parts {
            task.abort();
        }
    }
}
