//! Damage of single bytes that debugfs cannot make: directory blocks, indexes, attributes, bitmaps
//! and checksums.

use std::path::Path;

use diskfs_ext4::FindingKind::{self, *};
use diskfs_fixtures::have;

use crate::image::{Patched, check_file, e2fsck_verdict, lines, make};

type Patch = fn(&mut Patched);

/// Damage of filesystems without checksums, so that the contents count.
const CONTENTS: &[(FindingKind, &str, Patch)] = &[
    (DuplicateName, "a name twice", |image| {
        let block = image.file_block("/a", 0);
        let at = image.find(block, b"len-60");
        image.put(at, b"len-61");
    }),
    (DirectoryName, "a slash", |image| {
        let block = image.file_block("/a", 0);
        let at = image.find(block, b"len-60");
        image.put(at, b"len/60");
    }),
    (DirectoryName, "an empty name", |image| {
        let block = image.file_block("/a", 0);
        let at = image.find(block, b"len-60");
        image.put(at - 2, &[0]);
    }),
    (DirectoryEntry, "rec_len 5", |image| {
        let block = image.file_block("/a", 0);
        let at = image.find(block, b"len-60");
        image.put(at - 4, &[5, 0]);
    }),
    (DirectoryEntry, "rec_len past the end", |image| {
        let block = image.file_block("/a", 0);
        let at = image.find(block, b"len-60");
        image.put(at - 4, &[0, 0x0c]);
    }),
    (EntryInode, "an inode out of range", |image| {
        let block = image.file_block("/a", 0);
        let at = image.find(block, b"len-60");
        image.put(at - 8, &[0xff; 4]);
    }),
    (EntryType, "a file type", |image| {
        let block = image.file_block("/a", 0);
        let at = image.find(block, b"len-60");
        image.put(at - 1, &[7]);
    }),
    (DirectoryDot, "`.` of another inode", |image| {
        let block = image.file_block("/a", 0);
        image.put(block, &[2, 0, 0, 0]);
    }),
    (DirectoryDot, "`.` with another name", |image| {
        let block = image.file_block("/a", 0);
        image.put(block + 8, b"x");
    }),
    (DirectoryDot, "`..` with another name", |image| {
        let block = image.file_block("/a", 0);
        image.put(block + 20, b"xy");
    }),
    (DirectoryDot, "`..` as a later name", |image| {
        let block = image.file_block("/a", 0);
        let at = image.find(block, b"len-1\0");
        image.put(at - 2, &[2]);
        image.put(at, b"..");
    }),
    (DirectoryParent, "`..` of another directory", |image| {
        let block = image.file_block("/a/b", 0);
        image.put(block + 12, &[2, 0, 0, 0]);
    }),
    (HtreeBlock, "info_length", |image| {
        let block = image.file_block("/many", 0);
        image.put(block + 29, &[9]);
    }),
    (HtreeBlock, "hash_version", |image| {
        let block = image.file_block("/many", 0);
        image.put(block + 28, &[99]);
    }),
    (HtreeBlock, "limit", |image| {
        let block = image.file_block("/many", 0);
        image.flip(block + 32);
    }),
    (HtreeBlock, "count", |image| {
        let block = image.file_block("/many", 0);
        image.put(block + 34, &[0, 0]);
    }),
    (HtreeOrder, "a hash", |image| {
        let block = image.file_block("/many", 0);
        image.flip(block + 32 + 8 + 3);
    }),
    (HtreeOrder, "one leaf twice", |image| {
        let block = image.file_block("/many", 0);
        let first: [u8; 4] = image.bytes[block + 36..block + 40].try_into().unwrap();
        image.put(block + 32 + 8 + 4, &first);
    }),
    (HtreeOrder, "a leaf out of range", |image| {
        let block = image.file_block("/many", 0);
        image.put(block + 32 + 8 + 4, &[0xff, 0xff, 0, 0]);
    }),
    (HtreeOrder, "another hash function", |image| {
        let block = image.file_block("/many", 0);
        image.put(block + 28, &[2]);
    }),
    (AttributeBlock, "magic", |image| {
        let block = attribute_block(image);
        image.flip(block);
    }),
    (AttributeBlock, "h_blocks", |image| {
        let block = attribute_block(image);
        image.put(block + 8, &[2]);
    }),
    (AttributeReferences, "h_refcount", |image| {
        let block = attribute_block(image);
        image.put(block + 4, &[7]);
    }),
    (AttributeEntry, "a value past the end", |image| {
        let block = attribute_block(image);
        image.put(block + 32 + 2, &[0xf0, 0xff]);
    }),
    (AttributeEntry, "a value over the entries", |image| {
        let block = attribute_block(image);
        image.put(block + 32 + 2, &[36, 0]);
    }),
    (AttributeHash, "a value", |image| {
        let block = attribute_block(image);
        let at = image.find(block, b"vvvv");
        image.flip(at);
    }),
    (
        AttributeEntry,
        "a value past the end of the inode",
        |image| {
            let inode = image.inode("/a/len-200");
            let fields = usize::from(image.bytes[inode + 128]);
            image.put(inode + 128 + fields + 4 + 8, &[0, 9]);
        },
    ),
    (BitmapPadding, "the padding of the inode bitmap", |image| {
        let bitmap = image.named_block("Inode bitmap at ");
        let end = bitmap + image.block_bytes - 1;
        image.flip(end);
    }),
    (InodeField, "i_size_high of a directory", |image| {
        let inode = image.inode("/a");
        image.put(inode + 108, &[1]);
    }),
    (InodeField, "i_file_acl_high", |image| {
        let inode = image.inode("/a/len-4096");
        image.put(inode + 118, &[1]);
    }),
    (ExtentTree, "eh_entries of a block", |image| {
        let block = extent_block(image);
        image.put(block + 2, &[0xff, 0xff]);
    }),
    (ExtentTree, "the order in a block", |image| {
        let block = extent_block(image);
        image.put(block + 12 + 12, &[0xff, 0xff]);
    }),
    (ExtentTree, "the first key of a block", |image| {
        let block = extent_block(image);
        image.put(block + 12, &[1]);
    }),
    (BlockOutOfRange, "an extent in a block", |image| {
        let block = extent_block(image);
        image.put(block + 12 + 8, &[0xff; 4]);
    }),
    (MultiplyClaimed, "a run in a block", |image| {
        let block = extent_block(image);
        let other: [u8; 4] = image.bytes[block + 32..block + 36].try_into().unwrap();
        image.put(block + 12 + 8, &other);
    }),
    (ResizeInode, "a reserved block", |image| {
        let inode = image.inode("<7>");
        let double: [u8; 4] = image.bytes[inode + 40 + 13 * 4..][..4].try_into().unwrap();
        let block = usize::try_from(u32::from_le_bytes(double)).unwrap();
        // The entries begin after those of the descriptors' blocks.
        let at = block * image.block_bytes;
        let used = (0..256).find(|nth| image.bytes[at + nth * 4] != 0).unwrap();
        image.flip(at + used * 4);
    }),
    (ResizeInode, "a block after the last backup", |image| {
        let inode = image.inode("<7>");
        let double: [u8; 4] = image.bytes[inode + 40 + 13 * 4..][..4].try_into().unwrap();
        let block = usize::try_from(u32::from_le_bytes(double)).unwrap();
        let at = block * image.block_bytes;
        let used = (0..256).find(|nth| image.bytes[at + nth * 4] != 0).unwrap();
        let reserved: [u8; 4] = image.bytes[at + used * 4..][..4].try_into().unwrap();
        let reserved = usize::try_from(u32::from_le_bytes(reserved)).unwrap();
        image.put(reserved * image.block_bytes + 100 * 4, &[99]);
    }),
    (Journal, "the magic of the journal", |image| {
        let block = image.file_block("<8>", 0);
        image.flip(block);
    }),
    (Journal, "transactions without `needs_recovery`", |image| {
        let block = image.file_block("<8>", 0);
        image.put(block + 0x1c, &[0, 0, 0, 1]);
    }),
    (Superblock, "the magic", |image| image.flip(1024 + 0x38)),
    (Superblock, "s_inodes_per_group", |image| {
        image.flip(1024 + 0x29);
    }),
];

