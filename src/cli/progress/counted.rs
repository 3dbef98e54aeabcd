//! How much there is to do, which is counted while it is done.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use diskfs::Node;
use diskfs::vfs::FileType;

/// Counts bytes, unless the flag says that nobody wants to know any more.
type Count = Box<dyn FnOnce(&AtomicBool) -> Option<u64> + Send>;

/// Stands for a total that is not counted yet: no total is so large.
const NOT_YET: u64 = u64::MAX;

/// How many bytes there are to do.
#[derive(Default)]
pub(crate) enum TotalBytes {
    /// Nobody knows.
    #[default]
    Unknown,
    /// So many.
    Known(u64),
    /// It is counted when somebody asks, in a thread of its own.
    ToCount(Count),
    /// It is being counted.
    Counting(Arc<Counter>),
}

/// What the thread that counts shares.
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
    /// The total, if it is known by now. Begins to count where that was not done yet.
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

    /// Ends counting.
    pub(super) fn stop(&mut self) {
        match self {
            Self::Counting(counter) => counter.stop.store(true, Ordering::Relaxed),
            // What it holds, an image maybe, is let go of.
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

/// Which bytes of a file count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holes {
    /// All of them.
    Counted,
    /// Those that are stored.
    LeftOut,
}

/// The sizes of all files below these; with holes left out, each file once, as a copy has it.
pub(crate) fn sizes_below(starts: Vec<Node>, holes: Holes) -> TotalBytes {
    TotalBytes::ToCount(Box::new(move |stop| {
        let mut total = 0_u64;
        for start in starts {
            let mut seen = HashSet::new();
            for entry in start.walk() {
                if stop.load(Ordering::Relaxed) {
                    return None;
                }
                // What can't be read is told by who reads it.
                let Ok(entry) = entry else { continue };
                let file = &entry.metadata;
                let is_regular = file.file_type == FileType::Regular;
                let mut is_first = || file.links <= 1 || seen.insert(file.inode);
                if is_regular && (holes == Holes::Counted || is_first()) {
                    let stored = match holes {
                        Holes::Counted => u64::MAX,
                        // Little is stored in the inode itself.
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

/// The same for files of the host, with no holes.
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
