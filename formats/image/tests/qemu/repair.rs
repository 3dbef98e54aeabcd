//! Images that were not closed properly: opening them for writing repairs their refcounts.

use std::path::Path;

use diskfs_image::{OpenOptions, WritableImage};

use crate::case::{Backing, Case};
use crate::model::{Model, Step, is_clean, open};
use crate::tools::{Random, converted, create, have_qemu, try_run};

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn is_dirty(dir: &Path) -> bool {
    std::fs::read(dir.join("disk.qcow2")).unwrap()[79] & 1 == 1
}

/// QEMU is killed while it uses lazy refcounts.
#[test]
fn after_lazy_refcounts() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for size in ["512", "65536"] {
        let options = format!("lazy_refcounts=on,cluster_size={size}");
        create(dir, &options, "4M");
        let commands = ["-c", "write -P 7 100k 1M", "-c", "flush", "-c", "abort"];
        try_run(dir, "qemu-io", &[&commands[..], &["disk.qcow2"]].concat());
        assert!(is_dirty(dir));
        let check = try_run(dir, "qemu-img", &["check", "disk.qcow2"]);
        assert!(!check.status.success());
        let image = open(dir, "disk.qcow2");
        let disk = image.device();
        let mut bytes = vec![0; 1 << 20];
        disk.read_at(100 << 10, &mut bytes).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 7));
        disk.write_at(3 << 20, &bytes).unwrap();
        drop(disk);
        image.close().unwrap();
        assert!(!is_dirty(dir));
        is_clean(dir, "disk.qcow2");
    }
}

/// All refcounts are wrong, and refcount blocks are missing.
#[test]
fn whatever_the_counts_are() {
    if !have_qemu() {
        return;
    }
    let plain = Case::plain();
    let cases = [
        Case {
            cluster_size: 512,
            refcount_bits: 64,
            snapshots: 1,
            ..plain
        },
        Case {
            cluster_size: 512,
            refcount_bits: 16,
            backing: Backing::Raw,
            ..plain
        },
        Case {
            extended_l2: true,
            ..plain
        },
    ];
    for (seed, case) in (1..).zip(cases) {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let case = Case { seed, ..case };
        case.make(dir);
        let made = try_run(dir, "qemu-img", &["check", "disk.qcow2"]);
        assert!(made.status.success());
        let bytes = converted(dir, "disk.qcow2", &[]).unwrap();
        break_counts(dir, &case);
        let image = open(dir, "disk.qcow2");
        let disk = image.device();
        let mut model = Model::new(bytes, true);
        model.compare_all(disk.as_ref());
        let mut r = Random::new(seed);
        for _ in 0..30 {
            let step = Step::random(case.size_bytes(), case.cluster_size, &mut r);
            model.step(step, disk.as_ref());
        }
        drop(disk);
        image.close().unwrap();
        is_clean(dir, "disk.qcow2");
        model.compare(0, &converted(dir, "disk.qcow2", &[]).unwrap());
    }
}

fn break_counts(dir: &Path, case: &Case) {
    let path = dir.join("disk.qcow2");
    let mut bytes = std::fs::read(&path).unwrap();
    let cluster = usize::try_from(case.cluster_size).unwrap();
    let table = usize::try_from(be64(&bytes, 48)).unwrap();
    let mut r = Random::new(case.seed);
    bytes[79] |= 1;
    for entry in (table..table + cluster).step_by(8) {
        let block = usize::try_from(be64(&bytes, entry)).unwrap();
        if block == 0 {
            continue;
        }
        if r.one_in(4) {
            bytes[entry..entry + 8].fill(0);
        } else {
            let fill = r.one_of(&[0, 0, 1, 255]);
            bytes[block..block + cluster].fill(fill);
        }
    }
    std::fs::write(&path, &bytes).unwrap();
}

/// An image that cannot be repaired is refused, and not changed.
#[test]
fn what_is_beyond_repair() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let mut image = crate::hand_made::HandMade::new();
    image.set64(72, 1);
    image.set64(crate::hand_made::L2 + 8, (1 << 63) | (1 << 40));
    image.write(&path);
    let e = WritableImage::open(&path, &OpenOptions::default()).unwrap_err();
    assert_eq!(e.kind(), diskfs_block::ErrorKind::Corrupt);
    assert!(e.to_string().contains("qemu-img check -r all"), "{e}");
    assert_eq!(std::fs::read(&path).unwrap(), image.bytes);
}
