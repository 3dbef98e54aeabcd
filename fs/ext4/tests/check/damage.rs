//! Damage made with debugfs: one field or reference at a time.

use std::path::Path;

use diskfs_ext4::FindingKind::{self, *};
use diskfs_fixtures::have;

use crate::common::debugfs;
use crate::image::{check_file, e2fsck_verdict, lines, make};

/// The damage, and the kind of finding that names it.
const DEFAULT: &[(FindingKind, &[&str])] = &[
    (
        SuperblockField,
        &["set_super_value r_blocks_count_lo 23000"],
    ),
    (SuperblockCount, &["set_super_value free_blocks_count 77"]),
    (SuperblockCount, &["set_super_value free_inodes_count 77"]),
    (SuperblockField, &["feature -resize_inode"]),
    (GroupChecksum, &["set_block_group 0 checksum 0x1234"]),
    (GroupLocation, &["set_block_group 0 block_bitmap 999999"]),
    (
        GroupCount,
        &[
            "set_block_group 0 free_blocks_count 3",
            "set_block_group 0 checksum calc",
        ],
    ),
    (
        GroupCount,
        &[
            "set_block_group 0 free_inodes_count 5700",
            "set_block_group 0 checksum calc",
        ],
    ),
    (
        GroupCount,
        &[
            "set_block_group 0 used_dirs_count 99",
            "set_block_group 0 checksum calc",
        ],
    ),
    (
        GroupFlags,
        &[
            "set_block_group 0 itable_unused 6100",
            "set_block_group 0 checksum calc",
        ],
    ),
    (
        BlockBitmap,
        &[
            "set_block_group 0 flags 6",
            "set_block_group 0 checksum calc",
        ],
    ),
    (BlockBitmap, &["setb 5000"]),
    (BlockBitmap, &["freeb 1100"]),
    (InodeBitmap, &["freei <15>"]),
    (RootInode, &["set_inode_field <2> mode 0100755"]),
    (InodeMode, &["set_inode_field /a/len-4096 mode 0170644"]),
    (
        InodeDeletionTime,
        &["set_inode_field /a/len-4096 dtime 12345"],
    ),
    (
        InodeDeletionTime,
        &["set_inode_field /a/len-4096 links_count 0"],
    ),
    (InodeSize, &["set_inode_field /a/len-70000 size 100"]),
    (InodeSize, &["set_inode_field /a size 999999"]),
    (InodeSize, &["set_inode_field /pipe size 5"]),
    (InodeBlockCount, &["set_inode_field /a/len-4096 blocks 999"]),
    (InodeFlags, &["set_inode_field /a/len-4096 flags 0x81000"]),
    (InodeFlags, &["set_inode_field /pipe flags 0x10"]),
    (InodeFlags, &["set_inode_field /device flags 0x80000"]),
    (
        InodeFlags,
        &["set_inode_field /a/len-4096 flags 0x10080000"],
    ),
    (InodeField, &["set_inode_field /a/len-4096 faddr 7"]),
    (
        InodeExtraSize,
        &["set_inode_field /a/len-4096 extra_isize 999"],
    ),
    (
        ReservedInode,
        &[
            "set_inode_field <9> mode 040755",
            "set_inode_field <9> links_count 1",
        ],
    ),
    (Journal, &["set_inode_field <8> mode 040755"]),
    (Journal, &["set_inode_field <8> block[0] 0"]),
    (ResizeInode, &["set_inode_field <7> block[DIND] 9999999"]),
    (ExtentTree, &["set_inode_field /a/len-4096 block[0] 0"]),
    (
        ExtentTree,
        &["set_inode_field /a/len-4096 block[0] 0x9f30a"],
    ),
    (
        ExtentTree,
        &["set_inode_field /a/len-4096 block[1] 0x60004"],
    ),
    (ExtentTree, &["set_inode_field /a/holes block[3] 1"]),
    (ExtentTree, &["set_inode_field /a/len-4096 block[4] 0"]),
    (
        BlockOutOfRange,
        &["set_inode_field /a/len-4096 block[5] 0x7fffffff"],
    ),
    (
        BlockOutOfRange,
        &["set_inode_field /a/holes block[4] 0x7fffffff"],
    ),
    (MultiplyClaimed, &["set_inode_field /a/len-4096 block[5] 3"]),
    (MultiplyClaimed, &["copy_inode /a/len-4096 /a/len-4095"]),
    (
        BlockOutOfRange,
        &["set_inode_field /a/len-160 file_acl 9999999"],
    ),
    (
        AttributeBlock,
        &["set_inode_field /a/len-160 file_acl 4000"],
    ),
    (Symlink, &["set_inode_field /link-59 size 58"]),
    (Symlink, &["set_inode_field /link-200 size 100"]),
    (Symlink, &["set_inode_field /link-59 size 0"]),
    (UnusedInode, &["clri /a/len-4096"]),
    (UnusedInode, &["link <5000> /new"]),
    (EntryInode, &["link <8> /new"]),
    (EntryInode, &["link <2> /new"]),
    (EntryType, &["set_inode_field /pipe mode 0140644"]),
    (DirectoryLinked, &["link /a/b /new"]),
    (DirectoryHole, &["punch /many 1 1"]),
    (UnreachableDirectory, &["unlink /a/b"]),
    (LinkCount, &["unlink /a/b/same"]),
    (LinkCount, &["link /a/len-1 /new"]),
    (LinkCount, &["set_inode_field /a links_count 9"]),
    (UnattachedInode, &["unlink /a/len-0"]),
];

