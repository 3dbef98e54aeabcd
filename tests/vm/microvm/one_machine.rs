//! Several filesystems of a disk in one machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use diskfs::vfs::{FsRead, FsWrite, NewAttributes, NewKind};
use diskfs::vm::{BackendChoice, BackendKind, MicroVm, VmOptions};
use diskfs::{Disk, WritableFilesystem, WriteOptions};
use diskfs_fixtures::{Workshop, run, run_with_input, skip};
use rustix::process::{Signal, kill_process};

use super::endings::{machines, own_appliance};
use super::pool::{all_end, copy_into};
use super::{appliance, check, micro_vm, require_all};

const MIB: u64 = 1 << 20;

/// The size of each partition: the smallest for XFS.
const PART_MIB: u64 = 320;

/// The kinds of the partitions, and the commands that make and check them.
const KINDS: [(&str, &[&str], &[&str]); 3] = [
    ("ext4", &["mkfs.ext4", "-qF"], &["e2fsck", "-fn"]),
    ("xfs", &["mkfs.xfs", "-q"], &["xfs_repair", "-n"]),
    ("btrfs", &["mkfs.btrfs", "-q"], &["btrfs", "check"]),
];

/// Returns the offset of a partition, by its index from 0.
fn offset_mib(index: usize) -> u64 {
    offset_of(index, PART_MIB)
}

fn offset_of(index: usize, part_mib: u64) -> u64 {
    1 + u64::try_from(index).unwrap() * (part_mib + 1)
}

/// Makes a disk with one partition of this size for each of these commands.
fn disk_of(shop: &Workshop, makers: &[&[&str]], part_mib: u64) -> PathBuf {
    let size = (offset_of(makers.len(), part_mib) + 1) * MIB;
    let image = shop.sparse_file("disk.img", size).unwrap();
    let lines = (0..makers.len()).map(|index| {
        let start = offset_of(index, part_mib);
        format!("start={start}MiB, size={part_mib}MiB\n")
    });
    let table = format!("label: gpt\n{}", lines.collect::<String>());
    run_with_input("sfdisk", [Path::new("-q"), &image], &table).unwrap();
    for (index, words) in makers.iter().enumerate() {
        let alone = shop.path(&format!("part-{index}"));
        let file = fs::File::create(&alone).unwrap();
        file.set_len(part_mib * MIB).unwrap();
        let options = words[1..].iter().map(Path::new);
        run(words[0], options.chain([alone.as_path()])).unwrap();
        copy_into(&alone, &image, offset_of(index, part_mib) * MIB);
    }
    image
}

/// Makes a disk with the three kinds.
fn three_kinds(shop: &Workshop) -> Option<PathBuf> {
    let programs = KINDS
        .iter()
        .flat_map(|(_, make, check)| [make[0], check[0]]);
    let programs: Vec<_> = programs.chain(["sfdisk"]).collect();
    require_all(&programs)?;
    let makers = KINDS.map(|(_, make, _)| make);
    Some(disk_of(shop, &makers, PART_MIB))
}

/// Checks a partition with its own program.
fn check_part(shop: &Workshop, image: &Path, index: usize) {
    let alone = shop.path(&format!("after-{index}"));
    let words = [
        format!("if={}", image.display()),
        format!("of={}", alone.display()),
        format!("skip={}", offset_mib(index)),
        format!("count={PART_MIB}"),
        "bs=1M".to_owned(),
        "conv=sparse".to_owned(),
        "status=none".to_owned(),
    ];
    run("dd", words).unwrap();
    let checker = KINDS[index].2;
    check(checker[0], &checker[1..], &alone);
}

fn open(vm: &MicroVm, image: &Path) -> Disk {
    Disk::options()
        .read_only(false)
        .fallback(Arc::new(vm.clone()))
        .always_fallback()
        .open(image)
        .unwrap()
}

fn writable(disk: &Disk, volume: &str) -> WritableFilesystem {
    let volume = disk.volume(volume).unwrap();
    volume
        .writable_filesystem(&WriteOptions::default())
        .unwrap()
}

