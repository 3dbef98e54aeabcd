//! Damage made with debugfs: one field or reference at a time.

use std::path::Path;

use diskfs_ext4::FindingKind::{self, *};
use diskfs_fixtures::have;

use crate::common::{debugfs, mke2fs_empty};
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
    (SuperblockField, &["set_super_value min_extra_isize 1"]),
    (SuperblockField, &["set_super_value want_extra_isize 1024"]),
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
    (ResizeInode, &["set_inode_field <7> block[2] 42"]),
    (ResizeInode, &["clri <7>"]),
    (Journal, &["set_inode_field <8> flags 0x80800"]),
    (
        ReservedInode,
        &["feature -has_journal", "set_super_value journal_inum 0"],
    ),
    (ReservedInode, &["set_inode_field <1> uid 7"]),
    (InodeFlags, &["set_inode_field /link-59 flags 0x10"]),
    (InodeFlags, &["set_inode_field /a/len-4096 flags 0x82000"]),
    (
        EncryptionContext,
        &[
            "feature encrypt",
            "set_inode_field /a/len-4096 flags 0x80800",
        ],
    ),
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

/// Damage with features that few filesystems have.
#[test]
fn damage_with_other_features_is_found() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext4 -O quota,project -N 6144");
    each_is_found(dir.path(), &image, QUOTAS);
    let image = mke2fs_empty(dir.path(), "-t ext4 -O mmp -N 6144", "24M");
    let mmp = crate::common::run("dumpe2fs", &["-h", image.to_str().unwrap()]);
    let (_, block) = mmp.split_once("MMP block number:").unwrap();
    let zap = format!("zap_block -p 7 {}", block.lines().next().unwrap().trim());
    each_is_found(dir.path(), &image, &[(MultipleMount, &[&zap])]);
    let image = make(dir.path(), "-t ext4 -O casefold -E encoding=utf8 -N 6144");
    each_is_found(dir.path(), &image, FOLDED);
}

/// Damage of quotas.
const QUOTAS: &[(FindingKind, &[&str])] = &[
    (Quota, &["set_inode_field /a/len-4096 uid 1000"]),
    (Quota, &["set_inode_field /a/len-4096 gid 1000"]),
    (Quota, &["set_inode_field /a/len-4096 projid 1000"]),
    (Quota, &["set_inode_field <3> size 3000"]),
    (Quota, &["zap_block -f <4> -p 7 0"]),
    (
        SuperblockField,
        &["set_super_value usr_quota_inum 808464432"],
    ),
];

/// Names that are equal without case.
const FOLDED: &[(FindingKind, &[&str])] = &[(
    DuplicateName,
    &[
        "mkdir /folded",
        "link /pipe /folded/abc",
        "link /pipe /folded/ABC",
        "set_inode_field /folded flags 0x40080000",
    ],
)];

/// The bitmaps of a group, an inode and a directory entry in defective blocks.
#[test]
fn metadata_in_defective_blocks_is_found() {
    if !have(&["mke2fs", "e2fsck", "debugfs", "dumpe2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext2 -N 6144 -b 1024");
    let patched = crate::image::Patched::open(&image);
    let block = |what: &str| patched.named_block(what) / patched.block_bytes;
    let bitmap = format!("set_inode_field <1> block[0] {}", block("Block bitmap at "));
    let inode = patched.inode("/a/len-4096") / patched.block_bytes;
    let table = format!("set_inode_field <1> block[0] {inode}");
    let file = patched.file_block("/a/len-4096", 0) / patched.block_bytes;
    let shared = format!("set_inode_field <1> block[0] {file}");
    each_is_found(
        dir.path(),
        &image,
        &[
            (DefectiveBlock, &[&bitmap]),
            (EntryInode, &[&table]),
            (MultiplyClaimed, &[&shared]),
            (BlockOutOfRange, &["set_inode_field <1> block[0] 9999999"]),
        ],
    );
}

/// Blocks with several owners are valid with the feature `shared_blocks`.
#[test]
fn shared_blocks_are_not_found() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext4 -O ^has_journal -N 6144");
    debugfs(
        &image,
        &[
            "feature shared_blocks",
            "copy_inode /a/len-4096 /a/len-4095",
        ],
    );
    let report = check_file(&image);
    let kinds: Vec<_> = report.findings.iter().map(|found| found.kind).collect();
    // The blocks that the second file had are lost.
    assert!(kinds.contains(&BlockBitmap), "{}", lines(&report));
    assert!(!kinds.contains(&MultiplyClaimed), "{}", lines(&report));
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
