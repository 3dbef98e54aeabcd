//! Healthy filesystems with many sets of features.

use std::fs;
use std::io::Write;

use diskfs_ext4::FindingKind;
use diskfs_fixtures::have;

use crate::common::{Mounted, debugfs, make_tree, mke2fs, mke2fs_empty, run};
use crate::image::{check_file, e2fsck_verdict, lines, make};

const MATRIX: [&str; 27] = [
    "-t ext4",
    "-t ext2",
    "-t ext3 -J size=1 -b 1024",
    "-r 0 -O none -I 128 -b 1024",
    "-t ext4 -b 1024",
    "-t ext4 -b 2048",
    "-t ext4 -I 128",
    "-t ext4 -I 512",
    "-t ext4 -O inline_data -I 256",
    "-t ext4 -O inline_data -I 1024",
    "-t ext4 -O bigalloc -C 16384",
    "-t ext4 -b 1024 -O bigalloc",
    "-t ext4 -b 1024 -O meta_bg,^resize_inode -g 1024",
    "-t ext4 -b 1024 -O meta_bg,^resize_inode,^64bit -g 1024",
    "-t ext4 -O ^metadata_csum,^64bit",
    "-t ext4 -O ^metadata_csum,uninit_bg",
    "-t ext4 -O metadata_csum_seed",
    "-t ext4 -O sparse_super2,^resize_inode",
    "-t ext4 -O ^sparse_super,^resize_inode -b 1024",
    "-t ext4 -O ^flex_bg -b 1024",
    "-t ext4 -O ea_inode,large_dir -b 1024",
    "-t ext4 -O casefold,verity,encrypt,project,mmp,fast_commit",
    "-t ext4 -O orphan_file",
    "-t ext4 -b 1024 -g 256",
    "-t ext4 -O ^filetype,^dir_index",
    "-t ext4 -O ^extent,^64bit,^huge_file -b 1024",
    "-t ext4 -O ^has_journal,^flex_bg -b 1024 -g 512",
];

/// Returns 1 to test all sets of features, which `DISKFS_CHECKS` asks for; otherwise more.
fn step() -> usize {
    if std::env::var_os("DISKFS_CHECKS").is_some() {
        1
    } else {
        5
    }
}

#[test]
fn nothing_is_found() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for args in MATRIX.iter().step_by(step()) {
        let image = make(dir.path(), args);
        let report = check_file(&image);
        assert!(report.is_clean(), "{args}:\n{}", lines(&report));
        let statistics = report.statistics;
        assert!(
            statistics.regular_files > 410 && statistics.directories >= 7,
            "{args}: {statistics:?}"
        );
        // The numbers of e2fsck's last line: files, and blocks in use.
        let (_, text) = e2fsck_verdict(&image);
        let inodes = format!(" {}/", statistics.used_inodes);
        let blocks = format!(", {}/", statistics.used_blocks);
        assert!(text.contains(&inodes), "{args}: {statistics:?}\n{text}");
        assert!(text.contains(&blocks), "{args}: {statistics:?}\n{text}");
    }
}

#[test]
fn large_blocks() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    make_tree(&tree, 300);
    for (args, size) in [
        ("-t ext4 -b 65536", "64M"),
        ("-t ext4 -b 1024 -N 90000", "200M"),
    ] {
        let image = mke2fs(dir.path(), &tree, size, args);
        let report = check_file(&image);
        assert!(report.is_clean(), "{args}:\n{}", lines(&report));
    }
}

#[test]
fn quota_files_are_compared() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for args in [
        "-t ext4 -O quota,project",
        "-t ext4 -O quota,ea_inode -I 512",
    ] {
        let image = make(dir.path(), args);
        // Several ids, of which e2fsck computes the usage.
        debugfs(
            &image,
            &[
                "set_inode_field /a/len-4096 uid 1000",
                "set_inode_field /a/len-70000 uid 70000",
                "set_inode_field /link-200 gid 100000",
            ],
        );
        let _ = diskfs_fixtures::command("e2fsck")
            .args(["-f", "-y"])
            .arg(&image)
            .output()
            .unwrap();
        let report = check_file(&image);
        assert!(report.is_clean(), "{args}:\n{}", lines(&report));
        assert!(!e2fsck_verdict(&image).0, "{args}");
    }
}

#[test]
fn a_path_is_reported() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext4");
    debugfs(&image, &["link <3000> /a/b/new"]);
    let report = check_file(&image);
    let finding = report
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::UnusedInode)
        .unwrap();
    assert_eq!(finding.place.path.as_deref(), Some(&b"/a/b"[..]));
    assert_eq!(finding.place.name.as_deref(), Some(&b"new"[..]));
}

/// The image of a mounted filesystem is that after a crash: its journal is not empty, and a deleted
/// file is still open.
#[test]
fn the_kernel_leaves_no_findings() {
    if !have(&["mke2fs", "e2fsck", "mount"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for args in ["-t ext4 -O ^orphan_file", "-t ext4 -O orphan_file"] {
        let image = mke2fs_empty(dir.path(), args, "64M");
        let Some(mounted) = Mounted::new("the_kernel_leaves_no_findings", &image) else {
            return;
        };
        let files = mounted.path().join("files");
        fs::create_dir(&files).unwrap();
        for n in 0..600 {
            fs::write(files.join(format!("file-{n}")), vec![7; n * 10]).unwrap();
        }
        for n in (0..600).step_by(3) {
            fs::remove_file(files.join(format!("file-{n}"))).unwrap();
        }
        let mut held = fs::File::create(files.join("held")).unwrap();
        held.write_all(&vec![7; 100_000]).unwrap();
        held.sync_all().unwrap();
        fs::remove_file(files.join("held")).unwrap();
        run("sync", &["-f", files.to_str().unwrap()]);
        let crashed = dir.path().join("crashed");
        fs::copy(&image, &crashed).unwrap();
        let report = check_file(&crashed);
        assert!(report.is_clean(), "{args}:\n{}", lines(&report));
        let has_orphan = |note: &String| note.contains("orphans") && note.ends_with(": 1");
        assert!(report.notes.iter().any(has_orphan), "{:?}", report.notes);
        drop(held);
        drop(mounted);
        let report = check_file(&image);
        assert!(report.is_clean(), "{args}:\n{}", lines(&report));
        assert!(!e2fsck_verdict(&image).0, "{args}");
    }
}