/// Damage of filesystems with checksums.
const CHECKSUMS: &[(FindingKind, &str, Patch)] = &[
    (InodeChecksum, "a time", |image| {
        let inode = image.inode("/a/len-4096");
        image.flip(inode + 8);
    }),
    (InodeChecksum, "an inode without a name", |image| {
        let inode = image.inode("<8>");
        image.flip(inode + 8);
    }),
    (InodeChecksum, "a deleted inode", |image| {
        let inode = image.inode("/a/len-1");
        // The links and the time of deletion.
        image.put(inode + 0x1a, &[0, 0]);
        image.put(inode + 0x14, &[1, 2, 3, 4]);
    }),
    (ExtentChecksum, "an extent block", |image| {
        let block = extent_block(image);
        image.flip(block + 8);
    }),
    (DirectoryChecksum, "a directory block", |image| {
        let block = image.file_block("/a", 0);
        let end = block + image.block_bytes - 1;
        image.flip(end);
    }),
    (DirectoryChecksum, "the tail's type", |image| {
        let block = image.file_block("/a", 0);
        let end = block + image.block_bytes - 5;
        image.flip(end);
    }),
    (HtreeChecksum, "the checksum of an index", |image| {
        let block = image.file_block("/many", 0);
        let end = block + image.block_bytes - 1;
        image.flip(end);
    }),
    (AttributeChecksum, "a block of attributes", |image| {
        let block = attribute_block(image);
        image.flip(block + 16);
    }),
    (BitmapChecksum, "the inode bitmap", |image| {
        let bitmap = image.named_block("Inode bitmap at ");
        image.flip(bitmap + 100);
    }),
    (Superblock, "the superblock's checksum", |image| {
        image.flip(1024 + 0x3fc);
    }),
    (GroupChecksum, "a time of a descriptor", |image| {
        let at = image.block_bytes.max(2048);
        image.flip(at + 0xc);
    }),
];

