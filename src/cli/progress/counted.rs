//! Totals of operations, counted while the operation runs.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use diskfs::Node;
use diskfs::vfs::FileType;

/// A function that counts bytes, until the flag says that the total is no longer needed.
type Count = Box<dyn FnOnce(&AtomicBool) -> Option<u64> + Send>;

/// The value of a total that is not counted yet; no total is this large.
const NOT_YET: u64 = u64::MAX;

/// The number of bytes of an operation.
#[derive(Default)]
pub(crate) enum TotalBytes {
    /// The number is unknown.
    #[default]
    Unknown,
    /// The number is known.
    Known(u64),
    /// The number is counted in its own thread when it is first requested.
    ToCount(Count),
    /// The number is being counted.
    Counting(Arc<Counter>),
}

/// The state shared with the counting thread.
pub(crate) struct Counter {
    stop: AtomicBool,
    bytes: AtomicU64,
}

impl From<Option<u64>> for TotalBytes {
    fn from(bytes: Option<u64>) -> Self {
        bytes.map_or(Self::Unknown, Self::Known)
    }
}

impl TotalBytes {
    /// Returns the total, if it is already known. Starts counting at the first call.
    pub(super) fn bytes(&mut self) -> Option<u64> {
        if let Self::ToCount(_) = self
            && let Self::ToCount(count) = std::mem::take(self)
        {
            *self = begin(count);
        }
        match self {
            Self::Known(bytes) => Some(*bytes),
            Self::Counting(counter) => {
                let bytes = counter.bytes.load(Ordering::Relaxed);
                (bytes != NOT_YET).then_some(bytes)
            }
            Self::Unknown | Self::ToCount(_) => None,
        }
    }

    /// Stops counting, and releases what the count needs.
    pub(super) fn stop(&mut self) {
        match self {
            Self::Counting(counter) => counter.stop.store(true, Ordering::Relaxed),
            // Dropping the function releases what it holds, for example an image.
            Self::ToCount(_) => *self = Self::Unknown,
            Self::Unknown | Self::Known(_) => {}
        }
    }
}

fn begin(count: Count) -> TotalBytes {
    let counter = Arc::new(Counter {
        stop: AtomicBool::new(false),
        bytes: AtomicU64::new(NOT_YET),
    });
    let theirs = Arc::clone(&counter);
    let spawned = thread::Builder::new()
        .name("total".to_owned())
        .spawn(move || {
            if let Some(bytes) = count(&theirs.stop) {
                theirs.bytes.store(bytes, Ordering::Relaxed);
            }
        });
    spawned.map_or(TotalBytes::Unknown, |_| TotalBytes::Counting(counter))
}

/// The bytes of a file that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holes {
    /// All bytes, including those of holes.
    Counted,
    /// Only bytes that are stored.
    LeftOut,
}

/// Counts the sizes of all files below these nodes. Without holes, each file is counted once, as a
/// copy copies it.
pub(crate) fn sizes_below(starts: Vec<Node>, holes: Holes) -> TotalBytes {
    TotalBytes::ToCount(Box::new(move |stop| {
        let mut total = 0_u64;
        for start in starts {
            let mut seen = HashSet::new();
            for entry in start.walk() {
                if stop.load(Ordering::Relaxed) {
                    return None;
                }
                // Read errors are reported by the operation itself.
                let Ok(entry) = entry else { continue };
                let file = &entry.metadata;
                let is_regular = file.file_type == FileType::Regular;
                let mut is_first = || file.links <= 1 || seen.insert(file.inode);
                if is_regular && (holes == Holes::Counted || is_first()) {
                    let stored = match holes {
                        Holes::Counted => u64::MAX,
                        // Data in the inode has no allocated blocks, and is at most this size.
                        Holes::LeftOut if file.allocated_bytes == 0 => file.size_bytes.min(4096),
                        Holes::LeftOut => file.allocated_bytes,
                    };
                    total = total.saturating_add(file.size_bytes.min(stored));
                }
            }
        }
        Some(total)
    }))
}

/// Counts the sizes of files on the host, without holes.
pub(crate) fn size_on_host(starts: Vec<PathBuf>) -> TotalBytes {
    TotalBytes::ToCount(Box::new(move |stop| {
        let (mut total, mut seen, mut left) = (0_u64, HashSet::new(), starts);
        while let Some(path) = left.pop() {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let Ok(file) = path.symlink_metadata() else {
                continue;
            };
            if file.is_dir() {
                let entries = path.read_dir().into_iter().flatten();
                left.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
            } else if file.is_file() && (file.nlink() <= 1 || seen.insert((file.dev(), file.ino())))
            {
                let stored = file.blocks().saturating_mul(512).max(4096);
                total = total.saturating_add(file.len().min(stored));
            }
        }
        Some(total)
    }))
}
