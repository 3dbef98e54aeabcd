//! The options of a device.

use std::time::Duration;

use crate::DiskCache;

/// The options of a [`Device`](crate::Device).
#[derive(Debug, Clone)]
pub struct Options {
    /// The number of bytes to cache in memory.
    pub cache_bytes: u64,
    /// The directory for blocks that outlive the process. It is only used for objects whose server
    /// names their version.
    pub disk_cache: Option<DiskCache>,
    /// The maximum number of requests at once.
    pub max_requests: usize,
    /// The time that a server has to accept a connection.
    pub connect_timeout: Duration,
    /// The time that a request has before its first byte, and between two parts of its answer.
    pub stall_timeout: Duration,
    /// The time in which the first request is repeated, if it fails.
    pub open_timeout: Duration,
    /// The time in which the request of a read is repeated, if it fails.
    pub retry_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            disk_cache: None,
            max_requests: 6,
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(20),
            open_timeout: Duration::from_secs(4),
            retry_timeout: Duration::from_mins(1),
        }
    }
}
