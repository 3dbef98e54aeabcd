//! Resizing: random sequences of sizes and writes, compared with a model and checked by QEMU.

use std::path::Path;

use diskfs_block::ErrorKind;
use diskfs_image::create::Preallocation;
use diskfs_image::{Gate, OpenOptions, ResizeOptions, Resized, Shrink, resize};

use crate::case::{Case, DataFile};
use crate::encryption::options;
use crate::model::{Model, Step, is_clean, open, qemu_writes};
use crate::tools::{Random, converted, create, have_qemu, number, run, try_run};

const SHRINK: ResizeOptions = ResizeOptions {
    shrink: Shrink::Allowed,
    preallocation: Preallocation::Off,
};

fn to_size(dir: &Path, size: u64, how: ResizeOptions) -> diskfs_block::Result<Resized> {
    let options = OpenOptions {
        gate: Gate::default().allow(dir),
        ..options()
    };
    resize(&dir.join("disk.qcow2"), size, how, &options)
}

fn virtual_size(dir: &Path, image: &str) -> u64 {
    let text = run(dir, "qemu-img", &["info", "--output=json", image]);
    let info: serde_json::Value = serde_json::from_str(&text).unwrap();
    info["virtual-size"].as_u64().unwrap()
}

/// Returns a size around the current one, the case's own, or one that needs more L2 tables.
fn random_size(case: &Case, now: u64, r: &mut Random) -> u64 {
    let cluster = case.cluster_size;
    let near = r.below(6 * cluster / 512) * 512;
    let size = match r.below(6) {
        0 => now + near,
        1 => now.saturating_sub(near),
        2 => case.size_bytes() + near,
        3 => now + r.below(20) * cluster,
        4 => (now / 2).next_multiple_of(cluster),
        _ => case.size_bytes() * 3 / 2,
    };
    let size = size.clamp(512, 40 << 20);
    size.next_multiple_of(512)
}

fn check_against(dir: &Path, case: &Case, model: &Model) {
    is_clean(dir, "disk.qcow2");
    assert_eq!(virtual_size(dir, "disk.qcow2"), model.bytes.len() as u64);
    let theirs = converted(dir, "disk.qcow2", &[]).expect("qemu-img reads it");
    model.compare(0, &theirs);
    if case.data_file == DataFile::ExternalRaw {
        let raw = std::fs::read(dir.join("data.bin")).unwrap();
        // QEMU writes whole clusters.
        model.compare(0, &raw[..model.bytes.len()]);
    }
}

fn resize_and_check(dir: &Path, case: &Case, rounds: u64) {
    let made = try_run(dir, "qemu-img", &["check", "disk.qcow2"]);
    let Some(bytes) = converted(dir, "disk.qcow2", &[]).filter(|_| made.status.success()) else {
        return;
    };
    let mut model = Model::new(bytes, true);
    let mut r = Random::new(case.seed ^ 0x51);
    if case.version == 2 && case.snapshots > 0 {
        let error = to_size(dir, 1 << 20, SHRINK).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        return;
    }
    for round in 0..rounds {
        let now = model.bytes.len() as u64;
        let size = random_size(case, now, &mut r);
        let preallocation = match r.below(6) {
            0 if size >= now => Preallocation::Metadata,
            1 if size >= now => Preallocation::Full,
            _ => Preallocation::Off,
        };
        let how = ResizeOptions {
            preallocation,
            ..SHRINK
        };
        let done = to_size(dir, size, how).unwrap();
        assert_eq!((done.old_size_bytes, done.new_size_bytes), (now, size));
        model.bytes.resize(usize::try_from(size).unwrap(), 0);
        check_against(dir, case, &model);
        let image = open(dir, "disk.qcow2");
        let disk = image.device();
        for _ in 0..12 {
            let step = Step::random(size, case.cluster_size, &mut r);
            model.step(step, disk.as_ref());
        }
        drop(disk);
        image.close().unwrap();
        qemu_writes(dir, "disk.qcow2", &mut model, &mut r);
        let may_snapshot = case.data_file == DataFile::Inside && case.refcount_bits >= 8;
        if may_snapshot && case.version > 2 && round % 3 == 1 {
            let name = format!("round{round}");
            run(dir, "qemu-img", &["snapshot", "-c", &name, "disk.qcow2"]);
        }
    }
    check_against(dir, case, &model);
}

fn check(case: Case, rounds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let result = std::panic::catch_unwind(|| {
        case.make(dir.path());
        resize_and_check(dir.path(), &case, rounds);
    });
    if result.is_err() {
        let kept = dir.keep();
        panic!("{case:?} in {}", kept.display());
    }
}

#[test]
fn each_feature() {
    if !have_qemu() {
        return;
    }
    for case in Case::of_each_feature() {
        check(case, 5);
    }
    let encrypted = Case {
        encrypted: true,
        ..Case::plain()
    };
    check(encrypted, 4);
}

#[test]
fn random_combinations() {
    if !have_qemu() {
        return;
    }
    let rounds = number("DISKFS_QEMU_ROUNDS", 3);
    let seed = number("DISKFS_QEMU_SEED", 9000);
    for seed in seed..seed + rounds {
        check(Case::random(seed), 8);
    }
}

