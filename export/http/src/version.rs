//! The version of a file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The properties that tell a version of a file from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    device: u64,
    inode: u64,
    pub(crate) size_bytes: u64,
    /// Modification and change of the file, in seconds and nanoseconds.
    times: [i64; 4],
}

impl Version {
    /// Returns the version that a file has now.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.len(),
            times: [
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            ],
        }
    }

    /// Returns the strong `ETag`, with its quotes.
    pub(crate) fn etag(&self) -> String {
        let [mtime, mtime_ns, ctime, ctime_ns] = self.times;
        format!(
            "\"{:x}-{:x}-{:x}-{mtime:x}.{mtime_ns:x}-{ctime:x}.{ctime_ns:x}\"",
            self.device, self.inode, self.size_bytes
        )
    }
}
