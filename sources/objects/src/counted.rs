//! An object whose requests are counted.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use diskfs_block::len_of;

use crate::object::{Fetching, Object};

/// The number of requests and bytes of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The number of ranges that arrived.
    pub requests: u64,
    /// The number of bytes that arrived, as they are in the object: on their way, they may have been
    /// compressed.
    pub bytes: u64,
}

/// The counters of an object.
#[derive(Debug)]
pub(crate) struct Count {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    /// Begins with the first answer.
    pub(crate) fn of_first(bytes: &[u8]) -> Self {
        Self {
            requests: AtomicU64::new(1),
            bytes: AtomicU64::new(len_of(bytes)),
        }
    }

    /// Returns what was counted until now.
    pub(crate) fn statistics(&self) -> Statistics {
        Statistics {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// An object whose answers are counted.
#[derive(Debug)]
pub(crate) struct CountedObject {
    object: Arc<dyn Object>,
    count: Arc<Count>,
}

impl CountedObject {
    /// Counts the answers for an object.
    pub(crate) fn new(object: Arc<dyn Object>, count: Arc<Count>) -> Self {
        Self { object, count }
    }
}

impl Object for CountedObject {
    fn fetch(self: Arc<Self>, range: Range<u64>) -> Fetching {
        Box::pin(async move {
            let bytes = Arc::clone(&self.object).fetch(range).await?;
            self.count.requests.fetch_add(1, Ordering::Relaxed);
            self.count
                .bytes
                .fetch_add(len_of(&bytes), Ordering::Relaxed);
            Ok(bytes)
        })
    }
}
