//! Machines that are reused.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs::vfs::{FsRead, NewAttributes, NewKind};
use diskfs::vm::{BackendChoice, BackendKind, MicroVm, VmOptions};
use diskfs::{Disk, WriteOptions};
use diskfs_fixtures::{Workshop, run, run_with_input, skip};
use rustix::process::{Pid, Signal, kill_process};

use super::endings::{machines, own_appliance};
use super::{appliance, check, micro_vm, require_all};

const UUID: &str = "2a1c3c5e-0c57-4d0f-9a3b-6f2b7c1d8e90";
const XFS_UUID: &str = "uuid=2a1c3c5e-0c57-4d0f-9a3b-6f2b7c1d8e90";
const MIB: u64 = 1 << 20;

/// A partition: its location, size, and contents.
struct Part {
    start_mib: u64,
    size_mib: u64,
    contents: &'static [u8],
}

const PARTS: [Part; 2] = [
    Part {
        start_mib: 1,
        size_mib: 320,
        contents: b"the first one's",
    },
    Part {
        start_mib: 400,
        size_mib: 380,
        contents: b"what the second one has",
    },
];

/// Makes a disk with two filesystems that have the same UUID and the same names with different
/// contents.
fn twins(shop: &Workshop, kind: &str) -> PathBuf {
    let image = shop.sparse_file("twins.img", 800 * MIB).unwrap();
    let lines =
        PARTS.map(|part| format!("start={}MiB, size={}MiB\n", part.start_mib, part.size_mib));
    let table = format!("label: gpt\n{}", lines.concat());
    run_with_input("sfdisk", [Path::new("-q"), &image], &table).unwrap();
    for (index, part) in PARTS.iter().enumerate() {
        let alone = shop.path(&format!("part-{index}"));
        fs::File::create(&alone)
            .unwrap()
            .set_len(part.size_mib * MIB)
            .unwrap();
        let words = match kind {
            "xfs" => vec!["-q", "-m", XFS_UUID],
            _ => vec!["-q", "-U", UUID],
        };
        let words = words.into_iter().map(Path::new).chain([alone.as_path()]);
        run(format!("mkfs.{kind}"), words).unwrap();
        copy_into(&alone, &image, part.start_mib * MIB);
    }
    image
}

/// Copies all bytes that are not zero.
pub(super) fn copy_into(from: &Path, image: &Path, offset: u64) {
    let mut from = fs::File::open(from).unwrap();
    let mut image = fs::File::options().write(true).open(image).unwrap();
    let mut block = vec![0; 1 << 20];
    let mut at = offset;
    loop {
        let len = from.read(&mut block).unwrap();
        let block = &block[..len];
        if block.is_empty() {
            return;
        }
        if block.iter().any(|&byte| byte != 0) {
            image.seek(SeekFrom::Start(at)).unwrap();
            image.write_all(block).unwrap();
        }
        at += u64::try_from(len).unwrap();
    }
}

fn write_file(disk: &Disk, volume: &str, contents: &[u8]) {
    let volume = disk.volume(volume).unwrap();
    let filesystem = volume
        .writable_filesystem(&WriteOptions::default())
        .unwrap();
    let fs = filesystem.as_fs();
    let attributes = NewAttributes::for_root(0o644);
    let file = fs
        .create(fs.root(), b"file", NewKind::Regular, &attributes)
        .unwrap();
    fs.write_at(file, 0, contents).unwrap();
    filesystem.close().unwrap();
}

fn read_file(fs: &dyn FsRead) -> Vec<u8> {
    let file = fs.lookup(fs.root(), b"file").unwrap();
    let mut contents = vec![0; 100];
    let len = fs.read_at(file, 0, &mut contents).unwrap();
    contents.truncate(len);
    contents
}

