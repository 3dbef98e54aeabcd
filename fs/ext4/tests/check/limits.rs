//! The limits of a check, and its independence of the number of threads.

use std::fs;
use std::ops::ControlFlow;
use std::sync::Arc;

use diskfs_block::Memory;
use diskfs_ext4::{CheckOptions, CheckPhase, check};
use diskfs_fixtures::have;
use diskfs_vfs::{ErrorKind, Fallocate, FsRead, FsWrite, NewAttributes, NewKind};

use crate::common::{debugfs, mke2fs_empty, open_for_writing};
use crate::image::{check_bytes, lines, make};

#[test]
fn threads_do_not_change_the_report() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext4 -b 1024 -g 512");
    debugfs(
        &image,
        &[
            "copy_inode /a/len-70000 /a/len-300000",
            "set_inode_field /a/len-4096 block[5] 3",
            "unlink /a/b",
            "clri /link-59",
            "set_inode_field /many links_count 9",
            "setb 5000",
        ],
    );
    let bytes = fs::read(&image).unwrap();
    let one = check_bytes(bytes.clone(), 1);
    assert!(one.total_findings > 8, "{}", lines(&one));
    for threads in [2, 5] {
        assert_eq!(check_bytes(bytes.clone(), threads), one);
    }
    // The first findings are kept.
    let options = CheckOptions {
        max_findings: 3,
        ..CheckOptions::default()
    };
    let device = Arc::new(Memory::new(bytes));
    let few = check(device, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(few.findings, one.findings[..3]);
    assert_eq!(few.total_findings, one.total_findings);
}

#[test]
fn a_check_can_be_stopped() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext4 -b 1024");
    let bytes = fs::read(&image).unwrap();
    for threads in [1, 3] {
        let options = CheckOptions {
            threads,
            ..CheckOptions::default()
        };
        let mut phases = Vec::new();
        let device = Arc::new(Memory::new(bytes.clone()));
        let stopped = check(device, &options, &mut |progress| {
            phases.push(progress.phase);
            if progress.phase == CheckPhase::Directories {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(phases.is_sorted() && phases[0] == CheckPhase::Inodes);
    }
}

#[test]
fn too_little_memory_is_an_error() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext4 -b 1024");
    let bytes = fs::read(&image).unwrap();
    for memory_bytes in [0, 500, 2000, 5000] {
        let options = CheckOptions {
            memory_bytes,
            ..CheckOptions::default()
        };
        let device = Arc::new(Memory::new(bytes.clone()));
        let e = check(device, &options, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid);
        assert!(e.to_string().contains("more memory"), "{e}");
    }
}

/// Creates a filesystem with a file of which every second block is a hole, and with damage.
fn fragmented(dir: &std::path::Path, args: &str, damage: &[&str]) -> Vec<u8> {
    const BLOCK: u64 = 1024;
    let image = mke2fs_empty(dir, args, "40M");
    let fs = open_for_writing(&image);
    let attributes = NewAttributes::for_root(0o644);
    for name in ["first", "second"] {
        let file = fs
            .create(fs.root(), name.as_bytes(), NewKind::Regular, &attributes)
            .unwrap();
        let data = vec![7; 1 << 20];
        for mib in 0..16 {
            fs.write_at(file, mib << 20, &data).unwrap();
        }
        for block in (0..16 << 10).step_by(2) {
            let what = Fallocate::PunchHole;
            fs.fallocate(file, block * BLOCK, BLOCK, what).unwrap();
        }
    }
    fs.close().unwrap();
    debugfs(&image, damage);
    fs::read(&image).unwrap()
}

/// If the set of claimed blocks does not fit into its part of the memory, several rounds claim one
/// part of the groups each. The report is the same.
#[test]
fn rounds_do_not_change_the_report() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let damage = [
        "copy_inode /first /third",
        "setb 39000",
        "freeb 20001",
        "set_inode_field <1> block[0] 30001",
    ];
    for (args, damage) in [
        ("-t ext4 -b 1024 -N 64 -O ^has_journal", &damage[..0]),
        ("-t ext4 -b 1024 -N 64 -O ^has_journal", &damage),
        ("-t ext2 -b 1024 -N 64 -g 4096", &damage),
    ] {
        let bytes = fragmented(dir.path(), args, damage);
        let all = check_bytes(bytes.clone(), 1);
        assert_eq!(all.is_clean(), damage.is_empty(), "{}", lines(&all));
        let mut rounds = 0;
        for kib in (4..40).step_by(2) {
            let options = CheckOptions {
                memory_bytes: kib << 10,
                threads: 1 + usize::try_from(kib % 3).unwrap(),
                ..CheckOptions::default()
            };
            let device = Arc::new(Memory::new(bytes.clone()));
            let mut starts = 0;
            let result = check(device, &options, &mut |progress| {
                let is_start = progress.phase == CheckPhase::Inodes && progress.done == 0;
                starts += u32::from(is_start);
                ControlFlow::Continue(())
            });
            if let Ok(report) = result {
                assert_eq!(report, all, "{args} {kib} KiB");
                rounds = rounds.max(starts);
            }
        }
        // The scan, and for each round the comparison of bitmaps and the claims.
        assert!(rounds >= 5, "{args}: {rounds}");
    }
}

/// Many inodes refer to the same blocks: each block is read once.
#[test]
fn shared_trees_are_read_once() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = make(dir.path(), "-t ext2 -b 1024 -N 6000");
    let bytes = fs::read(&image).unwrap();
    let healthy = diskfs_block::Counting::new(Arc::new(Memory::new(bytes)));
    let healthy = Arc::new(healthy);
    let options = CheckOptions {
        threads: 1,
        ..CheckOptions::default()
    };
    check(
        healthy.clone(),
        &options,
        &mut |_| ControlFlow::Continue(()),
    )
    .unwrap();
    let copies: Vec<String> = (0..200)
        .map(|n| {
            format!(
                "copy_inode /a/len-300000 /many/{n}{}",
                "-and-more".repeat(n % 20)
            )
        })
        .collect();
    let commands = dir.path().join("commands");
    fs::write(&commands, copies.join("\n")).unwrap();
    crate::common::run(
        "debugfs",
        &[
            "-w",
            "-f",
            commands.to_str().unwrap(),
            image.to_str().unwrap(),
        ],
    );
    let bytes = fs::read(&image).unwrap();
    let shared = Arc::new(diskfs_block::Counting::new(Arc::new(Memory::new(bytes))));
    let report = check(shared.clone(), &options, &mut |_| ControlFlow::Continue(())).unwrap();
    let owners = report.findings.iter();
    let owners = owners.filter(|found| found.kind == diskfs_ext4::FindingKind::MultiplyClaimed);
    assert_eq!(owners.count(), 201);
    // The second scan reads the tables and the trees once more, and link counts read inodes.
    let (before, after) = (healthy.counts().reads, shared.counts().reads);
    assert!(after < before * 4 + 300, "{before} {after}");
}
