//! ext4 filesystems whose structures are damaged or form cycles.

use std::fs;
use std::path::PathBuf;

use diskfs_fixtures::{TempImage, image, pattern};

use super::program::{CORRUPT, Outcome, UNSUPPORTED, diskfs};

/// The offset of the superblock.
const SUPERBLOCK: usize = 1024;

/// The offset of `s_feature_incompat`; `s_feature_ro_compat` follows it.
const INCOMPAT: usize = SUPERBLOCK + 0x60;
const RO_COMPAT: usize = SUPERBLOCK + 0x64;

/// A fixture whose bytes are changed.
struct Damaged {
    image: TempImage,
    bytes: Vec<u8>,
}

impl Damaged {
    fn new(name: &str) -> Self {
        let image = image(name);
        let bytes = fs::read(image.path()).expect("readable");
        Self { image, bytes }
    }

    /// Returns a fixture without `metadata_csum`, so that changes are found by their values, and
    /// not by the checksum.
    fn without_checksums(name: &str) -> Self {
        let mut damaged = Self::new(name);
        let features = damaged.u32_at(RO_COMPAT);
        damaged.put(RO_COMPAT, &(features & !0x400).to_le_bytes());
        damaged
    }

    fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    fn block_bytes(&self) -> usize {
        1024 << self.u32_at(SUPERBLOCK + 0x18)
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn flip(&mut self, at: usize) {
        self.bytes[at] ^= 0x01;
    }

    /// Returns the first offset of these bytes outside of the journal's copies.
    fn find(&self, needle: &[u8]) -> usize {
        self.bytes
            .windows(needle.len())
            .position(|window| window == needle)
            .unwrap_or_else(|| panic!("{needle:?} is not in the image"))
    }

    /// Returns all offsets of these bytes, including copies in the journal.
    fn find_all(&self, needle: &[u8]) -> Vec<usize> {
        let windows = self.bytes.windows(needle.len()).enumerate();
        windows
            .filter(|(_, window)| *window == needle)
            .map(|(at, _)| at)
            .collect()
    }

    /// Returns the blocks that satisfy a test.
    fn blocks(&self, test: impl Fn(&[u8]) -> bool) -> Vec<usize> {
        let size = self.block_bytes();
        let blocks = self.bytes.chunks_exact(size).enumerate();
        blocks
            .filter(|(_, block)| test(block))
            .map(|(n, _)| n * size)
            .collect()
    }

    /// Returns the offset of an inode.
    fn inode(&self, number: u32) -> usize {
        let size = self.block_bytes();
        let per_group = self.u32_at(SUPERBLOCK + 0x28);
        let inode_bytes = usize::from(u16::from_le_bytes(
            self.bytes[SUPERBLOCK + 0x58..SUPERBLOCK + 0x5a]
                .try_into()
                .expect("two bytes"),
        ));
        let first_data_block = self.u32_at(SUPERBLOCK + 0x14) as usize;
        let is_64bit = self.u32_at(INCOMPAT) & 0x80 != 0;
        let descriptor_bytes = if is_64bit { 64 } else { 32 };
        let group = ((number - 1) / per_group) as usize;
        let descriptor = (first_data_block + 1) * size + group * descriptor_bytes;
        let table = self.u32_at(descriptor + 8) as usize * size;
        table + ((number - 1) % per_group) as usize * inode_bytes
    }

    fn inode_of(&self, path: &str) -> u32 {
        let name = self.name();
        let tree = diskfs_fixtures::expected_tree(&name);
        let entry = tree
            .entry(path)
            .unwrap_or_else(|| panic!("no {path} in {name}"));
        u32::try_from(entry.inode).expect("an inode of 32 bits")
    }

    fn name(&self) -> String {
        let path = self.image.path();
        path.file_name()
            .expect("the entry has a name")
            .to_string_lossy()
            .into_owned()
    }

    fn write(&self) -> PathBuf {
        fs::write(self.image.path(), &self.bytes).expect("write the file");
        self.image.path()
    }

    /// Reads everything that is left, and returns the outcome.
    fn hash(&self) -> Outcome {
        let path = self.write().display().to_string();
        diskfs(["info", &path]).expect_message();
        diskfs(["hash", &path])
    }

    fn expect_corrupt(&self, words: &[&str]) {
        self.hash().expect(CORRUPT, words);
    }
}

#[test]
fn a_wrong_checksum_of_the_superblock_is_told() {
    let mut damaged = Damaged::new("ext4-default");
    // The field s_mtime.
    damaged.flip(SUPERBLOCK + 0x2c);
    damaged.expect_corrupt(&["superblock", "checksum"]);
}

#[test]
fn a_wrong_checksum_of_a_group_descriptor_is_told() {
    for name in ["ext4-default", "ext4-gdt-csum"] {
        let mut damaged = Damaged::new(name);
        let size = damaged.block_bytes();
        let first = damaged.u32_at(SUPERBLOCK + 0x14) as usize;
        // The field bg_free_blocks_count_lo of the first group.
        damaged.flip((first + 1) * size + 0x0c);
        damaged.expect_corrupt(&["group", "checksum"]);
    }
}

#[test]
fn a_wrong_checksum_of_an_inode_is_told() {
    let mut damaged = Damaged::new("ext4-default");
    let inode = damaged.inode_of("symlink-59");
    let at = damaged.inode(inode);
    // A letter of the symlink's target.
    assert_eq!(damaged.bytes[at + 0x28], b't');
    damaged.flip(at + 0x28);
    damaged.expect_corrupt(&["inode", "checksum", &inode.to_string()]);
}

#[test]
fn a_wrong_checksum_of_a_directory_is_told() {
    let mut damaged = Damaged::new("ext4-default");
    for at in damaged.find_all(b"size-100000") {
        damaged.flip(at);
    }
    damaged.expect_corrupt(&["checksum"]);
}

#[test]
fn a_wrong_checksum_of_an_htree_node_is_told() {
    let mut damaged = Damaged::new("ext4-htree-deep");
    // An index node begins with an entry over the whole block: inode 0, length 1024.
    let nodes = damaged.blocks(|block| {
        block[..8] == [0, 0, 0, 0, 0, 4, 0, 0] && block[8..10] != [0, 0] && block[12..16] != [0; 4]
    });
    assert!(!nodes.is_empty());
    for node in nodes {
        damaged.flip(node + 17);
    }
    let path = damaged.write().display().to_string();
    // A listing reads the leaves; a lookup uses the index.
    let name = format!("00000{}", "d".repeat(245));
    let outcome = diskfs(["stat", &format!("{path}:/deep/{name}")]);
    assert_eq!(outcome.code, CORRUPT, "{outcome:#?}");
}

#[test]
fn a_wrong_checksum_of_an_extent_block_is_told() {
    let mut damaged = Damaged::new("ext4-extent-tree");
    let blocks = damaged.blocks(|block| block[..2] == [0x0a, 0xf3]);
    assert!(blocks.len() > 10);
    for block in blocks {
        damaged.flip(block + 20);
    }
    damaged.expect_corrupt(&["extent", "checksum"]);
}

#[test]
fn a_wrong_checksum_of_an_xattr_block_is_told() {
    let mut damaged = Damaged::new("ext4-xattr");
    let value = pattern("in-block", 600);
    for at in damaged.find_all(&value[..64]) {
        damaged.flip(at);
    }
    let path = damaged.write().display().to_string();
    // `tar` reads the tree with its attributes.
    diskfs(["tar", &path]).expect(CORRUPT, &["checksum"]);
}

/// An index node of an extent tree that is its own child.
#[test]
fn extent_trees_that_loop_are_corrupt() {
    let mut damaged = Damaged::without_checksums("ext4-extent-tree");
    let size = damaged.block_bytes();
    let nodes = damaged.blocks(|block| block[..2] == [0x0a, 0xf3] && block[6] > 0);
    assert!(!nodes.is_empty());
    for node in nodes {
        // The field ei_leaf_lo of each index.
        let count = usize::from(damaged.bytes[node + 2]);
        let itself = u32::try_from(node / size).expect("small");
        for n in 0..count {
            damaged.put(node + 12 + 12 * n + 4, &itself.to_le_bytes());
        }
    }
    damaged.expect_corrupt(&["extent"]);
}

/// Impossible depths, counts and offsets in the root of the extent tree in the inode.
#[test]
fn extent_headers_are_not_believed() {
    for (what, offset, bytes) in [
        ("magic", 0, &[0, 0][..]),
        ("entries", 2, &[0xff, 0xff]),
        ("depth", 6, &[6, 0]),
        ("depth of one more", 6, &[1, 0]),
        ("ee_len of 0", 16, &[0, 0]),
        ("ee_start past the end", 20, &[0xff, 0xff, 0xff, 0xff]),
        ("ee_start 0, over the superblock", 20, &[0, 0, 0, 0]),
    ] {
        let mut damaged = Damaged::without_checksums("ext4-default");
        let at = damaged.inode(damaged.inode_of("size-100000")) + 0x28;
        assert_eq!(damaged.bytes[at..at + 2], [0x0a, 0xf3]);
        damaged.put(at + offset, bytes);
        let outcome = damaged.hash();
        assert_eq!(outcome.code, CORRUPT, "{what}: {outcome:#?}");
    }
}

#[test]
fn block_maps_that_loop_or_leave_the_device_are_corrupt() {
    let triple =
        |damaged: &Damaged| damaged.inode(damaged.inode_of("triple-first")) + 0x28 + 14 * 4;
    let cat = |damaged: &Damaged| {
        let path = damaged.write().display().to_string();
        diskfs(["cat", &format!("{path}:/triple-first")])
    };
    for (what, target) in [("past the end", u32::MAX), ("the superblock", 1)] {
        let mut damaged = Damaged::new("ext2-block-map-1k");
        damaged.put(triple(&damaged), &target.to_le_bytes());
        let outcome = cat(&damaged);
        assert_eq!(outcome.code, CORRUPT, "{what}: {outcome:#?}");
    }
    // A block whose pointers all point to itself makes no sensible file, but reading it must end.
    let mut damaged = Damaged::new("ext2-block-map-1k");
    let block = damaged.u32_at(triple(&damaged));
    for n in 0..256 {
        damaged.put(block as usize * 1024 + 4 * n, &block.to_le_bytes());
    }
    cat(&damaged).expect_message();
}

/// A directory that is below itself.
#[test]
fn directories_that_loop_are_corrupt() {
    for name in ["ext2", "ext4-no-csum"] {
        let mut damaged = Damaged::without_checksums(name);
        // The entry of `deeper` in directory/below leads to the root.
        let entries = damaged.find_all(b"\x06\x02deeper");
        assert!(!entries.is_empty());
        for at in entries {
            damaged.put(at - 6, &2_u32.to_le_bytes());
        }
        for command in ["tree", "hash", "tar", "find"] {
            let path = damaged.write().display().to_string();
            diskfs([command, &path]).expect(CORRUPT, &["directory"]);
        }
    }
}

#[test]
fn directory_entries_are_not_believed() {
    for (what, offset, bytes) in [
        ("rec_len 0", 4, &[0, 0][..]),
        ("rec_len 3", 4, &[3, 0]),
        ("rec_len past the block", 4, &[0xfc, 0xff]),
        ("name_len past the entry", 6, &[0xff]),
        ("inode past the last", 0, &[0xff, 0xff, 0xff, 0x7f]),
    ] {
        let mut damaged = Damaged::without_checksums("ext4-no-csum");
        let at = damaged.find(b"\x0b\x01size-100000") - 6;
        damaged.put(at, &{
            let mut entry = damaged.bytes[at..at + 8].to_vec();
            entry[offset..offset + bytes.len()].copy_from_slice(bytes);
            entry
        });
        let outcome = damaged.hash();
        assert_eq!(outcome.code, CORRUPT, "{what}: {outcome:#?}");
    }
}

#[test]
fn symlinks_that_loop_end() {
    let mut damaged = Damaged::without_checksums("ext4-no-csum");
    // The symlink to `directory/below` becomes one to itself.
    let at = damaged.inode(damaged.inode_of("symlink-to-directory"));
    let target = b"symlink-to-directory";
    damaged.put(at + 0x28, target);
    damaged.put(at + 0x28 + target.len(), &[0; 8]);
    damaged.put(at + 4, &20_u32.to_le_bytes());
    let path = damaged.write().display().to_string();
    let outcome = diskfs(["cat", &format!("{path}:/symlink-to-directory/file")]);
    assert_ne!(outcome.code, 0);
    assert!(outcome.stderr.contains("link"), "{}", outcome.stderr);
}

/// Fields of the superblock up to their maximum, without a checksum that would reveal the change.
#[test]
fn superblocks_are_not_believed() {
    for (what, offset, bytes) in [
        ("s_blocks_count_lo", 0x04, &[0xff; 4][..]),
        ("s_blocks_count_hi", 0x150, &[0xff, 0xff, 0xff, 0x7f]),
        ("s_log_block_size", 0x18, &[40, 0, 0, 0]),
        ("s_log_block_size of the largest", 0x18, &[0xff; 4]),
        ("s_blocks_per_group 0", 0x20, &[0; 4]),
        ("s_inodes_per_group 0", 0x28, &[0; 4]),
        ("s_inodes_per_group", 0x28, &[0xff; 4]),
        ("s_inode_size 0", 0x58, &[0, 0]),
        ("s_inode_size 192", 0x58, &[192, 0]),
        ("s_inode_size 32768", 0x58, &[0, 0x80]),
        ("s_first_data_block", 0x14, &[0xff; 4]),
        ("s_desc_size", 0xfe, &[0xff, 0xff]),
        ("s_inodes_count", 0x00, &[0xff; 4]),
    ] {
        let mut damaged = Damaged::without_checksums("ext4-default");
        damaged.put(SUPERBLOCK + offset, bytes);
        let outcome = damaged.hash();
        let refused = [CORRUPT, UNSUPPORTED].contains(&outcome.code);
        assert!(refused, "{what}: {outcome:#?}");
    }
}

#[test]
fn features_that_nobody_knows_are_unsupported() {
    let mut damaged = Damaged::without_checksums("ext4-default");
    let features = damaged.u32_at(INCOMPAT);
    damaged.put(INCOMPAT, &(features | 0x8000_0000).to_le_bytes());
    damaged.hash().expect(UNSUPPORTED, &["feature"]);
}

/// File sizes of 2^63 and more: they cause no allocation, and no hour of reading zeros.
#[test]
fn sizes_of_files_are_not_believed() {
    let mut damaged = Damaged::without_checksums("ext4-default");
    let at = damaged.inode(damaged.inode_of("size-100000"));
    for high in [0x8000_0000_u32, 0xffff_ffff, 0x7fff_ffff] {
        damaged.put(at + 0x6c, &high.to_le_bytes());
        let path = damaged.write().display().to_string();
        diskfs(["stat", &format!("{path}:/size-100000")]).expect_message();
        diskfs(["cat", &format!("{path}:/size-100000")]).expect(CORRUPT, &[]);
        diskfs(["ls", "-l", &path]).expect_message();
    }
    // A directory of that size, and a symlink.
    for name in ["directory", "symlink-255"] {
        let mut damaged = Damaged::without_checksums("ext4-default");
        let at = damaged.inode(damaged.inode_of(name));
        damaged.put(at + 0x6c, &0x7fff_ffff_u32.to_le_bytes());
        damaged.put(at + 4, &u32::MAX.to_le_bytes());
        damaged.expect_corrupt(&[]);
    }
}

#[test]
fn inline_data_stays_in_its_inode() {
    let mut damaged = Damaged::without_checksums("ext4-inline-data");
    let at = damaged.inode(damaged.inode_of("inline-size-100"));
    // system.data claims to be longer than the inode: e_value_size of the entry after the xattr
    // magic.
    let magic = damaged.bytes[at..at + 256]
        .windows(4)
        .position(|window| window == [0, 0, 2, 0xea])
        .expect("the inode has xattrs");
    damaged.put(at + magic + 4 + 8, &60_000_u32.to_le_bytes());
    damaged.expect_corrupt(&[]);
}

/// Blocks of a journal that must be replayed, each damaged in turn: the log ends before the block,
/// or is corrupt, but the block is never used as it is.
#[test]
fn journals_are_not_believed() {
    for name in [
        "journal-v3",
        "journal-plain",
        "journal-revoke",
        "journal-fast-commit",
    ] {
        let mut damaged = Damaged::new(name);
        let sound = damaged.bytes.clone();
        diskfs(["info", &damaged.write().display().to_string()]).expect(0, &[]);
        let log = damaged.blocks(|block| block[..4] == [0xc0, 0x3b, 0x39, 0x98]);
        assert!(log.len() > 3, "{name} has {} blocks in its log", log.len());
        for block in log.iter().take(6) {
            // The block type, the sequence, the first fields after the header, and a later field.
            for offset in [7, 11, 15, 19, 28, 40] {
                damaged.put(block + offset, &[0xff]);
                let path = damaged.write().display().to_string();
                diskfs(["ls", &path]).expect_message();
                damaged.put(*block, &sound[*block..block + 64]);
            }
        }
    }
}
