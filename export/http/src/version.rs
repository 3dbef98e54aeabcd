//! The version of a file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The properties that tell a version of a file from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
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

    /// Returns true if a file still has the contents of this version. Its name may be gone: renaming
    /// and removing change the other times.
    pub fn has_contents_of(&self, metadata: &Metadata) -> bool {
        let now = Self::of(metadata);
        let [mtime, mtime_ns, ..] = self.times;
        let [mtime_now, mtime_ns_now, ..] = now.times;
        (self.device, self.inode, self.size_bytes, mtime, mtime_ns)
            == (
                now.device,
                now.inode,
                now.size_bytes,
                mtime_now,
                mtime_ns_now,
            )
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
