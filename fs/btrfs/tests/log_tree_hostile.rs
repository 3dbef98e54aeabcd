//! Tests with invalid log trees: opening and reading ends soon, without a panic.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::{BlockRead, BlockWrite, File, Overlay};
use diskfs_btrfs::{Btrfs, Options};
use diskfs_fixtures::{TempImage, Tree};
use diskfs_vfs::{ErrorKind, FsRead, InodeNumber, walk};

/// The time limit for one image, in a debug build on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(20);

const FIXTURES: [&str; 4] = [
    "btrfs-log-new",
    "btrfs-log-names",
    "btrfs-log-extents",
    "btrfs-log-compressed",
];

/// The owner of the blocks of log trees.
const LOG: [u8; 8] = (-6_i64).to_le_bytes();

const HEADER_BYTES: usize = 101;
const ITEM_BYTES: usize = 25;

/// A filesystem, and the blocks of its log trees.
struct Image {
    file: TempImage,
    blocks: Vec<Block>,
}

/// A block and the places of its copies.
struct Block {
    bytes: Vec<u8>,
    places: Vec<u64>,
}

impl Image {
    fn load(name: &str) -> Self {
        let file = diskfs_fixtures::image(name);
        let bytes = std::fs::read(file.path()).unwrap();
        let superblock = &bytes[64 << 10..];
        let node_bytes = u32::from_le_bytes(superblock[148..152].try_into().unwrap());
        let node_bytes = usize::try_from(node_bytes).unwrap();
        let mut blocks = BTreeMap::<u64, Block>::new();
        for at in (0..bytes.len() - node_bytes).step_by(4096) {
            let block = &bytes[at..at + node_bytes];
            if block[32..48] == superblock[32..48] && block[88..96] == LOG {
                let logical = u64::from_le_bytes(block[48..56].try_into().unwrap());
                let entry = blocks.entry(logical).or_insert_with(|| Block {
                    bytes: block.to_vec(),
                    places: Vec::new(),
                });
                entry.places.push(at.try_into().unwrap());
            }
        }
        let blocks: Vec<_> = blocks.into_values().collect();
        assert!(!blocks.is_empty(), "{name} has no log");
        Self { file, blocks }
    }

    /// Returns the device without changes.
    fn overlay(&self) -> Overlay {
        let base = Arc::new(File::open(self.file.path()).unwrap());
        Overlay::in_memory(base, 64 << 20)
    }

    /// Returns the device with other bytes in a block.
    fn with(&self, block: &Block, bytes: Vec<u8>) -> Arc<dyn BlockRead> {
        let overlay = self.overlay();
        block.replace(&overlay, bytes);
        Arc::new(overlay)
    }
}

impl Block {
    /// Writes other bytes to all copies, with a valid checksum.
    fn replace(&self, device: &Overlay, mut bytes: Vec<u8>) {
        let sum = crc32c::crc32c(&bytes[32..]).to_le_bytes();
        bytes[..4].copy_from_slice(&sum);
        for place in &self.places {
            device.write_at(*place, &bytes).unwrap();
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 8).unwrap() % end
    }

    /// Changes a few fields of a block: data of items more often than their keys, and then to values
    /// that mean something.
    fn mutate(&mut self, bytes: &mut [u8]) {
        let items = u32::from_le_bytes(bytes[96..100].try_into().unwrap());
        let items = usize::try_from(items).unwrap();
        for _ in 0..=self.below(3) {
            if items == 0 {
                return;
            }
            let head = HEADER_BYTES + self.below(items) * ITEM_BYTES;
            let field = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let data = HEADER_BYTES + usize::try_from(field(head + 17)).unwrap();
            let len = usize::try_from(field(head + 21)).unwrap().max(1);
            let place = match self.below(4) {
                0 => head + self.below(ITEM_BYTES),
                _ => data + self.below(len),
            };
            self.change(bytes, place);
        }
    }

