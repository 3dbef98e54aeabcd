//! Copies into an overlay that several threads write to meanwhile.

use std::ops::ControlFlow;
use std::path::Path;
use std::thread;

use diskfs_block::{BlockWrite, ErrorKind};
use diskfs_fixtures::{Random, require, run, seeds};
use diskfs_image::create::{BackingCheck, Compat, L2Entries, NewBacking, NewImage, NewQcow2};
use diskfs_image::{CreateOptions, Format, OpenOptions, WritableImage, create};

const SIZE_BYTES: u64 = 6 << 20;

/// The threads that write; each has its part of the disk.
const WRITERS: u64 = 3;

/// The part of a writer, whose ends are in the middle of clusters.
const PART_BYTES: u64 = SIZE_BYTES / WRITERS - 331;

fn images() -> Vec<NewQcow2> {
    let with_clusters = |cluster_size_bytes| NewQcow2 {
        cluster_size_bytes,
        backing: Some(NewBacking {
            name: "base.raw".into(),
            format: Format::Raw,
            check: BackingCheck::Skip,
        }),
        ..NewQcow2::default()
    };
    vec![
        with_clusters(512),
        with_clusters(65536),
        NewQcow2 {
            compat: Compat::V0_10,
            ..with_clusters(4096)
        },
        NewQcow2 {
            l2_entries: L2Entries::Extended,
            ..with_clusters(32768)
        },
    ]
}

/// Fills the disk with runs of random bytes and of zeroes.
fn random_disk(random: &mut Random) -> Vec<u8> {
    let mut disk = vec![0; usize::try_from(SIZE_BYTES).unwrap()];
    for run in disk.chunks_mut(37_000) {
        if random.below(3) > 0 {
            run.copy_from_slice(&random.bytes(run.len()));
        }
    }
    disk
}

/// Changes a part of the disk, which begins at byte `start`, as often as it takes.
fn scribble(disk: &dyn BlockWrite, part: &mut [u8], start: u64, seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..150 {
        let len = 1 + random.below(20_000);
        let at = random.below(PART_BYTES - len);
        let range = usize::try_from(at).unwrap()..usize::try_from(at + len).unwrap();
        let bytes = &mut part[range];
        match random.below(8) {
            0 => {
                disk.write_zeroes(start + at, len).unwrap();
                bytes.fill(0);
            }
            1 => {
                disk.unmap(start + at, len).unwrap();
                bytes.fill(0);
            }
            2 => disk.flush().unwrap(),
            3 => {
                let mut found = vec![0; bytes.len()];
                disk.read_at(start + at, &mut found).unwrap();
                assert!(found == bytes, "read at {at}");
            }
            _ => {
                bytes.copy_from_slice(&random.bytes(bytes.len()));
                disk.write_at(start + at, bytes).unwrap();
            }
        }
    }
}

fn is_clean(directory: &Path, disk: &[u8]) {
    std::fs::write(directory.join("expected.raw"), disk).unwrap();
    let at = |name: &str| directory.join(name).display().to_string();
    run("qemu-img", ["check", "-q", &at("top.qcow2")]).unwrap();
    let (top, expected) = (at("top.qcow2"), at("expected.raw"));
    run("qemu-img", ["compare", "-q", "-F", "raw", &top, &expected]).unwrap();
}

fn copy_meanwhile(image: NewQcow2, seed: u64) {
    let directory = tempfile::tempdir().unwrap();
    let (top, base) = (
        directory.path().join("top.qcow2"),
        directory.path().join("base.raw"),
    );
    let mut random = Random::new(seed);
    let mut disk = random_disk(&mut random);
    std::fs::write(&base, &disk).unwrap();
    let new = NewImage::Qcow2(Box::new(image));
    create(&top, &CreateOptions::new(new, Some(SIZE_BYTES))).unwrap();

    let image = WritableImage::open(&top, &OpenOptions::default()).unwrap();
    let (copy, device) = (image.background_copy().unwrap(), image.device());
    let is_stopped = random.below(3) == 0;
    thread::scope(|scope| {
        let mut start = 0;
        for part in disk.chunks_mut(usize::try_from(PART_BYTES).unwrap()) {
            let (device, at) = (&device, start);
            start += PART_BYTES;
            if part.len() as u64 == PART_BYTES {
                scope.spawn(move || scribble(device.as_ref(), part, at, seed ^ at));
            }
        }
        let mut done = 0;
        let copied = copy.run(&mut |bytes, total| {
            done += bytes;
            assert!(done <= total, "{done} of {total}");
            if is_stopped {
                copy.stop();
            }
            ControlFlow::Continue(())
        });
        match copied {
            Err(error) if is_stopped => assert_eq!(error.kind(), ErrorKind::Cancelled),
            copied => copied.unwrap(),
        }
    });
    let mut found = vec![0; disk.len()];
    device.read_at(0, &mut found).unwrap();
    assert!(found == disk, "seed {seed}");
    image.close().unwrap();
    // They hold the file, and its lock.
    drop((copy, device));
    if !is_stopped {
        std::fs::remove_file(&base).unwrap();
    }
    is_clean(directory.path(), &disk);
}

#[test]
fn the_guest_sees_nothing_of_a_copy() {
    if require("qemu-img").is_none() {
        return;
    }
    for seed in seeds(0..4) {
        for image in images() {
            copy_meanwhile(image, seed);
        }
    }
}
