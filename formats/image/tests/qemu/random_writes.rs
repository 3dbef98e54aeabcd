//! Random writes to images of every kind, compared with a model; QEMU reads and checks the result.

use std::path::Path;

use diskfs_image::Image;

use crate::case::{Case, DataFile};
use crate::encryption::options;
use crate::model::{Model, Step, is_clean, open, qemu_writes};
use crate::tools::{Random, converted, have_qemu, number, try_run};

fn snapshots_of(dir: &Path, case: &Case) -> Vec<Option<Vec<u8>>> {
    (0..case.snapshots)
        .map(|snapshot| {
            let name = format!("snapshot.name=snap{snapshot}");
            converted(dir, "disk.qcow2", &["-l", &name])
        })
        .collect()
}

/// Writes to a new image, alternately with QEMU.
pub(crate) fn write_and_check(dir: &Path, case: &Case, steps: u64) {
    // QEMU itself breaks some images with snapshots and compressed writes.
    let made = try_run(dir, "qemu-img", &["check", "disk.qcow2"]);
    let Some(bytes) = converted(dir, "disk.qcow2", &[]).filter(|_| made.status.success()) else {
        return;
    };
    let snapshots = snapshots_of(dir, case);
    let mut model = Model::new(bytes, true);
    let mut r = Random::new(case.seed ^ 0x77);
    for round in 0..2 {
        let image = open(dir, "disk.qcow2");
        let disk = image.device();
        for _ in 0..steps {
            let step = Step::random(case.size_bytes(), case.cluster_size, &mut r);
            model.step(step, disk.as_ref());
        }
        model.compare_all(disk.as_ref());
        drop(disk);
        if round == 0 {
            drop(image);
        } else {
            image.close().unwrap();
        }
        is_clean(dir, "disk.qcow2");
        let theirs = converted(dir, "disk.qcow2", &[]).expect("qemu-img reads it");
        model.compare(0, &theirs);
        assert_eq!(snapshots_of(dir, case), snapshots, "snapshots");
        if case.data_file == DataFile::ExternalRaw {
            model.compare(
                0,
                &std::fs::read(dir.join("data.bin")).unwrap()[..model.bytes.len()],
            );
        }
        let ours = Image::open(&dir.join("disk.qcow2"), &options()).unwrap();
        assert!(ours.check().unwrap().unwrap().is_clean());
        drop(ours);
        qemu_writes(dir, "disk.qcow2", &mut model, &mut r);
    }
}

fn check(case: Case, steps: u64) {
    let dir = tempfile::tempdir().unwrap();
    let result = std::panic::catch_unwind(|| {
        case.make(dir.path());
        write_and_check(dir.path(), &case, steps);
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
    for case in Case::of_each_feature() {
        check(case, 40);
    }
}

#[test]
fn random_combinations() {
    if !have_qemu() {
        return;
    }
    let rounds = number("DISKFS_QEMU_ROUNDS", 5);
    let seed = number("DISKFS_QEMU_SEED", 5000);
    for seed in seed..seed + rounds {
        check(Case::random(seed), 80);
    }
}