    fn change(&mut self, bytes: &mut [u8], place: usize) {
        let Some(end) = (place + 8 <= bytes.len()).then_some(place + 8) else {
            return;
        };
        let values = [0, 1, u64::MAX, 256, 257, 260, 4096, 1 << 20, 1 << 63];
        match self.below(3) {
            0 => bytes[place] ^= 1 << self.below(8),
            1 => bytes[place] = self.below(256).try_into().unwrap(),
            _ => {
                let value = values[self.below(values.len())];
                bytes[place..end].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

/// Makes all the calls that a user could make. Returns whether it could be opened.
fn ask(device: Arc<dyn BlockRead>) -> bool {
    let start = Instant::now();
    let opened = Btrfs::open(vec![device], &Options::default());
    match &opened {
        Ok(fs) => read_all(fs),
        Err(error) => assert!(
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
            "{error}"
        ),
    }
    assert!(start.elapsed() < TIME_MAX, "it took {:?}", start.elapsed());
    opened.is_ok()
}

fn read_all(fs: &Btrfs) {
    let _ = (fs.identity(), fs.statistics());
    let mut buf = vec![0; 32 << 10];
    for found in walk(fs, fs.root()).take(300).flatten() {
        let inode = found.inode;
        for offset in [0, 4000, found.metadata.size_bytes / 2, u64::MAX - 5] {
            let _ = fs.read_at(inode, offset, &mut buf);
            let _ = fs.read_dir(inode, offset).map(|all| all.take(10).count());
            let _ = fs
                .extents_of(inode, offset)
                .map(|all| all.take(100).count());
        }
        let _ = (fs.read_link(inode), fs.list_xattrs(inode));
    }
    for number in [0, 1, 255, 256, 300, u64::MAX] {
        let _ = fs.metadata(InodeNumber(number));
    }
}

#[test]
fn mutated_log_trees() {
    let count = std::env::var("DISKFS_MUTATIONS").ok();
    let count = count.map_or(60, |text| text.parse().unwrap());
    let mut opened = 0;
    for name in FIXTURES {
        let image = Image::load(name);
        let mut random = Random(0x5eed_0001);
        for _ in 0..count {
            let block = &image.blocks[random.below(image.blocks.len())];
            let mut bytes = block.bytes.clone();
            random.mutate(&mut bytes);
            opened += usize::from(ask(image.with(block, bytes)));
        }
    }
    assert!(opened > count / 2, "only {opened} of them reached a replay");
}

#[test]
fn a_log_tree_that_cannot_be_read_is_an_error() {
    let image = Image::load("btrfs-log-new");
    let overlay = image.overlay();
    for block in &image.blocks {
        for place in &block.places {
            overlay.write_at(*place + 200, &[0x55; 64]).unwrap();
        }
    }
    let error = Btrfs::open(vec![Arc::new(overlay)], &Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

/// Without the references of inodes, the entries of logged directories make the same names.
#[test]
fn entries_without_references_are_added() {
    const LEVEL_AT: usize = 100;
    const INODE_REF: u8 = 12;
    // A type that does not exist, and keeps the order of keys.
    const UNKNOWN: u8 = 2;
    let image = Image::load("btrfs-log-entries");
    let overlay = image.overlay();
    let mut count = 0;
    for block in image
        .blocks
        .iter()
        .filter(|block| block.bytes[LEVEL_AT] == 0)
    {
        let mut bytes = block.bytes.clone();
        let items = u32::from_le_bytes(bytes[96..100].try_into().unwrap());
        for nth in 0..usize::try_from(items).unwrap() {
            let item_type = &mut bytes[HEADER_BYTES + nth * ITEM_BYTES + 8];
            if *item_type == INODE_REF {
                *item_type = UNKNOWN;
                count += 1;
            }
        }
        block.replace(&overlay, bytes);
    }
    assert!(count > 60, "{count}");
    let fs = Btrfs::open(vec![Arc::new(overlay)], &Options::default()).unwrap();
    let found = Tree::of_filesystem(&fs).unwrap();
    let expected = diskfs_fixtures::expected_tree("btrfs-log-entries");
    assert_eq!(expected.differences(&found), Vec::<String>::new());
}

#[test]
fn a_replayed_filesystem_says_so() {
    let image = diskfs_fixtures::image("btrfs-log-new");
    let device = Arc::new(File::open(image.path()).unwrap());
    let fs = Btrfs::open(vec![device], &Options::default()).unwrap();
    let notes = fs.identity().notes;
    assert!(
        notes.iter().any(|note| note.contains("log tree replayed")),
        "{notes:?}"
    );
    let free = fs.free_ranges().map(Iterator::count);
    assert_eq!(free.unwrap_err().kind(), ErrorKind::Unsupported);
}
