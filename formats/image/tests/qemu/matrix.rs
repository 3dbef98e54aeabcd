//! Combinations of features.

use std::path::Path;

use crate::case::{Backing, Case};
use crate::tools::{have_qemu, number, run};
use crate::{compare, tools::converted};

/// Creates an image, and compares our reading with QEMU's.
pub(crate) fn read_and_check(dir: &Path, case: &Case) {
    for snapshot in 0..case.snapshots {
        let name = format!("snap{snapshot}");
        compare::bytes(dir, "disk.qcow2", Some(&name), case.seed);
    }
    let bytes = compare::bytes(dir, "disk.qcow2", None, case.seed);
    compare::map(dir, "disk.qcow2", bytes.as_deref());
    compare::check(dir, "disk.qcow2");
}

fn check(case: Case) {
    let dir = tempfile::tempdir().unwrap();
    let result = std::panic::catch_unwind(|| {
        case.make(dir.path());
        read_and_check(dir.path(), &case);
    });
    if result.is_err() {
        let kept = dir.keep();
        panic!("{case:?} in {}", kept.display());
    }
}

/// Every value of every feature at least once, whatever the random rounds select.
#[test]
fn each_feature() {
    if !have_qemu() {
        return;
    }
    Case::of_each_feature().into_iter().for_each(check);
}

#[test]
fn random_combinations() {
    if !have_qemu() {
        return;
    }
    let rounds = number("DISKFS_QEMU_ROUNDS", 8);
    let seed = number("DISKFS_QEMU_SEED", 1000);
    for seed in seed..seed + rounds {
        check(Case::random(seed));
    }
}

/// Images that `qemu-img convert` writes: packed, with compressed clusters that cross borders and
/// end with the file.
#[test]
fn converted_images() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let case = Case {
        backing: Backing::None,
        ..Case::random(7)
    };
    case.make(dir.path());
    for (size, codec) in [
        ("512", "zlib"),
        ("4096", "zstd"),
        ("65536", "zlib"),
        ("2M", "zstd"),
    ] {
        let options = format!("cluster_size={size},compression_type={codec}");
        // Each image has a name of its own: a child process that another test just forked may hold
        // the lock of the previous one.
        let packed = format!("packed-{size}.qcow2");
        let args = [
            "convert",
            "-q",
            "-c",
            "-O",
            "qcow2",
            "-o",
            &options,
            "disk.qcow2",
            &packed,
        ];
        run(dir.path(), "qemu-img", &args);
        let bytes = compare::bytes(dir.path(), &packed, None, 3);
        compare::map(dir.path(), &packed, bytes.as_deref());
        assert_eq!(bytes, converted(dir.path(), "disk.qcow2", &[]));
    }
}

/// A chain of several images, each with data of its own.
#[test]
fn deep_chain() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "qcow2", "d0.qcow2", "1M"],
    );
    for layer in 1..12_u64 {
        let (below, name) = (format!("d{}.qcow2", layer - 1), format!("d{layer}.qcow2"));
        let size = format!("{}k", 1024 + layer * 64 - 96 * (layer % 3));
        run(
            dir,
            "qemu-img",
            &[
                "create", "-q", "-f", "qcow2", "-b", &below, "-F", "qcow2", &name, &size,
            ],
        );
        let write = format!("write -P {layer} {}k 150k", layer * 70);
        run(dir, "qemu-io", &["-c", &write, &name]);
    }
    let bytes = compare::bytes(dir, "d11.qcow2", None, 5);
    compare::map(dir, "d11.qcow2", bytes.as_deref());
}

#[test]
fn raw_images() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    run(
        dir.path(),
        "qemu-img",
        &["create", "-q", "-f", "raw", "disk.raw", "5M"],
    );
    run(
        dir.path(),
        "qemu-io",
        &[
            "-f",
            "raw",
            "-c",
            "write -P 7 1M 100k",
            "-c",
            "write -P 8 4M 1M",
            "disk.raw",
        ],
    );
    let bytes = compare::bytes(dir.path(), "disk.raw", None, 5);
    compare::map(dir.path(), "disk.raw", bytes.as_deref());
}