fn write_file(fs: &dyn FsWrite, name: &[u8], contents: &[u8]) -> diskfs::vfs::Result<()> {
    let attributes = NewAttributes::for_root(0o644);
    let file = fs.create(fs.root(), name, NewKind::Regular, &attributes)?;
    fs.write_at(file, 0, contents)?;
    Ok(())
}

fn read_file(fs: &dyn FsRead, name: &[u8]) -> Vec<u8> {
    let file = fs.lookup(fs.root(), name).unwrap();
    let mut contents = vec![0; 100];
    let len = fs.read_at(file, 0, &mut contents).unwrap();
    contents.truncate(len);
    contents
}

#[test]
fn a_closed_filesystem_is_durable_while_the_others_stay() {
    let Some(appliance) = appliance() else { return };
    let shop = Workshop::new().unwrap();
    let Some(image) = three_kinds(&shop) else {
        return;
    };
    let own = own_appliance(&shop, &appliance);
    let vm = micro_vm(&own);
    let disk = open(&vm, &image);
    let mut opened = Vec::new();
    let mut first = Vec::new();
    for (index, name) in ["p1", "p2", "p3"].into_iter().enumerate() {
        let filesystem = writable(&disk, name);
        write_file(filesystem.as_fs(), b"file", name.as_bytes()).unwrap();
        opened.push((index, name, filesystem));
        if first.is_empty() {
            first = machines(&own);
        }
        assert_eq!(machines(&own), first, "{name} is in another machine");
    }
    while let Some((index, name, closed)) = opened.pop() {
        closed.close().unwrap();
        check_part(&shop, &image, index);
        let late = write_file(closed.as_fs(), b"late", b"").unwrap_err();
        assert_eq!(late.kind(), diskfs::vfs::ErrorKind::ReadOnly, "{name}");
        for (_, name, other) in &opened {
            assert_eq!(read_file(other.as_fs(), b"file"), name.as_bytes());
            let file = format!("after {index}");
            write_file(other.as_fs(), file.as_bytes(), b"more").unwrap();
        }
        assert_eq!(machines(&own), first);
    }
    disk.close().unwrap();
    drop(vm);
    all_end(&own);
    for index in 0..KINDS.len() {
        check_part(&shop, &image, index);
    }
}

#[test]
fn threads_that_open_filesystems_at_once_get_one_machine() {
    let Some(appliance) = appliance() else { return };
    let shop = Workshop::new().unwrap();
    let Some(image) = three_kinds(&shop) else {
        return;
    };
    let own = own_appliance(&shop, &appliance);
    let disk = open(&micro_vm(&own), &image);
    disk.volumes().unwrap();
    let all_here = Barrier::new(KINDS.len());
    let opened: Vec<_> = std::thread::scope(|scope| {
        let open = |name| {
            let (disk, all_here) = (&disk, &all_here);
            scope.spawn(move || {
                all_here.wait();
                disk.volume(name).unwrap().filesystem().unwrap()
            })
        };
        let threads = ["p1", "p2", "p3"].map(open);
        threads.map(|thread| thread.join().unwrap()).into()
    });
    let all = machines(&own);
    drop(opened);
    // A fourth one, in a machine that must be one of those that run.
    let again = writable(&disk, "p1");
    assert_eq!(machines(&own), all);
    assert_eq!(kernels(&own), 1);
    drop(again);
}

/// Returns the number of machines: of processes of this kernel that no other one has started.
fn kernels(appliance: &Path) -> usize {
    let all = machines(appliance);
    let is_started_by_other = |process: &&rustix::process::Pid| {
        let id = process.as_raw_nonzero();
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
        let parent = fields.and_then(|fields| fields.split(' ').nth(1)?.parse().ok());
        parent
            .and_then(rustix::process::Pid::from_raw)
            .is_some_and(|parent| all.contains(&parent))
    };
    let others = all.iter().filter(is_started_by_other).count();
    all.len() - others
}

