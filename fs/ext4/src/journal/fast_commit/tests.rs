//! Tests with fast commits that are written by hand.

use diskfs_block::Memory;
use diskfs_vfs::ErrorKind;
use proptest::prelude::*;

use super::super::log::JournalRun;
use super::*;
use crate::block::FsBlock;
use crate::checksum::crc32c;
use crate::superblock;

const SIZE: usize = 4096;
const TID: u32 = 9;
/// The area: blocks 0 to 3 of a journal that begins with block 16 of the device.
const FIRST: u64 = 16;
const BLOCKS: u32 = 4;

/// Writes an area tag by tag.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    since_tail: usize,
}

impl Writer {
    fn new() -> Self {
        let mut this = Self::default();
        this.tag(9, &[[0; 4], TID.to_le_bytes()].concat());
        this
    }

    fn tag(&mut self, tag: u16, value: &[u8]) {
        self.bytes.extend(tag.to_le_bytes());
        self.bytes
            .extend(u16::try_from(value.len()).unwrap().to_le_bytes());
        self.bytes.extend(value);
    }

    fn dentry(&mut self, tag: u16, parent: u32, inode: u32, name: &str) {
        let value = [&parent.to_le_bytes(), &inode.to_le_bytes(), name.as_bytes()].concat();
        self.tag(tag, &value);
    }

    fn inode(&mut self, number: u32, mode: u16, generation: u32) {
        let mut raw = vec![0; 160];
        raw[..2].copy_from_slice(&mode.to_le_bytes());
        raw[0x64..0x68].copy_from_slice(&generation.to_le_bytes());
        self.tag(6, &[&number.to_le_bytes()[..], &raw].concat());
    }

    fn add_range(&mut self, inode: u32, file_block: u32, fs_block: u32, len: u16) {
        let mut value = [inode, file_block].map(u32::to_le_bytes).concat();
        value.extend(len.to_le_bytes());
        value.extend([0; 2]);
        value.extend(fs_block.to_le_bytes());
        self.tag(1, &value);
    }

    /// Ends a fast commit, and its block.
    fn tail(&mut self, tid: u32) {
        let left = SIZE - self.bytes.len() % SIZE - HEADER;
        self.bytes.extend(8u16.to_le_bytes());
        self.bytes
            .extend(u16::try_from(left).unwrap().to_le_bytes());
        self.bytes.extend(tid.to_le_bytes());
        let crc = crc32c(0, &self.bytes[self.since_tail..]);
        self.bytes.extend(crc.to_le_bytes());
        self.bytes
            .resize(self.bytes.len().next_multiple_of(SIZE), 0xee);
        self.since_tail = self.bytes.len();
    }

    fn load(&self) -> Result<Option<FastCommits>> {
        let mut bytes = vec![0; 1024 * SIZE];
        let start = 16 * SIZE;
        bytes[start..start + self.bytes.len()].copy_from_slice(&self.bytes);
        let device: Arc<dyn BlockRead> = Arc::new(Memory::new(bytes));
        let superblock = Superblock::parse(&superblock::tests::sample(), 4 << 20)?;
        let run = JournalRun {
            start: FsBlock(FIRST),
            len_blocks: BLOCKS,
        };
        let map = LogMap::of(&[run], 1024)?;
        let mut reader = LogReader::new(&device, &map, superblock.block_size);
        FastCommits::load(Source {
            device: &device,
            map: &map,
            reader: &mut reader,
            blocks: 0..BLOCKS,
            tid: Sequence(TID),
            superblock: &superblock,
        })
    }

    fn loaded(&self) -> FastCommits {
        self.load().unwrap().unwrap()
    }
}

const HEADER: usize = 4;

#[test]
fn edits_of_inodes_blocks_and_names() {
    let mut w = Writer::new();
    w.inode(20, 0o100_644, 7);
    w.add_range(20, 0, 100, 3);
    w.dentry(3, 2, 20, "new");
    w.tail(TID);
    w.dentry(5, 2, 14, "old");
    w.dentry(4, 2, 14, "renamed");
    w.tail(TID);
    let fast = w.loaded();
    assert_eq!(fast.commits(), 2);
    let inode = fast.inode_bytes(20, &[0; 256]).unwrap().unwrap();
    assert_eq!(
        (inode::mode(&inode), inode::generation(&inode)),
        (0o100_644, 7)
    );
    assert_eq!(fast.inode_bytes(21, &[0; 256]).unwrap(), None);
    assert!(fast.ranges(20).is_some() && fast.ranges(14).is_none());
    let names = fast.names(2).unwrap();
    let resolve = |name: &[u8], stored| names.get(name).map(|edit| edit.resolve(stored));
    assert_eq!(resolve(b"new", None), Some(Some(20)));
    assert_eq!(resolve(b"old", Some(14)), Some(None));
    assert_eq!(resolve(b"renamed", None), Some(Some(14)));
    assert_eq!(resolve(b"other", Some(1)), None);
}

