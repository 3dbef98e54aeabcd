//! Tests with invalid filesystems: every call returns soon, without a panic.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use diskfs_block::{BlockRead, BlockWrite, Memory, Overlay};
use diskfs_btrfs::{Btrfs, Options};
use diskfs_fixtures::TempImage;
use diskfs_vfs::{ErrorKind, FsRead, InodeNumber, walk};
use proptest::prelude::*;

/// The time limit for one walk, in a debug build on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(20);

/// The byte of the superblock.
const SUPERBLOCK: u64 = 64 << 10;

/// The fixtures to damage: small nodes, so that there are several levels, all kinds of extents,
/// subvolumes, and a log.
const FIXTURES: [&str; 6] = [
    "btrfs-node-4k",
    "btrfs-extents",
    "btrfs-subvolumes",
    "btrfs-zstd",
    "btrfs-lzo",
    "btrfs-xattrs",
];

/// A filesystem, and the places of its tree blocks.
struct Image {
    file: TempImage,
    node_bytes: usize,
    /// The places of each block: those of its copies.
    blocks: Vec<Vec<u64>>,
}

impl Image {
    fn device(&self) -> Arc<dyn BlockRead> {
        Arc::new(diskfs_block::File::open(self.file.path()).unwrap())
    }

    fn load(name: &str) -> Self {
        let file = diskfs_fixtures::image(name);
        let bytes = std::fs::read(file.path()).unwrap();
        let superblock = &bytes[64 << 10..];
        let fsid = &superblock[32..48];
        let node_bytes = u32::from_le_bytes(superblock[148..152].try_into().unwrap());
        let node_bytes = usize::try_from(node_bytes).unwrap();
        let mut blocks = std::collections::BTreeMap::<u64, Vec<u64>>::new();
        for at in (0..bytes.len()).step_by(4096).filter(|at| *at != 64 << 10) {
            let Some(block) = bytes.get(at..at + node_bytes) else {
                break;
            };
            let sum = crc32c(&block[32..]).to_le_bytes();
            if &block[32..48] == fsid && block[..4] == sum {
                let logical = u64::from_le_bytes(block[48..56].try_into().unwrap());
                blocks
                    .entry(logical)
                    .or_default()
                    .push(at.try_into().unwrap());
            }
        }
        Self {
            file,
            node_bytes,
            blocks: blocks.into_values().collect(),
        }
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    // The polynomial of Castagnoli, bit by bit over a table.
    static TABLE: OnceLock<[u32; 256]> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        std::array::from_fn(|n| {
            (0..8).fold(u32::try_from(n).unwrap(), |crc, _| {
                if crc & 1 == 0 {
                    crc >> 1
                } else {
                    (crc >> 1) ^ 0x82f6_3b78
                }
            })
        })
    });
    let next = |crc: u32, byte: &u8| {
        let at = usize::from(crc.to_le_bytes()[0] ^ byte);
        table[at] ^ (crc >> 8)
    };
    !bytes.iter().fold(!0, next)
}

fn images() -> &'static [Image] {
    static IMAGES: OnceLock<Vec<Image>> = OnceLock::new();
    IMAGES.get_or_init(|| FIXTURES.map(Image::load).into())
}

/// Changes bytes of a block, and makes its checksum right.
fn change(device: &Overlay, at: u64, len: usize, changes: &[(usize, u8)]) {
    let mut block = vec![0; len];
    device.read_at(at, &mut block).unwrap();
    for (place, value) in changes {
        block[32 + place % (len - 32)] = *value;
    }
    let sum = crc32c(&block[32..]).to_le_bytes();
    block[..4].copy_from_slice(&sum);
    device.write_at(at, &block).unwrap();
}

fn open(device: Arc<dyn BlockRead>) -> diskfs_vfs::Result<Btrfs> {
    Btrfs::open(vec![device], &Options::default())
}

