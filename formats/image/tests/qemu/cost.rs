//! The cost of opening and reading, counted in requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use diskfs_block::{BlockRead, Memory, Result};
use diskfs_image::{Image, OpenOptions};

use crate::hand_made::{CLUSTER, DATA, HandMade, L2};

/// A device that counts reads and bytes.
#[derive(Debug)]
struct Counting {
    inner: Memory,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl Counting {
    fn new(image: HandMade) -> Arc<Self> {
        Arc::new(Self {
            inner: Memory::new(image.bytes),
            reads: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        })
    }

    /// Returns the reads and bytes since the last call.
    fn taken(&self) -> (u64, u64) {
        (
            self.reads.swap(0, Ordering::Relaxed),
            self.bytes.swap(0, Ordering::Relaxed),
        )
    }
}

impl BlockRead for Counting {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.inner.read_at(offset, buf)
    }
}

#[test]
fn few_small_reads() {
    let mut image = HandMade::new();
    // Guest clusters 0 and 1 are one run in the file.
    image.set64(L2 + 8, (1 << 63) | (DATA + CLUSTER) as u64);
    image.set64(L2 + 16, 0);
    let device = Counting::new(image);
    let below = Arc::clone(&device) as Arc<dyn BlockRead>;
    let opened = Image::from_device(below, &OpenOptions::default()).unwrap();
    let disk = opened.device();
    assert_eq!(device.taken(), (2, 512 + 4096), "open");
    disk.read_at(100, &mut [0; 512]).unwrap();
    assert_eq!(
        device.taken(),
        (3, 8 + 65536 + 512),
        "first read: L1, L2, data"
    );
    disk.read_at(70_000, &mut [0; 512]).unwrap();
    assert_eq!(device.taken(), (1, 512), "tables are at hand");
    let mut both = vec![0; 2 * CLUSTER];
    disk.read_at(0, &mut both).unwrap();
    assert_eq!(device.taken(), (1, 2 * CLUSTER as u64), "one run, one read");
    disk.read_at(4 * CLUSTER as u64, &mut both).unwrap();
    assert_eq!(device.taken(), (0, 0), "holes are not read");
}