#[test]
fn all_filesystems_of_a_killed_machine_say_so() {
    let Some(appliance) = appliance() else { return };
    let shop = Workshop::new().unwrap();
    let Some(image) = three_kinds(&shop) else {
        return;
    };
    let own = own_appliance(&shop, &appliance);
    let disk = open(&micro_vm(&own), &image);
    let opened = ["p1", "p2", "p3"].map(|name| writable(&disk, name));
    for machine in machines(&own) {
        let _ = kill_process(machine, Signal::KILL); // Some processes belong to another machine.
    }
    for filesystem in &opened {
        let lost = write_file(filesystem.as_fs(), b"lost", b"").unwrap_err();
        assert_eq!(lost.kind(), diskfs::vfs::ErrorKind::Io);
        assert!(lost.to_string().contains("signal 9"), "{lost}");
        assert!(filesystem.close().is_err());
    }
    drop(opened);
    assert_eq!(machines(&own), []);
    // The next ones are in a new machine, which replays the logs.
    for (index, name) in ["p1", "p2", "p3"].into_iter().enumerate() {
        let filesystem = writable(&disk, name);
        write_file(filesystem.as_fs(), b"kept", b"").unwrap();
        filesystem.close().unwrap();
        check_part(&shop, &image, index);
    }
}

/// Opens clones of a filesystem at the same time: the kernel must not mistake one for the other.
fn clones_at_once(maker: &[&str]) {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&[maker[0], "sfdisk"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = disk_of(&shop, &[maker, maker, maker], PART_MIB);
    let own = own_appliance(&shop, &appliance);
    let disk = open(&micro_vm(&own), &image);
    let names = ["p1", "p2", "p3"];
    let opened = names.map(|name| writable(&disk, name));
    for (filesystem, name) in opened.iter().zip(names) {
        write_file(filesystem.as_fs(), b"file", name.as_bytes()).unwrap();
    }
    for (filesystem, name) in opened.iter().zip(names) {
        assert_eq!(read_file(filesystem.as_fs(), b"file"), name.as_bytes());
        filesystem.close().unwrap();
    }
    for name in names {
        let volume = disk.volume(name).unwrap().filesystem().unwrap();
        assert_eq!(volume.read("/file").unwrap(), name.as_bytes());
    }
}

const UUID: &str = "2a1c3c5e-0c57-4d0f-9a3b-6f2b7c1d8e90";
const XFS_UUID: &str = "uuid=2a1c3c5e-0c57-4d0f-9a3b-6f2b7c1d8e90";

#[test]
fn clones_of_xfs_are_open_at_once() {
    clones_at_once(&["mkfs.xfs", "-q", "-m", XFS_UUID]);
}

#[test]
fn clones_of_btrfs_are_open_at_once() {
    clones_at_once(&["mkfs.btrfs", "-q", "-U", UUID]);
}

#[test]
fn one_that_can_not_be_mounted_harms_no_other() {
    let Some(appliance) = appliance() else { return };
    let shop = Workshop::new().unwrap();
    let Some(image) = three_kinds(&shop) else {
        return;
    };
    // The root of the btrfs' chunk tree: the superblock is intact, but nothing else is found.
    let file = fs::File::options().write(true).open(&image).unwrap();
    let broken = offset_mib(2) * MIB;
    let mut zero = broken + MIB;
    while zero < broken + PART_MIB * MIB {
        std::os::unix::fs::FileExt::write_all_at(&file, &[0x55; 16 << 10], zero).unwrap();
        zero += 16 << 10;
    }
    let own = own_appliance(&shop, &appliance);
    let disk = open(&micro_vm(&own), &image);
    let first = writable(&disk, "p1");
    let volume = disk.volume("p3").unwrap();
    let error = volume
        .writable_filesystem(&WriteOptions::default())
        .unwrap_err();
    assert_ne!(error.kind(), diskfs::ErrorKind::Unsupported, "{error}");
    write_file(first.as_fs(), b"file", b"of p1").unwrap();
    let second = writable(&disk, "p2");
    write_file(second.as_fs(), b"file", b"of p2").unwrap();
    first.close().unwrap();
    second.close().unwrap();
    check_part(&shop, &image, 0);
    check_part(&shop, &image, 1);
}

#[test]
fn more_filesystems_than_a_machine_has_disks_for() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.ext4", "sfdisk"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = disk_of(&shop, &[&["mkfs.ext4", "-qF"][..]; 27], 16);
    let own = own_appliance(&shop, &appliance);
    let disk = open(&micro_vm(&own), &image);
    let opened: Vec<_> = (1..=27)
        .map(|number| {
            let filesystem = writable(&disk, &format!("p{number}"));
            let contents = number.to_string();
            write_file(filesystem.as_fs(), b"file", contents.as_bytes()).unwrap();
            filesystem
        })
        .collect();
    assert_eq!(kernels(&own), 2);
    for (filesystem, number) in opened.iter().zip(1..) {
        let contents = i32::to_string(&number);
        assert_eq!(read_file(filesystem.as_fs(), b"file"), contents.as_bytes());
        filesystem.close().unwrap();
    }
}

