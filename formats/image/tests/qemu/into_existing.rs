//! Copies into images that exist and have contents: every byte of the source is written, zeroes
//! too. QEMU compares and checks the result.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use diskfs_image::convert::{ConvertOptions, convert_into};
use diskfs_image::{Image, WritableImage};

use crate::case::{Backing, Case};
use crate::encryption::options;
use crate::model::{is_clean, open};
use crate::tools::{Random, converted, have_qemu, number, run, try_run};

/// Copies the disk of `source/disk.qcow2` into an image.
fn copy_into(
    source: &Path,
    target: &Path,
    is_zeroed: bool,
    sparse_bytes: Option<u64>,
    threads: usize,
) {
    let copy = ConvertOptions {
        sparse_bytes,
        threads: NonZeroUsize::new(threads),
        ..ConvertOptions::default()
    };
    let image = Image::open(&source.join("disk.qcow2"), &options()).unwrap();
    let name = target.file_name().unwrap().to_str().unwrap();
    let to = if target.extension().is_some_and(|it| it == "raw") {
        WritableImage::open(target, &options()).unwrap()
    } else {
        open(target.parent().unwrap(), name)
    };
    let mut go_on = |_| ControlFlow::Continue(());
    let from = image.device();
    convert_into(
        from.as_ref(),
        to.device().as_ref(),
        is_zeroed,
        &copy,
        &mut go_on,
    )
    .unwrap();
    to.close().unwrap();
}

/// Compares an image with the expected bytes by `qemu-img compare`.
fn has_bytes(dir: &Path, image: &str, expected: &[u8]) {
    fs::write(dir.join("expected"), expected).unwrap();
    let words = ["compare", "-f", "raw", "expected", image];
    let compared = try_run(dir, "qemu-img", &words);
    let said = String::from_utf8_lossy(&compared.stdout);
    assert!(compared.status.success(), "{said}");
    assert_eq!(said, "Images are identical.\n");
}

/// Copies a random image over another one: whatever that has is replaced, up to the source's end.
fn check(source: Case, target: Case) {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
    let result = std::panic::catch_unwind(|| {
        fs::create_dir(&from).unwrap();
        fs::create_dir(&to).unwrap();
        source.make(&from);
        target.make(&to);
        // QEMU itself breaks some images with snapshots and compressed writes.
        let made = try_run(&to, "qemu-img", &["check", "disk.qcow2"]);
        let bytes = [&from, &to].map(|dir| converted(dir, "disk.qcow2", &[]));
        let ([Some(new), Some(mut expected)], true) = (bytes, made.status.success()) else {
            return;
        };
        if new.len() > expected.len() {
            return;
        }
        let mut r = Random::new(source.seed ^ target.seed.rotate_left(20));
        let sparse = r.one_of(&[Some(4096), Some(4096), Some(512), Some(65536), None]);
        let threads = r.one_of(&[1, 2, 4]);
        copy_into(&from, &to.join("disk.qcow2"), false, sparse, threads);
        expected[..new.len()].copy_from_slice(&new);
        has_bytes(&to, "disk.qcow2", &expected);
        is_clean(&to, "disk.qcow2");

        let size = new.len().to_string();
        let words = ["create", "-q", "-f", "qcow2", "zeroed.qcow2", &size];
        run(&to, "qemu-img", &words);
        copy_into(&from, &to.join("zeroed.qcow2"), true, sparse, threads);
        has_bytes(&to, "zeroed.qcow2", &new);
        is_clean(&to, "zeroed.qcow2");
    });
    if result.is_err() {
        let kept = dir.keep();
        panic!("{source:?} into {target:?} in {}", kept.display());
    }
}

#[test]
fn each_feature_as_a_target() {
    if !have_qemu() {
        return;
    }
    for target in Case::of_each_feature() {
        let source = Case {
            cluster_size: target.cluster_size,
            backing: Backing::Qcow2,
            seed: target.seed + 100,
            ..Case::plain()
        };
        check(source, target);
    }
}

#[test]
fn random_images() {
    if !have_qemu() {
        return;
    }
    let rounds = number("DISKFS_QEMU_ROUNDS", 6);
    let seed = number("DISKFS_QEMU_SEED", 9000);
    for seed in seed..seed + rounds {
        let target = Case {
            // QEMU itself breaks some images with snapshots and compressed writes.
            snapshots: 0,
            ..Case::random(seed)
        };
        let mut source = Case {
            cluster_size: target.cluster_size,
            snapshots: 0,
            ..Case::random(seed ^ 0x5555)
        };
        source.repair();
        check(source, target);
    }
}

/// The space of what becomes zeroes is freed, as by qemu-img.
#[test]
fn zeroes_free_the_space_of_an_image() {
    if !have_qemu() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "qcow2", "disk.qcow2", "16M"],
    );
    run(dir, "qemu-io", &["-c", "write -P 1 1M 64k", "disk.qcow2"]);
    for (name, format) in [("to.qcow2", "qcow2"), ("to.raw", "raw")] {
        let space = |name: &str| dir.join(name).metadata().unwrap().blocks() * 512;
        let fill = || {
            run(
                dir,
                "qemu-img",
                &["create", "-q", "-f", format, name, "16M"],
            );
            run(
                dir,
                "qemu-io",
                &["-f", format, "-c", "write -P 9 0 16M", name],
            );
            assert!(space(name) >= 16 << 20);
        };
        fill();
        copy_into(dir, &dir.join(name), false, Some(4096), 2);
        let ours = space(name);
        fill();
        let words = ["convert", "-n", "-O", format, "disk.qcow2", name];
        run(dir, "qemu-img", &words);
        assert!(ours <= space(name).max(512 << 10), "{name}: {ours}");
    }
}