/// Makes all the calls that a user could make.
fn ask(device: Arc<dyn BlockRead>) {
    let start = Instant::now();
    let _ = diskfs_btrfs::device_info(&*device);
    if let Ok(fs) = open(device) {
        let _ = (format!("{:?}", fs.identity()), fs.statistics());
        let _ = fs.subvolumes().map(|all| all.len());
        let _ = fs.subvolume(Some(256));
        let mut buf = vec![0; 64 << 10];
        for found in walk(&fs, fs.root()).take(1000).flatten() {
            for offset in [0, 5000, found.metadata.size_bytes / 2, u64::MAX - 5] {
                let _ = fs.read_at(found.inode, offset, &mut buf);
                let _ = fs
                    .read_dir(found.inode, offset)
                    .map(|all| all.take(10).count());
                let _ = fs
                    .extents_of(found.inode, offset)
                    .map(|all| all.take(1000).count());
            }
            let _ = fs.read_link(found.inode);
            let _ = fs.lookup(found.inode, b"..");
            for name in fs.list_xattrs(found.inode).unwrap_or_default() {
                let _ = fs.xattr(found.inode, &name);
            }
            fs.will_need_metadata(&[found.inode]);
            fs.will_need(found.inode, 0, 1 << 20);
        }
        for number in [0, 1, 255, 256, 1 << 47, (1 << 47) | 256, 1 << 48, u64::MAX] {
            let _ = fs.metadata(InodeNumber(number));
            let _ = fs.read_dir(InodeNumber(number), 0).map(Iterator::count);
        }
    }
    assert!(start.elapsed() < TIME_MAX, "it took {:?}", start.elapsed());
}

