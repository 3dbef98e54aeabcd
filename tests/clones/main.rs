//! Many clones of one guest, all with the same names and UUIDs, open at once in one process, each
//! with its own changes.

use std::path::{Path, PathBuf};

use diskfs::vfs::{Follow, FsRead, NewAttributes, NewKind, resolve};
use diskfs::{Disk, WritableFilesystem, WriteOptions, guest};
use diskfs_fixtures::{image, require, run};

const CLONES: usize = 200;

/// The most memory that one clone may use.
const BYTES_MAX: u64 = 8 << 20;

/// A guest that is open for writing, through its own overlay.
struct Clone {
    disk: Disk,
    filesystem: WritableFilesystem,
}

impl Clone {
    fn open(base: &Path, overlay: &Path) -> Self {
        let disk = Disk::options().overlay(overlay).open(base).unwrap();
        let system = guest::select_system(&disk, None).unwrap().unwrap();
        let filesystem = system.writable_filesystem(&WriteOptions::default());
        Self {
            filesystem: filesystem.unwrap(),
            disk,
        }
    }

    fn write(&self, dir: &str, name: &str) {
        let fs = self.filesystem.as_fs();
        let dir = resolve(fs, dir, Follow::All).unwrap();
        let attributes = NewAttributes::for_root(0o644);
        let file = fs.create(dir, name.as_bytes(), NewKind::Regular, &attributes);
        let written = fs.write_at(file.unwrap(), 0, name.as_bytes()).unwrap();
        assert_eq!(written, name.len());
    }

    fn close(self) {
        self.filesystem.close().unwrap();
        drop(self.filesystem);
        self.disk.close().unwrap();
    }
}

/// Returns the anonymous memory of this process: `RssAnon` of `proc_pid_status(5)`.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.unwrap().parse::<u64>().unwrap() << 10
}

/// Lists the files in a directory whose names have the form of a clone's.
fn own_files(fs: &dyn FsRead, dir: &str) -> Vec<String> {
    let dir = resolve(fs, dir, Follow::All).unwrap();
    let names = fs.read_dir(dir, 0).unwrap();
    let names = names.map(|entry| String::from_utf8(entry.unwrap().name).unwrap());
    names.filter(|name| name.starts_with("clone-")).collect()
}

#[test]
fn two_hundred_clones_are_open_at_once() {
    let base = image("guest.raw");
    let overlay = |n: usize| -> PathBuf { base.directory().join(format!("{n}.qcow2")) };
    let name = |n: usize| format!("clone-{n}");
    let mut clones = Vec::new();
    let mut resident = vec![resident_bytes()];
    for n in 0..CLONES {
        let clone = Clone::open(&base.path(), &overlay(n));
        // Two filesystems, in logical volumes with the same names.
        clone.write("/etc", &name(n));
        clone.write("/home/ann", &name(n));
        clone.filesystem.as_fs().sync().unwrap();
        clones.push(clone);
        if (n + 1) % (CLONES / 2) == 0 {
            resident.push(resident_bytes());
        }
    }
    for (n, clone) in clones.iter().enumerate() {
        for dir in ["/etc", "/home/ann"] {
            assert_eq!(own_files(clone.filesystem.as_fs(), dir), [name(n)]);
        }
    }
    let [start, half, all] = resident[..] else {
        panic!("{resident:?}");
    };
    let each = (all - start) / CLONES as u64;
    assert!(each < BYTES_MAX, "{each} bytes each");
    // The second half uses no more than the first one, apart from chance.
    let (first, second) = (half - start, all - half);
    assert!(second < first + first / 2, "{first}, then {second} bytes");
    clones.into_iter().for_each(Clone::close);

    for n in (0..CLONES).step_by(20) {
        let disk = Disk::open(overlay(n)).unwrap();
        let tree = guest::select_system(&disk, None).unwrap().unwrap();
        let tree = tree.filesystem().unwrap();
        assert_eq!(own_files(tree.as_fs(), "/home/ann"), [name(n)]);
        let path = format!("/etc/{}", name(n));
        assert_eq!(tree.read(path).unwrap(), name(n).as_bytes());
        if require("qemu-img").is_some() {
            let path = overlay(n).display().to_string();
            run("qemu-img", ["check", "-q", &path]).unwrap();
        }
    }
}