/// The L1 table needs many clusters, and these need new refcount blocks and a longer refcount
/// table.
#[test]
fn long_l1_tables() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (options, sizes) in [
        ("cluster_size=512", [2 << 20, 40 << 20, 1 << 30, 16 << 30]),
        (
            "cluster_size=512,refcount_bits=64",
            [3 << 20, 500 << 20, 9 << 30, 20 << 30],
        ),
        (
            "cluster_size=4096,refcount_bits=1",
            [1 << 30, 1 << 35, 1 << 40, 1 << 42],
        ),
        ("extended_l2=on", [1 << 30, 1 << 40, 1 << 44, 1 << 46]),
    ] {
        create(dir, options, "1M");
        run(dir, "qemu-io", &["-c", "write -P 7 0 1M", "disk.qcow2"]);
        for size in sizes {
            to_size(dir, size, ResizeOptions::default()).unwrap();
            assert_eq!(virtual_size(dir, "disk.qcow2"), size);
            is_clean(dir, "disk.qcow2");
            let end = format!("write -P 9 {} 64k", size - 65536);
            run(dir, "qemu-io", &["-c", &end, "disk.qcow2"]);
            is_clean(dir, "disk.qcow2");
        }
        to_size(dir, 1 << 20, SHRINK).unwrap();
        is_clean(dir, "disk.qcow2");
        let read = ["-c", "read -P 7 0 1M", "disk.qcow2"];
        assert!(!run(dir, "qemu-io", &read).contains("failed"));
        let e = to_size(dir, 1 << 62, ResizeOptions::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid, "{e}");
    }
}

/// The data of a longer backing file past the old end stays hidden.
#[test]
fn a_longer_backing_file() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("base"), vec![5; 3 << 20]).unwrap();
    for options in ["compat=1.1", "compat=0.10", "extended_l2=on"] {
        create(
            dir,
            &format!("{options},backing_file=base,backing_fmt=raw"),
            "1000k",
        );
        to_size(dir, 2 << 20, ResizeOptions::default()).unwrap();
        to_size(dir, 4 << 20, ResizeOptions::default()).unwrap();
        is_clean(dir, "disk.qcow2");
        let commands = ["-c", "read -P 5 0 1000k", "-c", "read -P 0 1000k 3096k"];
        let out = run(dir, "qemu-io", &[&commands[..], &["disk.qcow2"]].concat());
        assert!(!out.contains("failed"), "{options}: {out}");
    }
}

/// QEMU shows the bytes past the end again when it grows a disk that was shrunk.
#[test]
fn a_shrunk_disk_has_no_rest() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    create(dir, "compat=1.1", "1M");
    run(dir, "qemu-io", &["-c", "write -P 1 0 1M", "disk.qcow2"]);
    let refused = to_size(dir, 1000 << 10, ResizeOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("shrink"), "{refused}");
    to_size(dir, 1000 << 10, SHRINK).unwrap();
    run(dir, "qemu-img", &["resize", "-q", "disk.qcow2", "1M"]);
    let commands = ["-c", "read -P 1 0 1000k", "-c", "read -P 0 1000k 24k"];
    let out = run(dir, "qemu-io", &[&commands[..], &["disk.qcow2"]].concat());
    assert!(!out.contains("failed"), "{out}");
    // The space is returned to the host.
    run(dir, "qemu-img", &["resize", "-q", "disk.qcow2", "64M"]);
    run(dir, "qemu-io", &["-c", "write -P 1 0 64M", "disk.qcow2"]);
    to_size(dir, 1 << 20, SHRINK).unwrap();
    is_clean(dir, "disk.qcow2");
    let len = std::fs::metadata(dir.join("disk.qcow2")).unwrap().len();
    assert!(len < 3 << 20, "{len}");
}

#[test]
fn bitmaps() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    create(dir, "compat=1.1", "1M");
    run(dir, "qemu-img", &["bitmap", "--add", "disk.qcow2", "b"]);
    to_size(dir, 20 << 20, ResizeOptions::default()).unwrap();
    is_clean(dir, "disk.qcow2");
    let info = run(dir, "qemu-img", &["info", "disk.qcow2"]);
    assert!(
        info.contains("name: b") && !info.contains("in-use"),
        "{info}"
    );
    // QEMU can use it.
    run(dir, "qemu-io", &["-c", "write 19M 64k", "disk.qcow2"]);
    is_clean(dir, "disk.qcow2");
    for (size, how) in [(1 << 50, ResizeOptions::default()), (1 << 20, SHRINK)] {
        let e = to_size(dir, size, how).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
        assert!(e.to_string().contains("bitmap `b`"), "{e}");
    }
}

#[test]
fn raw_images() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.raw");
    std::fs::write(&path, vec![3; 5000]).unwrap();
    let options = OpenOptions::default();
    let done = resize(&path, 10_000, ResizeOptions::default(), &options).unwrap();
    assert_eq!((done.old_size_bytes, done.new_size_bytes), (5000, 10_240));
    let full = ResizeOptions {
        preallocation: Preallocation::Full,
        ..ResizeOptions::default()
    };
    resize(&path, 3 << 20, full, &options).unwrap();
    let mut expected = vec![3; 5000];
    expected.resize(3 << 20, 0);
    assert!(std::fs::read(&path).unwrap() == expected);
    assert!(resize(&path, 4096, ResizeOptions::default(), &options).is_err());
    resize(&path, 4096, SHRINK, &options).unwrap();
    assert!(std::fs::read(&path).unwrap() == expected[..4096]);
    let metadata = ResizeOptions {
        preallocation: Preallocation::Metadata,
        ..ResizeOptions::default()
    };
    assert!(resize(&path, 8192, metadata, &options).is_err());
}

/// An image whose device is in use keeps its size.
#[test]
fn an_image_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.raw");
    std::fs::write(&path, [0; 4096]).unwrap();
    let image = diskfs_image::WritableImage::open(&path, &OpenOptions::default()).unwrap();
    let device = image.device();
    let e = image.resize(8192, ResizeOptions::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Invalid, "{e}");
    assert_eq!(device.size_bytes(), 4096);
}