/// Damage that the kernel refuses, and that e2fsck does not report.
const UNREPORTED: &[(FindingKind, &str, Patch)] = &[
    (ExtentTree, "the depth of a block", |image| {
        let block = extent_block(image);
        image.put(block + 6, &[3]);
    }),
    (BitmapChecksum, "the block bitmap", |image| {
        let bitmap = image.named_block("Block bitmap at ");
        image.flip(bitmap + 100);
    }),
];

fn attribute_block(image: &Patched) -> usize {
    let inode = image.inode("/a/len-160");
    let number: [u8; 4] = image.bytes[inode + 0x68..inode + 0x6c].try_into().unwrap();
    usize::try_from(u32::from_le_bytes(number)).unwrap() * image.block_bytes
}

/// Returns the place of the first extent block of a file that has some.
fn extent_block(image: &Patched) -> usize {
    let inode = image.inode("/a/holes");
    let number: [u8; 4] = image.bytes[inode + 40 + 16..][..4].try_into().unwrap();
    usize::try_from(u32::from_le_bytes(number)).unwrap() * image.block_bytes
}

fn each_is_found(dir: &Path, image: &Path, cases: &[(FindingKind, &str, Patch)], by_e2fsck: bool) {
    let damaged = dir.join("damaged");
    let mut missed = Vec::new();
    for (kind, what, patch) in cases {
        std::fs::copy(image, &damaged).unwrap();
        let mut patched = Patched::open(&damaged);
        patch(&mut patched);
        patched.save();
        let report = check_file(&damaged);
        let (finds, text) = e2fsck_verdict(&damaged);
        if !report.findings.iter().any(|finding| finding.kind == *kind) {
            missed.push(format!("{kind:?}, {what}: found\n{}", lines(&report)));
        }
        if finds != by_e2fsck {
            missed.push(format!("{kind:?}, {what}: e2fsck\n{text}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n---\n"));
}

#[test]
fn damaged_contents_are_found() {
    if !have(&["mke2fs", "e2fsck", "debugfs", "dumpe2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let args = "-t ext4 -b 1024 -O ^metadata_csum,^metadata_csum_seed,^64bit,^orphan_file -N 6000";
    let image = make(dir.path(), args);
    each_is_found(dir.path(), &image, CONTENTS, true);
}

#[test]
fn wrong_checksums_are_found() {
    if !have(&["mke2fs", "e2fsck", "debugfs", "dumpe2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext4 -b 1024");
    each_is_found(dir.path(), &image, CHECKSUMS, true);
}

#[test]
fn damage_that_e2fsck_does_not_report_is_found() {
    if !have(&["mke2fs", "e2fsck", "debugfs", "dumpe2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext4 -b 1024");
    let [depth, bitmap] = UNREPORTED else {
        panic!("two cases are expected");
    };
    each_is_found(dir.path(), &image, &[*bitmap], false);
    let args = "-t ext4 -b 1024 -O ^metadata_csum,^metadata_csum_seed,^64bit,^orphan_file";
    let image = make(dir.path(), args);
    each_is_found(dir.path(), &image, &[*depth], false);
}