#[test]
fn emulated_machines_have_several_filesystems_too() {
    let Some(appliance) = appliance() else { return };
    if !appliance.join("qemu/vmlinux").is_file() {
        skip("missing kernel for QEMU; build it with packaging/appliance/build");
        return;
    }
    let Some(()) = require_all(&["qemu-system-x86_64"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let Some(image) = three_kinds(&shop) else {
        return;
    };
    let vm = MicroVm::new(VmOptions {
        choice: BackendChoice::Only(BackendKind::QemuTcg),
        appliance: Some(appliance),
        ..VmOptions::default()
    });
    let disk = open(&vm, &image);
    let began = Instant::now();
    let first = writable(&disk, "p1");
    let with_boot = began.elapsed();
    let opened = [first, writable(&disk, "p2"), writable(&disk, "p3")];
    let others = began.elapsed().saturating_sub(with_boot);
    assert!(others < 2 * with_boot, "{with_boot:?} {others:?}");
    for (index, filesystem) in opened.iter().enumerate() {
        write_file(filesystem.as_fs(), b"file", b"contents").unwrap();
        filesystem.close().unwrap();
        check_part(&shop, &image, index);
    }
}

#[cfg(feature = "fuse")]
mod mounted {
    use std::process::Stdio;

    use diskfs_fixtures::{require_fuse, require_root};
    use rustix::process::Pid;

    use super::*;
    use crate::microvm::{command, stderr};

    /// Ends the mount in this way, and returns when it has ended.
    fn mounted_disk(end: impl Fn(&Path, &Path, Pid)) {
        let Some(appliance) = appliance() else { return };
        let (Some(()), Some(())) = (require_fuse(), require_root()) else {
            return;
        };
        let shop = Workshop::new().unwrap();
        let Some(image) = three_kinds(&shop) else {
            return;
        };
        let (own, at) = (own_appliance(&shop, &appliance), shop.path("mnt"));
        fs::create_dir(&at).unwrap();
        let words = ["mount".as_ref(), image.as_os_str(), at.as_os_str()];
        let mounted = command(&own, words)
            .args(["--rw", "--json"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(mounted.status.success(), "{}", stderr(&mounted));
        let report: serde_json::Value = serde_json::from_slice(&mounted.stdout).unwrap();
        let pid = report["result"]["pid"].as_i64().or(report["pid"].as_i64());
        let pid = Pid::from_raw(pid.unwrap().try_into().unwrap()).unwrap();
        for name in ["p1", "p2", "p3"] {
            fs::write(at.join(name).join("file"), name).unwrap();
        }
        assert_eq!(kernels(&own), 1);
        end(&own, &at, pid);
        all_end(&own);
        for (index, name) in ["p1", "p2", "p3"].into_iter().enumerate() {
            check_part(&shop, &image, index);
            let disk = Disk::open(&image).unwrap();
            let filesystem = disk.volume(name).unwrap().filesystem().unwrap();
            assert_eq!(filesystem.read("/file").unwrap(), name.as_bytes());
        }
    }

    #[test]
    fn a_mount_of_several_filesystems_has_one_machine() {
        mounted_disk(|own, at, _| {
            let unmounted = command(own, ["umount".as_ref(), at.as_os_str()]).output();
            let unmounted = unmounted.unwrap();
            assert!(unmounted.status.success(), "{}", stderr(&unmounted));
        });
    }

    #[test]
    fn a_signal_unmounts_all_of_them() {
        mounted_disk(|own, _, server| {
            kill_process(server, Signal::TERM).unwrap();
            let deadline = Instant::now() + Duration::from_secs(20);
            while !machines(own).is_empty() {
                assert!(Instant::now() < deadline, "the machine lives on");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
    }
}
