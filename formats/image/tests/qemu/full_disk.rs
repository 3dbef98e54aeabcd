//! A full disk of the host, or one that fails: the result is an error and a consistent image.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockWrite, ErrorKind, Fault, Faulty, Memory};
use diskfs_image::create::Preallocation;
use diskfs_image::{Format, Image, OpenOptions, ResizeOptions, WritableImage, resize};

use crate::case::Case;
use crate::model::{Model, Step, content, is_clean, open};
use crate::tools::{Random, converted, create, have_qemu, run, try_run};

/// A tmpfs of 4 MiB, which is unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let args = ["-t", "tmpfs", "-o", "size=4m", "tmpfs", "."];
        let mounted = try_run(dir.path(), "mount", &args);
        mounted.status.success().then_some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let ended = diskfs_fixtures::unmount(self.path());
        assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn a_full_disk() {
    if !have_qemu() {
        return;
    }
    let Some(disk) = SmallDisk::mount() else {
        println!("SKIP: a_full_disk: no right to mount");
        return;
    };
    let dir = disk.path();
    for cluster in ["512", "65536", "256k"] {
        let options = format!("cluster_size={cluster}");
        create(dir, &options, "16M");
        let image = open(dir, "disk.qcow2");
        let device = image.device();
        let mut model = Model::new(vec![0; 16 << 20], true);
        let mut r = Random::new(3);
        let mut refused = 0;
        while refused < 20 {
            let at = r.below(160) * 100_000;
            let bytes = content(100_000, r.next());
            match device.write_at(at, &bytes) {
                Ok(()) => {
                    let start = usize::try_from(at).unwrap();
                    model.bytes[start..start + bytes.len()].copy_from_slice(&bytes);
                }
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
                    refused += 1;
                    // Any part of it may be written.
                    let start = usize::try_from(at).unwrap();
                    let there = &mut model.bytes[start..start + bytes.len()];
                    device.read_at(at, there).unwrap();
                }
            }
        }
        model.compare_all(device.as_ref());
        // A discard makes space available again.
        device.flush().unwrap();
        device.discard(0, 16 << 20).unwrap();
        model.bytes.fill(0);
        device.flush().unwrap();
        model.step(
            Step::Write {
                at: 1 << 20,
                len: 1 << 20,
                seed: 5,
            },
            device.as_ref(),
        );
        drop(device);
        image.close().unwrap();
        is_clean(dir, "disk.qcow2");
        let path = dir.join("disk.qcow2");
        let mut bytes = vec![0; model.bytes.len()];
        let opened = Image::open(&path, &OpenOptions::default()).unwrap();
        opened.device().read_at(0, &mut bytes).unwrap();
        model.compare(0, &bytes);
        drop(opened);
        std::fs::remove_file(path).unwrap();
    }
}

/// Each write or flush below fails once: earlier data is kept, and a retry succeeds.
#[test]
fn a_disk_that_fails_once() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let case = Case {
        cluster_size: 512,
        snapshots: 1,
        seed: 4,
        ..Case::plain()
    };
    case.make(dir.path());
    let bytes = std::fs::read(dir.path().join("disk.qcow2")).unwrap();
    let before = converted(dir.path(), "disk.qcow2", &[]).unwrap();
    for nth in (0..120).step_by(9) {
        for fault in [
            Fault::FailWrite { nth },
            Fault::TornWrite {
                nth,
                keep_bytes: 700,
            },
            Fault::FailFlush { nth: nth / 8 },
        ] {
            let memory = Arc::new(Memory::new(bytes.as_slice()));
            let device = Arc::new(Faulty::new(memory.clone(), [fault]));
            write_through(device, before.clone(), nth);
            let options = OpenOptions {
                format: Some(Format::Qcow2),
                ..OpenOptions::default()
            };
            let report = Image::from_device(memory, &options).unwrap().check();
            let report = report.unwrap().unwrap();
            assert_eq!(report.corruptions, 0, "{fault:?}: {report:?}");
        }
    }
}

fn write_through(device: Arc<dyn BlockWrite>, before: Vec<u8>, seed: u64) {
    let options = OpenOptions {
        format: Some(Format::Qcow2),
        ..OpenOptions::default()
    };
    let image = WritableImage::from_device(device, &options).unwrap();
    let disk = image.device();
    let mut model = Model::new(before, true);
    let mut r = Random::new(seed);
    for _ in 0..12 {
        let at = r.below(700) * 512 + r.below(512);
        let bytes = content(1 + r.below(6000), r.next());
        // Retry what failed, as a guest does.
        if disk.write_at(at, &bytes).is_err() {
            disk.write_at(at, &bytes).unwrap();
        }
        let start = usize::try_from(at).unwrap();
        model.bytes[start..start + bytes.len()].copy_from_slice(&bytes);
        if r.one_in(4) && disk.flush().is_err() {
            disk.flush().unwrap();
        }
    }
    model.compare_all(disk.as_ref());
    if image.flush().is_err() {
        image.flush().unwrap();
    }
    drop(disk);
    let _ = image.close();
}

/// A disk that cannot grow keeps its size and its bytes, and gives back the space.
#[test]
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn a_resize_on_a_full_disk() {
    if !have_qemu() {
        return;
    }
    let Some(disk) = SmallDisk::mount() else {
        println!("SKIP: a_resize_on_a_full_disk: no right to mount");
        return;
    };
    let dir = disk.path();
    for cluster in ["512", "65536"] {
        let options = format!("cluster_size={cluster}");
        create(dir, &options, "1M");
        run(dir, "qemu-io", &["-c", "write -P 7 0 1M", "disk.qcow2"]);
        let used = || std::fs::metadata(dir.join("disk.qcow2")).unwrap().blocks() * 512;
        let how = ResizeOptions {
            preallocation: Preallocation::Full,
            ..ResizeOptions::default()
        };
        let e = resize(
            &dir.join("disk.qcow2"),
            16 << 20,
            how,
            &OpenOptions::default(),
        )
        .unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
        is_clean(dir, "disk.qcow2");
        let bytes = bytes_of(dir);
        assert!(bytes.len() == 1 << 20 && bytes.iter().all(|&byte| byte == 7));
        assert!(used() < 2 << 20, "{}", used());
        std::fs::remove_file(dir.join("disk.qcow2")).unwrap();
    }
}

fn bytes_of(dir: &Path) -> Vec<u8> {
    let image = open(dir, "disk.qcow2");
    let disk = image.device();
    let mut bytes = vec![0; usize::try_from(disk.size_bytes()).unwrap()];
    disk.read_at(0, &mut bytes).unwrap();
    bytes
}
