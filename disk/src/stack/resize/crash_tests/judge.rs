//! The judges: other programs that check a disk, and its file.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::Memory;
use diskfs_fixtures::{Lvm, Part};
use diskfs_image::Format;

use super::super::super::Disk;
use super::super::{ResizeLayer, ResizeReport, ResizeStep};
use super::case::{Case, Change, Table, contents, copy_out};

/// Judges a disk after the request was completed: image, table, volume group, filesystem and file.
pub(super) fn judge(case: &Case, bytes: &[u8], with_lvm: bool, what: &str) {
    let directory =
        tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap());
    let directory = directory.path();
    let image = directory.join("image");
    std::fs::write(&image, bytes).unwrap();
    if case.format == Format::Qcow2 {
        let words = ["check", "-q", "-f", "qcow2"];
        // 3: leaked clusters, which a crash may leave.
        run("qemu-img", &words, &image, &[0, 3], what);
    }
    let disk = case.reading().open(&image).unwrap();
    let size_bytes = disk.device().size_bytes();
    match case.change {
        Change::ShrinkToMinimum => assert!(size_bytes < case.new_bytes(), "{what}: {size_bytes}"),
        Change::Grow | Change::Shrink => assert_eq!(size_bytes, case.new_bytes(), "{what}"),
    }
    assert_eq!(disk.warnings(), [""; 0], "{what}");
    let raw = directory.join("raw");
    copy_out(&*disk.device(), &raw);
    if case.table == Table::Gpt {
        let said = run("sgdisk", &["-v"], &raw, &[0], what);
        assert!(said.contains("No problems found"), "{what}: {said}");
    }
    judge_filesystem(case, &disk, directory, what);
    if case.has_lvm() && with_lvm && diskfs_fixtures::require_root().is_some() {
        judge_group(case, &disk, &directory.join("pv"), what);
    }
}

fn judge_filesystem(case: &Case, disk: &Disk, directory: &Path, what: &str) {
    let volume = disk.volume(case.volume()).unwrap();
    let part = directory.join("part");
    copy_out(&*volume.device().unwrap(), &part);
    match case.kind {
        "ext4" => {
            let said = run("e2fsck", &["-fn"], &part, &[0], what);
            let words = ["ixed", "ix?", "rror", "rong", "nvalid", "orrupt"];
            assert!(
                !words.iter().any(|word| said.contains(word)),
                "{what}: {said}"
            );
        }
        "vfat" => drop(run("fsck.fat", &["-n"], &part, &[0], what)),
        "exfat" => drop(run("fsck.exfat", &["-n"], &part, &[0], what)),
        _ => {}
    }
    read_file(case, disk, what);
}

/// Judges the report of a request that found nothing to do. The smallest size is an estimate, which
/// can be smaller the second time.
pub(super) fn judge_report(case: &Case, report: &ResizeReport, what: &str) {
    if case.change == Change::ShrinkToMinimum {
        return;
    }
    assert!(!report.is_changed(), "{what}: {report:?}");
    let is_filesystem = |step: &&ResizeStep| step.layer == ResizeLayer::Filesystem;
    let step = report.steps.iter().find(is_filesystem).unwrap();
    // The tables, and groups of which too little would be left for data, are less than 5 MiB.
    let least = case.new_bytes() - case.overhead_bytes() - (5 << 20);
    let expected = least..=report.size_bytes;
    assert!(expected.contains(&step.new_bytes), "{what}: {report:?}");
}

fn judge_group(case: &Case, disk: &Disk, path: &Path, what: &str) {
    let member = disk.volume(&case.member()).unwrap();
    copy_out(&*member.device().unwrap(), path);
    let lvm = Lvm::new(&[Part {
        image: path,
        start_bytes: 0,
        len_bytes: None,
    }])
    .unwrap();
    for command in ["vgck vg0", "pvck @0"] {
        lvm.run(command).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
}

fn read_file(case: &Case, disk: &Disk, what: &str) {
    if case.has_files() {
        let volume = disk.volume(case.volume()).unwrap();
        let fs = volume
            .filesystem()
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let read = fs.read("/file").unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(read == contents(), "{what}: other contents");
    }
}

/// Judges a disk after a crash: an ext4 is readable all the time.
pub(super) fn judge_left(case: &Case, bytes: &[u8], what: &str) {
    if case.kind != "ext4" {
        return;
    }
    let memory = Arc::new(Memory::new(bytes));
    let disk = case.reading().open_device("disk", memory);
    let disk = disk.unwrap_or_else(|e| panic!("{what}: {e}"));
    read_file(case, &disk, what);
}

fn run(program: &str, words: &[&str], path: &Path, codes: &[i32], what: &str) -> String {
    let mut command = diskfs_fixtures::command(program);
    let output = command.args(words).arg(path).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let code = output.status.code();
    assert!(
        code.is_some_and(|code| codes.contains(&code)),
        "{what}: {program}: {code:?}\n{said}"
    );
    said
}