#[test]
fn no_superblock_is_no_filesystem() {
    for len in [0, 1, 65536, 65537, 70000, 1 << 20] {
        let device: Arc<dyn BlockRead> = Arc::new(Memory::new(vec![0; len]));
        let info = diskfs_btrfs::device_info(&*device).unwrap();
        assert_eq!(info, None);
        assert_eq!(open(device).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    assert_eq!(
        Btrfs::open(Vec::new(), &Options::default())
            .unwrap_err()
            .kind(),
        ErrorKind::Invalid
    );
}

/// Changes bytes of the superblock.
fn with_superblock(changes: &[(usize, &[u8])]) -> Arc<dyn BlockRead> {
    let image = &images()[0];
    let device = Overlay::in_memory(image.device(), 64 << 20);
    let each = changes.iter().flat_map(|(at, bytes)| {
        bytes
            .iter()
            .enumerate()
            .map(move |(nth, byte)| (at + nth - 32, *byte))
    });
    change(&device, SUPERBLOCK, 4096, &each.collect::<Vec<_>>());
    // The copy must not help.
    device.write_at(64 << 20, &[0; 4096]).unwrap();
    Arc::new(device)
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (at, bytes, name) in [
        (188, &[0, 0x20, 0, 0][..], "extent_tree_v2"),
        (188, &[0, 0x40, 0, 0], "raid_stripe_tree"),
        (195, &[0x80], "0x8000000000000000"),
        (196, &[9, 0], "checksum algorithm 9"),
        (60, &[0x20], "flags 0x2000000000"),
    ] {
        let device = with_superblock(&[(at, bytes)]);
        let error = open(device).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_device_is_described_whatever_features_its_filesystem_has() {
    let plain = diskfs_btrfs::device_info(&*with_superblock(&[])).unwrap();
    let device = with_superblock(&[(188, &[0, 0x40, 0, 0])]);
    assert_eq!(diskfs_btrfs::device_info(&*device).unwrap(), plain);
    assert!(plain.is_some());
    let missing = diskfs_btrfs::missing_devices(vec![device]).unwrap();
    assert_eq!(missing, []);
}

#[test]
fn an_invalid_superblock_is_corrupt() {
    for (at, bytes) in [
        (144, &[1, 0, 0, 0][..]),     // sector size
        (148, &[0, 0, 0, 1]),         // node size
        (80, &[1]),                   // address of the root tree
        (88, &[0, 0, 0, 0, 0, 0, 1]), // address of the chunk tree
        (198, &[8]),                  // level of the root tree
        (199, &[7]),                  // level of the chunk tree
        (160, &[255, 255]),           // length of the system chunks
        (72, &[99, 99]),              // generation
        (811 + 17 + 44, &[9, 9]),     // stripes of a system chunk
    ] {
        let error = open(with_superblock(&[(at, bytes)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{at}: {error}");
    }
}

#[test]
fn a_copy_of_the_superblock_helps() {
    let image = &images()[0];
    let device = Overlay::in_memory(image.device(), 64 << 20);
    device.write_at(SUPERBLOCK + 100, &[7; 50]).unwrap();
    let fs = open(Arc::new(device)).unwrap();
    let notes = fs.identity().notes;
    assert_eq!(notes, ["superblock read from the copy at byte 67108864"]);
}

#[test]
fn a_bad_copy_of_a_block_is_replaced_by_the_other() {
    let image = &images()[0];
    let device = Overlay::in_memory(image.device(), 64 << 20);
    for copies in image.blocks.iter().filter(|copies| copies.len() > 1) {
        device.write_at(copies[0] + 1000, &[0xaa; 100]).unwrap();
    }
    let fs = open(Arc::new(device)).unwrap();
    let good = open(image.device()).unwrap();
    let paths = |fs: &Btrfs| {
        let found = walk(fs, fs.root()).map(|found| found.unwrap().path);
        found.collect::<Vec<_>>()
    };
    assert_eq!(paths(&fs), paths(&good));
}

#[test]
fn a_pointer_back_to_the_root_is_no_loop() {
    let image = &images()[0];
    let device = Overlay::in_memory(image.device(), 64 << 20);
    // Every pointer of every node leads to the node itself.
    for at in image.blocks.iter().flatten() {
        let mut block = vec![0; image.node_bytes];
        device.read_at(*at, &mut block).unwrap();
        let owner = u64::from_le_bytes(block[88..96].try_into().unwrap());
        if block[100] > 0 && owner != 3 {
            let logical: [u8; 8] = block[48..56].try_into().unwrap();
            let places = (0..block.len() / 33 - 4).flat_map(|nth| {
                (0..8).map(move |byte| (101 + nth * 33 + 17 + byte - 32, logical[byte]))
            });
            change(&device, *at, image.node_bytes, &places.collect::<Vec<_>>());
        }
    }
    ask(Arc::new(device));
}

/// Returns the number of damaged filesystems to try; `DISKFS_MUTATIONS` overrides it.
fn cases() -> u32 {
    let set = std::env::var("DISKFS_MUTATIONS").ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        max_shrink_iters: 50,
        ..ProptestConfig::default()
    })]
    #[test]
    fn changed_blocks_do_no_harm(
        kind in any::<prop::sample::Index>(),
        blocks in prop::collection::vec((
            any::<prop::sample::Index>(),
            prop::collection::vec((prop_oneof![0..400_usize, 0..65536_usize], any::<u8>()), 1..10),
        ), 1..10),
    ) {
        let image = kind.get(images());
        let device = Overlay::in_memory(image.device(), 64 << 20);
        for (block, changes) in &blocks {
            for copy in &image.blocks[block.index(image.blocks.len())] {
                change(&device, *copy, image.node_bytes, changes);
            }
        }
        ask(Arc::new(device));
    }

    #[test]
    fn a_changed_superblock_does_no_harm(
        changes in prop::collection::vec((0..900_usize, any::<u8>()), 1..6),
    ) {
        let device = Overlay::in_memory(images()[0].device(), 64 << 20);
        change(&device, SUPERBLOCK, 4096, &changes);
        ask(Arc::new(device));
    }

    #[test]
    fn a_cut_device_does_no_harm(kind in any::<prop::sample::Index>(), len in 65536..64_u64 << 20) {
        let device = kind.get(images()).device();
        let len = len.min(device.size_bytes());
        ask(Arc::new(diskfs_block::Slice::new(device, 0, len).unwrap()));
    }
}