#[test]
fn only_whole_fast_commits_of_the_next_transaction_count() {
    let mut w = Writer::new();
    w.dentry(4, 2, 14, "one");
    w.tail(TID);
    let valid = w.bytes.len();
    w.dentry(4, 2, 14, "two");
    // Without its tail a fast commit was never made.
    assert_eq!(w.loaded().commits(), 1);
    w.tail(TID);
    assert_eq!(w.loaded().commits(), 2);
    // A checksum that does not match.
    let mut bad = Writer {
        bytes: w.bytes.clone(),
        since_tail: 0,
    };
    bad.bytes[valid + 13] ^= 1;
    let fast = bad.loaded();
    assert_eq!(fast.commits(), 1);
    assert!(fast.names(2).unwrap().get(b"two").is_none());
    // A block left over from an earlier transaction.
    let mut old = Writer {
        bytes: w.bytes[..valid].to_vec(),
        since_tail: valid,
    };
    old.dentry(4, 2, 14, "two");
    old.tail(TID - 1);
    assert_eq!(old.loaded().commits(), 1);
    bad.bytes[20] ^= 1;
    assert!(bad.load().unwrap().is_none());
}

#[test]
fn the_first_block_begins_with_a_head() {
    let mut w = Writer::default();
    w.dentry(4, 2, 14, "one");
    w.tail(TID);
    assert!(w.load().unwrap().is_none());
    let mut w = Writer::default();
    w.tag(9, &[[0; 4], (TID + 1).to_le_bytes()].concat());
    w.tail(TID + 1);
    assert!(w.load().unwrap().is_none());
    assert!(Writer::default().load().unwrap().is_none());
}

#[test]
fn features_are_refused() {
    let mut w = Writer::default();
    w.tag(9, &[1u32.to_le_bytes(), TID.to_le_bytes()].concat());
    w.tail(TID);
    assert_eq!(w.load().unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn nonsense_is_corrupt() {
    for (fs_block, len) in [(1023, 2), (0, 1), (u32::MAX, 1)] {
        let mut w = Writer::new();
        w.add_range(20, 0, fs_block, len);
        w.tail(TID);
        let e = w.load().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt);
        assert!(
            e.to_string().contains("gives inode 20 blocks outside"),
            "{e}"
        );
    }
    for number in [0, 257] {
        let mut w = Writer::new();
        w.inode(number, 0, 0);
        w.tail(TID);
        assert_eq!(w.load().unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn a_new_directory_has_its_own_two_names() {
    let mut w = Writer::new();
    w.inode(30, 0o040_755, 7);
    w.dentry(3, 2, 30, "dir");
    w.dentry(5, 2, 31, "gone");
    w.dentry(5, 2, 32, "file");
    w.tail(TID);
    let mut fast = w.loaded();
    let names = fast.names(30).unwrap();
    assert_eq!(names.get(b".").unwrap().resolve(None), Some(30));
    assert_eq!(names.get(b"..").unwrap().resolve(None), Some(2));
    fast.count_links(|inode| Ok(inode == 31)).unwrap();
    assert_eq!(fast.links(2, 5), 5, "one came, one went");
    let mut fast = w.loaded();
    fast.count_links(|_| Ok(false)).unwrap();
    assert_eq!(fast.links(2, 5), 6);
    assert_eq!(fast.links(3, 5), 5);
}

#[test]
fn an_inode_says_itself_how_many_links_it_has() {
    let mut w = Writer::new();
    w.inode(30, 0o040_755, 7);
    w.dentry(3, 2, 30, "dir");
    w.inode(2, 0o040_755, 0);
    w.tail(TID);
    let mut fast = w.loaded();
    fast.count_links(|_| Ok(true)).unwrap();
    assert_eq!(fast.links(2, 3), 3);
}

#[test]
fn a_number_that_is_used_again_starts_without_blocks() {
    let mut w = Writer::new();
    w.inode(20, 0o100_644, 7);
    w.add_range(20, 0, 100, 3);
    w.inode(20, 0o100_644, 7);
    w.tail(TID);
    assert!(w.loaded().ranges(20).is_some());
    w.inode(20, 0o100_644, 8);
    w.tail(TID);
    assert!(w.loaded().ranges(20).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_area_ends(damage in proptest::collection::vec((0usize..SIZE, any::<u8>()), 0..8)) {
        let mut w = Writer::new();
        for n in 0..8 {
            w.inode(20 + n, 0o100_644, 7);
            w.add_range(20 + n, n, 100 + n, 3);
            w.dentry(3, 2, 20 + n, "name");
        }
        for (byte, value) in damage {
            if let Some(b) = w.bytes.get_mut(byte) {
                *b = value;
            }
        }
        // With the right checksum, so that the edits are made.
        w.tail(TID);
        let _ = w.load();
    }
}