/// Damage of block maps.
const BLOCK_MAPS: &[(FindingKind, &[&str])] = &[
    (
        BlockOutOfRange,
        &["set_inode_field /a/len-4096 block[0] 0x7fffffff"],
    ),
    (
        BlockOutOfRange,
        &["set_inode_field /a/len-300000 block[IND] 0x7fffffff"],
    ),
    (MultiplyClaimed, &["set_inode_field /a/len-4096 block[0] 3"]),
    (
        MultiplyClaimed,
        &["set_inode_field /a/len-300000 block[IND] 3"],
    ),
    (InodeFlags, &["set_inode_field /a/len-4096 flags 0x80000"]),
    (
        InodeBlockCount,
        &["set_inode_field /a/len-300000 block[IND] 0"],
    ),
];

fn each_is_found(dir: &Path, image: &Path, cases: &[(FindingKind, &[&str])]) {
    let damaged = dir.join("damaged");
    let mut missed = Vec::new();
    for (kind, commands) in cases {
        std::fs::copy(image, &damaged).unwrap();
        debugfs(&damaged, commands);
        let report = check_file(&damaged);
        let (finds, text) = e2fsck_verdict(&damaged);
        if !report.findings.iter().any(|finding| finding.kind == *kind) {
            missed.push(format!("{kind:?} {commands:?}: found\n{}", lines(&report)));
        }
        if !finds {
            missed.push(format!("{kind:?} {commands:?}: e2fsck\n{text}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n---\n"));
}

#[test]
fn each_kind_of_damage_is_found() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext4 -O ^orphan_file -N 6144");
    each_is_found(dir.path(), &image, DEFAULT);
}

#[test]
fn damage_of_block_maps_is_found() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext2 -N 6144 -b 4096");
    each_is_found(dir.path(), &image, BLOCK_MAPS);
}

/// e2fsck reads the orphan list only if it may write.
#[test]
fn an_invalid_orphan_list_is_found() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext4 -O ^orphan_file -N 6144");
    debugfs(&image, &["set_super_value last_orphan 99999"]);
    let report = check_file(&image);
    let kinds: Vec<_> = report.findings.iter().map(|found| found.kind).collect();
    assert_eq!(kinds, [Orphan], "{}", lines(&report));
    let repaired = diskfs_fixtures::command("e2fsck")
        .args(["-f", "-y"])
        .arg(&image)
        .output()
        .unwrap();
    assert_eq!(repaired.status.code(), Some(1));
    assert!(check_file(&image).is_clean());
}