/// Opens both filesystems through one machine: the second one must show nothing of the first.
fn twins_through_one_machine(kind: &str, checker: (&str, &[&str])) {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&[&format!("mkfs.{kind}"), checker.0, "sfdisk"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let (image, own) = (twins(&shop, kind), own_appliance(&shop, &appliance));
    let disk = Disk::options()
        .read_only(false)
        .fallback(Arc::new(micro_vm(&own)))
        .always_fallback()
        .open(&image)
        .unwrap();
    write_file(&disk, "p1", PARTS[0].contents);
    let first = machines(&own);
    assert!(!first.is_empty());
    write_file(&disk, "p2", PARTS[1].contents);
    for (name, part) in ["p1", "p2", "p1"]
        .into_iter()
        .zip([&PARTS[0], &PARTS[1], &PARTS[0]])
    {
        let volume = disk.volume(name).unwrap();
        let filesystem = volume
            .writable_filesystem(&WriteOptions::default())
            .unwrap();
        assert_eq!(read_file(filesystem.as_fs()), part.contents, "{name}");
        filesystem.close().unwrap();
    }
    assert_eq!(machines(&own), first, "one machine did it all");
    disk.close().unwrap();
    all_end(&own);
    for (index, part) in PARTS.iter().enumerate() {
        let alone = shop.path(&format!("after-{index}"));
        let words = [
            format!("if={}", image.display()),
            format!("of={}", alone.display()),
            format!("skip={}", part.start_mib),
            format!("count={}", part.size_mib),
            "bs=1M".to_owned(),
            "conv=sparse".to_owned(),
            "status=none".to_owned(),
        ];
        run("dd", words).unwrap();
        check(checker.0, checker.1, &alone);
    }
}

/// Waits until all machines have exited, which they do shortly after the request.
pub(super) fn all_end(appliance: &Path) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !machines(appliance).is_empty() {
        assert!(Instant::now() < deadline, "a machine is left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn twins_of_xfs() {
    twins_through_one_machine("xfs", ("xfs_repair", &["-n"]));
}

#[test]
fn twins_of_btrfs() {
    twins_through_one_machine("btrfs", ("btrfs", &["check"]));
}

fn xfs(shop: &Workshop, name: &str) -> PathBuf {
    let image = shop.sparse_file(name, 320 * MIB).unwrap();
    run("mkfs.xfs", [Path::new("-q"), &image]).unwrap();
    image
}

fn open_with(vm: &MicroVm, image: &Path) -> Disk {
    Disk::options()
        .read_only(false)
        .fallback(Arc::new(vm.clone()))
        .always_fallback()
        .open(image)
        .unwrap()
}

/// Opens and closes the disk's filesystem, and returns the machines that are running then.
fn use_it(disk: &Disk, appliance: &Path) -> Vec<Pid> {
    let filesystem = disk.writable_filesystem(&WriteOptions::default()).unwrap();
    filesystem.close().unwrap();
    drop(filesystem);
    machines(appliance)
}

#[test]
fn a_disk_that_was_looked_into_is_written_by_the_same_machine() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let (image, own) = (xfs(&shop, "xfs.img"), own_appliance(&shop, &appliance));
    let disk = open_with(&micro_vm(&own), &image);
    let read = disk.filesystem().unwrap();
    let first = machines(&own);
    drop(read);
    assert_eq!(use_it(&disk, &own), first);
}

#[test]
fn another_disk_never_gets_a_machine_that_has_mounted_something() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let own = own_appliance(&shop, &appliance);
    let vm = micro_vm(&own);
    let one = open_with(&vm, &xfs(&shop, "one.img"));
    let other = open_with(&vm, &xfs(&shop, "other.img"));
    let first = use_it(&one, &own);
    let both = use_it(&other, &own);
    assert!(both.len() > first.len(), "{first:?} {both:?}");
    assert_eq!(use_it(&one, &own), both, "each has its own");
    drop((one, other, vm));
    all_end(&own);
}

#[test]
fn a_machine_that_died_waiting_is_replaced() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let (image, own) = (xfs(&shop, "xfs.img"), own_appliance(&shop, &appliance));
    let disk = open_with(&micro_vm(&own), &image);
    for machine in use_it(&disk, &own) {
        let _ = kill_process(machine, Signal::KILL); // Some processes belong to another machine.
    }
    all_end(&own);
    assert!(!use_it(&disk, &own).is_empty());
}

#[test]
fn emulated_machines_hear_of_another_disk_too() {
    let Some(appliance) = appliance() else { return };
    if !appliance.join("qemu/vmlinux").is_file() {
        skip("missing kernel for QEMU; build it with packaging/appliance/build");
        return;
    }
    let Some(()) = require_all(&["mkfs.xfs", "sfdisk", "qemu-system-x86_64"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = twins(&shop, "xfs");
    let disk = Disk::options()
        .read_only(false)
        .fallback(Arc::new(MicroVm::new(VmOptions {
            choice: BackendChoice::Only(BackendKind::QemuTcg),
            appliance: Some(appliance),
            ..VmOptions::default()
        })))
        .always_fallback()
        .open(&image)
        .unwrap();
    let began = Instant::now();
    write_file(&disk, "p1", PARTS[0].contents);
    let with_boot = began.elapsed();
    let began = Instant::now();
    write_file(&disk, "p2", PARTS[1].contents);
    assert!(
        began.elapsed() < with_boot / 2,
        "{with_boot:?} {:?}",
        began.elapsed()
    );
}
