//! The kernel's filesystems, loop-mounted on this host, through both sides of the protocol. They
//! are compared with the in-memory model and with the kernel's own view.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diskfs_agent::DirectoryMachine;
use diskfs_crash::feature_set::FeatureSet;
use diskfs_crash::generate::{Plan, generate};
use diskfs_crash::lockstep::Lockstep;
use diskfs_crash::mirror::mirror;
use diskfs_crash::random::Random;
use diskfs_fixtures::{require, require_root, skip, unmount};
use diskfs_remote::client::{Client, Remote};
use diskfs_remote::server::{Ending, MountRequest, serve};
use diskfs_vfs::testing::WritableMemoryFs;
use diskfs_vfs::{
    Device, ErrorKind, Fallocate, FileExtentKind, FileFlags, FileType, FsRead, FsWrite,
    InodeNumber, NewAttributes, NewKind, RenameMode, SetMetadata, SetTime, SetXattr, SyncFile,
    Timestamp,
};
use tempfile::TempDir;

const PLAIN: NewAttributes = NewAttributes::for_root(0o644);

/// A filesystem on a loop device, unmounted when dropped.
struct Mounted {
    directory: TempDir,
}

impl Mounted {
    /// Creates a filesystem by `mkfs.KIND` with these arguments and mounts it; `None` if that isn't
    /// possible.
    fn new(kind: &str, size_mib: u64, arguments: &[&str]) -> Option<Self> {
        require_root()?;
        require(&format!("mkfs.{kind}"))?;
        let directory = TempDir::new().unwrap();
        let image = directory.path().join("image");
        fs::File::create(&image)
            .unwrap()
            .set_len(size_mib << 20)
            .unwrap();
        let mut mkfs = Command::new(format!("mkfs.{kind}"));
        let made = mkfs.args(arguments).arg(&image).output().unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let mounted = Self { directory };
        fs::create_dir(mounted.path()).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", kind, "-o", "loop,noatime"])
            .arg(&image)
            .arg(mounted.path());
        let done = mount.output().unwrap();
        if !done.status.success() {
            skip(&format!(
                "cannot mount {kind}: {}",
                String::from_utf8_lossy(&done.stderr)
            ));
            return None;
        }
        Some(mounted)
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("mnt")
    }

    fn serve(&self, kind: &str) -> Served {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let machine = DirectoryMachine::new(self.path().to_str().unwrap());
        let server = thread::spawn(move || serve(theirs.try_clone().unwrap(), theirs, &machine));
        let reader = ours.try_clone().unwrap();
        let client = Client::connect(reader, ours, Duration::from_secs(10)).unwrap();
        let fs = client.mount(&MountRequest::new("any", kind)).unwrap();
        Served {
            client,
            fs: Arc::new(fs),
            server,
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = unmount(&self.path());
        if thread::panicking() {
            // A second panic would hide the first.
            Command::new("umount")
                .arg("-l")
                .arg(self.path())
                .status()
                .ok();
        } else {
            unmounted.unwrap();
        }
    }
}

struct Served {
    client: Client,
    fs: Arc<Remote>,
    server: JoinHandle<std::io::Result<Ending>>,
}

impl Served {
    fn end(self) {
        self.fs.close().unwrap();
        self.client.shut_down().unwrap();
        assert_eq!(self.server.join().unwrap().unwrap(), Ending::ShutDown);
    }
}

fn kind<T: std::fmt::Debug>(result: diskfs_vfs::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn create(fs: &Remote, dir: InodeNumber, name: &str, kind: NewKind<'_>) -> InodeNumber {
    fs.create(dir, name.as_bytes(), kind, &PLAIN).unwrap()
}

/// Checks a mount of this kind, from the server's and the kernel's side.
fn check(filesystem: &str, size_mib: u64, arguments: &[&str]) {
    let Some(mounted) = Mounted::new(filesystem, size_mib, arguments) else {
        return;
    };
    let served = mounted.serve(filesystem);
    let (fs, path) = (&*served.fs, mounted.path());
    let root = fs.root();
    assert_eq!(root.0, fs::metadata(&path).unwrap().ino());
    files_of_every_kind(fs, &path);
    owners_and_modes(fs, &path);
    contents_and_extents(fs, &path);
    held_files(fs, &path);
    names_that_lead_out(fs);
    attributes_of_every_sort(fs, &path);
    numbers_that_are_none(fs);
    served.end();
}

fn files_of_every_kind(fs: &Remote, path: &Path) {
    let root = fs.root();
    let dir = create(fs, root, "kinds", NewKind::Directory);
    let device = Device { major: 1, minor: 3 };
    create(fs, dir, "regular", NewKind::Regular);
    create(fs, dir, "link", NewKind::Symlink(b"../no/such"));
    create(fs, dir, "fifo", NewKind::Fifo);
    create(fs, dir, "socket", NewKind::Socket);
    create(fs, dir, "character", NewKind::CharacterDevice(device));
    create(fs, dir, "block", NewKind::BlockDevice(device));
    let path = path.join("kinds");
    let mut names: Vec<_> = fs.read_dir(dir, 0).unwrap().map(Result::unwrap).collect();
    names.retain(|entry| !entry.name.starts_with(b"."));
    assert_eq!(names.len(), 6);
    for entry in names {
        let name = String::from_utf8(entry.name).unwrap();
        let found = fs.metadata(entry.inode).unwrap();
        let kernel = fs::symlink_metadata(path.join(&name)).unwrap();
        assert_eq!(fs.lookup(dir, name.as_bytes()).unwrap(), entry.inode);
        assert_eq!(entry.inode.0, kernel.ino(), "{name}");
        assert_eq!(entry.file_type, Some(found.file_type), "{name}");
        assert_eq!(found.mode(), kernel.mode(), "{name}");
        assert_eq!(
            found.links,
            u32::try_from(kernel.nlink()).unwrap(),
            "{name}"
        );
        assert_eq!(found.modified.seconds, kernel.mtime(), "{name}");
        assert_eq!(
            i64::from(found.modified.nanoseconds),
            kernel.mtime_nsec(),
            "{name}"
        );
        let is_device = kernel.file_type().is_char_device() || kernel.file_type().is_block_device();
        assert_eq!(found.device, is_device.then_some(device), "{name}");
        if kernel.file_type().is_symlink() {
            assert_eq!(fs.read_link(entry.inode).unwrap(), b"../no/such");
        } else {
            assert_eq!(
                kind(fs.read_link(entry.inode)),
                ErrorKind::Invalid,
                "{name}"
            );
        }
        if found.file_type != FileType::Regular {
            // None of these files is ever opened: a FIFO would wait for its other side.
            assert_eq!(
                kind(fs.read_at(entry.inode, 0, &mut [0])),
                ErrorKind::Invalid
            );
            assert_eq!(kind(fs.write_at(entry.inode, 0, b"x")), ErrorKind::Invalid);
        }
        let change = SetMetadata {
            uid: Some(7),
            modified: Some(SetTime::At(Timestamp {
                seconds: 1_000,
                nanoseconds: 5,
            })),
            ..SetMetadata::default()
        };
        fs.set_metadata(entry.inode, &change).unwrap();
        let kernel = fs::symlink_metadata(path.join(&name)).unwrap();
        assert_eq!(
            (kernel.uid(), kernel.mtime(), kernel.mtime_nsec()),
            (7, 1_000, 5),
            "{name}"
        );
        fs.set_xattr(entry.inode, b"trusted.t", b"v", SetXattr::Create)
            .unwrap();
        assert_eq!(
            fs.xattr(entry.inode, b"trusted.t").unwrap().unwrap(),
            b"v",
            "{name}"
        );
        assert!(
            fs.list_xattrs(entry.inode)
                .unwrap()
                .contains(&b"trusted.t".to_vec())
        );
        fs.sync_file(entry.inode, SyncFile::All).unwrap();
    }
    assert_eq!(kind(fs.read_at(dir, 0, &mut [0])), ErrorKind::IsADirectory);
}

fn owners_and_modes(fs: &Remote, path: &Path) {
    let root = fs.root();
    let of = |permissions, umask, uid, gid| NewAttributes {
        permissions,
        umask,
        uid,
        gid,
    };
    let mode_of = |name: &str| {
        let kernel = fs::symlink_metadata(path.join(name)).unwrap();
        (kernel.mode() & 0o7777, kernel.uid(), kernel.gid())
    };
    let make =
        |dir, name: &[u8], kind, attributes| fs.create(dir, name, kind, &attributes).unwrap();
    make(
        root,
        b"plain",
        NewKind::Regular,
        of(0o6777, 0o022, 1000, 1001),
    );
    assert_eq!(mode_of("plain"), (0o6755, 1000, 1001));
    // A directory of root's that others may not write, with a group that is inherited.
    let shared = make(root, b"shared", NewKind::Directory, of(0o2755, 0, 0, 50));
    assert_eq!(mode_of("shared"), (0o2755, 0, 50));
    make(
        shared,
        b"d",
        NewKind::Directory,
        of(0o777, 0o077, 1000, 1001),
    );
    assert_eq!(mode_of("shared/d"), (0o2700, 1000, 50));
    make(shared, b"f", NewKind::Regular, of(0o666, 0o002, 1000, 1001));
    assert_eq!(mode_of("shared/f"), (0o664, 1000, 50));
    make(
        shared,
        b"l",
        NewKind::Symlink(b"f"),
        of(0o777, 0, 1000, 1001),
    );
    assert_eq!(mode_of("shared/l"), (0o777, 1000, 50));
    let unnamed = fs.create_unnamed(shared, &of(0o640, 0o007, 3, 4)).unwrap();
    fs.link(unnamed, shared, b"u").unwrap();
    fs.release(unnamed).unwrap();
    assert_eq!(mode_of("shared/u"), (0o640, 3, 50));
    // A default ACL takes precedence over the umask.
    let acl = default_acl();
    fs.set_xattr(shared, b"system.posix_acl_default", &acl, SetXattr::Any)
        .unwrap();
    make(shared, b"acl", NewKind::Regular, of(0o666, 0o077, 1, 1));
    assert_eq!(mode_of("shared/acl").0, 0o660);
    let inherited = fs.lookup(shared, b"acl").unwrap();
    assert!(
        fs.xattr(inherited, b"system.posix_acl_access")
            .unwrap()
            .is_some()
    );
    // A new owner drops no privileges: that is left to the caller.
    let plain = fs.lookup(root, b"plain").unwrap();
    let change = SetMetadata {
        uid: Some(5),
        gid: Some(6),
        ..SetMetadata::default()
    };
    fs.set_metadata(plain, &change).unwrap();
    assert_eq!(mode_of("plain"), (0o6755, 5, 6));
    assert_eq!(fs.metadata(plain).unwrap().permissions, 0o6755);
    fs.write_at(plain, 0, b"x").unwrap();
    assert_eq!(mode_of("plain"), (0o6755, 5, 6));
}

/// Returns the ACL `u::rwx,u:9:rw,g::rwx,m::rwx,o::---` in the format of setxattr(2).
fn default_acl() -> Vec<u8> {
    let none = u32::MAX;
    let entries = [
        (1_u16, 7_u16, none),
        (2, 6, 9),
        (4, 7, none),
        (16, 7, none),
        (32, 0, none),
    ];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}

fn contents_and_extents(fs: &Remote, path: &Path) {
    let root = fs.root();
    let f = create(fs, root, "contents", NewKind::Regular);
    let data: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 253) as u8).collect();
    assert_eq!(fs.write_at(f, 1 << 20, &data).unwrap(), data.len());
    let kernel = fs::read(path.join("contents")).unwrap();
    assert!(kernel[..1 << 20].iter().all(|&byte| byte == 0));
    assert_eq!(kernel[1 << 20..], data);
    let mut back = vec![1; kernel.len() + 10];
    assert_eq!(fs.read_at(f, 0, &mut back).unwrap(), kernel.len());
    assert_eq!(back[..kernel.len()], kernel);
    assert_eq!(fs.read_at(f, u64::MAX, &mut [0; 5]).unwrap(), 0);
    assert_eq!(
        kind(fs.write_at(f, u64::MAX, b"x")),
        ErrorKind::FileTooLarge
    );
    fs.fallocate(f, 2 << 20, 1 << 20, Fallocate::PunchHole)
        .unwrap();
    fs.set_len(f, 64 << 20).unwrap();
    let extents: Vec<_> = fs.extents_of(f, 100).unwrap().map(Result::unwrap).collect();
    assert_eq!(extents[0].offset, 100);
    let mut at = 100;
    for extent in &extents {
        assert_eq!(extent.offset, at);
        at += extent.len_bytes;
    }
    assert_eq!(at, 64 << 20);
    let holes: Vec<_> = extents
        .iter()
        .filter(|extent| extent.kind == FileExtentKind::Hole)
        .map(|extent| extent.offset)
        .collect();
    assert_eq!(holes.len(), 3, "{extents:?}");
    assert_eq!(holes[1], 2 << 20);
    assert_eq!(fs.extents_of(f, 64 << 20).unwrap().count(), 0);
    fs.sync_file(f, SyncFile::Data).unwrap();
    fs.sync().unwrap();
}

fn held_files(fs: &Remote, path: &Path) {
    let root = fs.root();
    let f = create(fs, root, "held", NewKind::Regular);
    fs.write_at(f, 0, b"before").unwrap();
    fs.hold(f);
    fs.unlink(root, b"held").unwrap();
    assert!(!path.join("held").exists());
    assert_eq!(fs.metadata(f).unwrap().links, 0);
    assert_eq!(fs.write_at(f, 6, b" and after").unwrap(), 10);
    let mut back = [0; 100];
    assert_eq!(fs.read_at(f, 0, &mut back).unwrap(), 16);
    fs.set_xattr(f, b"user.still", b"here", SetXattr::Any)
        .unwrap();
    assert_eq!(kind(fs.link(f, root, b"again")), ErrorKind::NotFound);
    fs.release(f).unwrap();
    assert_eq!(kind(fs.metadata(f)), ErrorKind::NotFound);
    // A rename that replaces a file, and one between two names of the same file.
    let (a, b) = (
        create(fs, root, "a", NewKind::Regular),
        create(fs, root, "b", NewKind::Regular),
    );
    fs.hold(b);
    fs.rename(root, b"a", root, b"b", RenameMode::Replace)
        .unwrap();
    assert_eq!(fs.lookup(root, b"b").unwrap(), a);
    assert_eq!(fs.metadata(b).unwrap().links, 0);
    fs.release(b).unwrap();
    assert_eq!(kind(fs.metadata(b)), ErrorKind::NotFound);
    fs.link(a, root, b"c").unwrap();
    assert_eq!(fs.metadata(a).unwrap().links, 2);
    fs.rename(root, b"c", root, b"b", RenameMode::Replace)
        .unwrap();
    assert_eq!(fs.metadata(a).unwrap().links, 2);
    fs.unlink(root, b"c").unwrap();
    fs.unlink(root, b"b").unwrap();
    assert_eq!(kind(fs.metadata(a)), ErrorKind::NotFound);
    // A reused inode number is another file.
    for n in 0..50 {
        let name = format!("again{n}");
        let f = create(fs, root, &name, NewKind::Regular);
        assert_eq!(fs.write_at(f, 0, name.as_bytes()).unwrap(), name.len());
        assert_eq!(fs::read(path.join(&name)).unwrap(), name.as_bytes());
        fs.unlink(root, name.as_bytes()).unwrap();
    }
}

fn names_that_lead_out(fs: &Remote) {
    let root = fs.root();
    assert_eq!(fs.lookup(root, b"..").unwrap(), root);
    assert_eq!(fs.lookup(root, b".").unwrap(), root);
    let dir = create(fs, root, "below", NewKind::Directory);
    assert_eq!(fs.lookup(dir, b"..").unwrap(), root);
    for name in [&b"../etc"[..], b"/etc", b"a/b", b"", b"a\0b"] {
        assert_eq!(kind(fs.lookup(dir, name)), ErrorKind::Invalid);
        let made = fs.create(dir, name, NewKind::Regular, &PLAIN);
        assert_eq!(kind(made), ErrorKind::Invalid);
    }
    // The target of a symlink is never accessed.
    create(fs, dir, "out", NewKind::Symlink(b"/etc/passwd"));
    let out = fs.lookup(dir, b"out").unwrap();
    assert_eq!(fs.metadata(out).unwrap().file_type, FileType::Symlink);
    assert_eq!(kind(fs.read_at(out, 0, &mut [0; 10])), ErrorKind::Invalid);
    assert_eq!(kind(fs.set_len(out, 0)), ErrorKind::Invalid);
    assert_eq!(kind(fs.lookup(out, b"x")), ErrorKind::NotADirectory);
    let long = vec![b'n'; 256];
    assert_eq!(kind(fs.lookup(dir, &long)), ErrorKind::NameTooLong);
    assert_eq!(kind(fs.rmdir(root, b"below")), ErrorKind::NotEmpty);
    assert_eq!(kind(fs.unlink(root, b"below")), ErrorKind::IsADirectory);
    assert_eq!(kind(fs.rmdir(dir, b"out")), ErrorKind::NotADirectory);
    fs.rename(dir, b"out", root, b"w", RenameMode::NoReplace)
        .unwrap();
    fs.rmdir(root, b"below").unwrap();
    assert_eq!(
        kind(fs.create(dir, b"x", NewKind::Regular, &PLAIN)),
        ErrorKind::NotFound
    );
}

fn attributes_of_every_sort(fs: &Remote, path: &Path) {
    let root = fs.root();
    let f = create(fs, root, "flags", NewKind::Regular);
    fs.write_at(f, 0, b"12345").unwrap();
    let flags = |flags| SetMetadata {
        flags: Some(flags),
        ..SetMetadata::default()
    };
    let append_only = FileFlags {
        append_only: true,
        ..FileFlags::default()
    };
    fs.set_metadata(f, &flags(append_only)).unwrap();
    assert!(fs.metadata(f).unwrap().flags.append_only);
    assert_eq!(kind(fs.write_at(f, 0, b"x")), ErrorKind::NotPermitted);
    assert_eq!(fs.write_at(f, 5, b"6").unwrap(), 1);
    assert_eq!(kind(fs.set_len(f, 0)), ErrorKind::NotPermitted);
    fs.set_metadata(
        f,
        &flags(FileFlags {
            immutable: true,
            ..FileFlags::default()
        }),
    )
    .unwrap();
    assert_eq!(kind(fs.write_at(f, 6, b"x")), ErrorKind::NotPermitted);
    assert_eq!(kind(fs.unlink(root, b"flags")), ErrorKind::NotPermitted);
    fs.set_metadata(f, &flags(FileFlags::default())).unwrap();
    assert_eq!(fs::read(path.join("flags")).unwrap(), b"123456");
    assert_eq!(fs.write_at(f, 0, b"x").unwrap(), 1);
    fs.set_xattr(f, b"user.a", &[1; 500], SetXattr::Create)
        .unwrap();
    assert_eq!(
        kind(fs.set_xattr(f, b"user.a", b"", SetXattr::Create)),
        ErrorKind::Exists
    );
    assert_eq!(
        kind(fs.set_xattr(f, b"user.b", b"", SetXattr::Replace)),
        ErrorKind::NoAttribute
    );
    assert_eq!(
        kind(fs.set_xattr(f, b"strange.a", b"", SetXattr::Any)),
        ErrorKind::Unsupported
    );
    assert_eq!(kind(fs.remove_xattr(f, b"user.b")), ErrorKind::NoAttribute);
    assert_eq!(fs.xattr(f, b"user.b").unwrap(), None);
    let permissions = SetMetadata {
        permissions: Some(0o4711),
        ..SetMetadata::default()
    };
    fs.set_metadata(f, &permissions).unwrap();
    let kernel = fs::metadata(path.join("flags")).unwrap();
    assert_eq!(kernel.permissions().mode() & 0o7777, 0o4711);
    let statistics = fs.statistics().unwrap();
    assert!(statistics.blocks > statistics.blocks_free && statistics.name_max >= 255);
}

fn numbers_that_are_none(fs: &Remote) {
    for number in [0, 0xdead_beef, u64::MAX] {
        let none = InodeNumber(number);
        assert_eq!(kind(fs.metadata(none)), ErrorKind::NotFound);
        assert_eq!(kind(fs.lookup(none, b"x")), ErrorKind::NotFound);
        fs.hold(none);
        fs.release(none).unwrap();
    }
}

#[test]
fn ext4() {
    check("ext4", 200, &["-q"]);
}

#[test]
fn xfs() {
    check("xfs", 350, &["-q"]);
}

#[test]
fn btrfs() {
    check("btrfs", 300, &["-q"]);
}

#[test]
fn subvolumes_have_numbers_of_their_own() {
    let Some(mounted) = Mounted::new("btrfs", 300, &["-q"]) else {
        return;
    };
    for name in ["one", "two"] {
        let path = mounted.path().join(name);
        let made = Command::new("btrfs")
            .args(["subvolume", "create"])
            .arg(&path)
            .output();
        assert!(made.unwrap().status.success());
        fs::write(path.join("f"), name).unwrap();
    }
    let served = mounted.serve("btrfs");
    let fs = &*served.fs;
    let mut seen = vec![fs.root()];
    for name in ["one", "two"] {
        let dir = fs.lookup(fs.root(), name.as_bytes()).unwrap();
        let f = fs.lookup(dir, b"f").unwrap();
        let mut contents = [0; 3];
        fs.read_at(f, 0, &mut contents).unwrap();
        assert_eq!(contents, name.as_bytes());
        assert_eq!(fs.lookup(dir, b"..").unwrap(), fs.root());
        seen.extend([dir, f]);
    }
    let moved = fs.rename(seen[1], b"f", seen[3], b"g", RenameMode::Replace);
    moved
        .or_else(|error| match error.kind() {
            ErrorKind::CrossesDevices => Ok(()),
            _ => Err(error),
        })
        .unwrap();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5);
    served.end();
}

#[test]
fn subvolumes_are_found_by_their_numbers() {
    let Some(mounted) = Mounted::new("btrfs", 300, &["-q"]) else {
        return;
    };
    let btrfs = |words: &[&str], path: &std::path::Path| {
        let ran = Command::new("btrfs")
            .args(words)
            .arg(path)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let root = mounted.path();
    fs::create_dir_all(root.join("plain/deep")).unwrap();
    let made = ["one", "plain/deep/two", "one/three"];
    for name in made {
        btrfs(&["subvolume", "create"], &root.join(name));
    }
    let id = |name: &str| {
        let output = btrfs(&["inspect-internal", "rootid"], &root.join(name));
        output.trim().parse::<u64>().unwrap()
    };
    let ids = made.map(id);
    let three = ids[2].to_string();
    let served = mounted.serve("btrfs");
    let fs = &*served.fs;
    assert_eq!(fs.subvolume(None).unwrap(), b"");
    assert_eq!(fs.subvolume(Some(5)).unwrap(), b"");
    for (id, name) in ids.into_iter().zip(made) {
        let path = String::from_utf8(fs.subvolume(Some(id)).unwrap()).unwrap();
        assert_eq!(path, format!("/{name}"));
    }
    btrfs(&["subvolume", "set-default", &three], &root);
    assert_eq!(fs.subvolume(None).unwrap(), b"/one/three");
    assert_eq!(kind(fs.subvolume(Some(9999))), ErrorKind::NotFound);
    served.end();
}

#[test]
fn more_files_than_stay_open() {
    let Some(mounted) = Mounted::new("xfs", 350, &["-q"]) else {
        return;
    };
    for n in 0..3000 {
        fs::write(mounted.path().join(n.to_string()), n.to_string()).unwrap();
    }
    let served = mounted.serve("xfs");
    let fs = &*served.fs;
    let entries = fs.read_dir(fs.root(), 0).unwrap().map(Result::unwrap);
    let files: Vec<_> = entries
        .filter(|entry| !entry.name.starts_with(b"."))
        .collect();
    assert_eq!(files.len(), 3000);
    for _ in 0..2 {
        for file in &files {
            let mut contents = [0; 4];
            let len = fs.read_at(file.inode, 0, &mut contents).unwrap();
            assert_eq!(contents[..len], file.name);
        }
    }
    served.end();
}

/// Applies random operations to ext4 and to the model, which behaves like ext4.
#[test]
fn does_what_the_model_does() {
    let operations = std::env::var("DISKFS_AGENT_OPERATIONS");
    let operations = operations.map_or(1500, |count| count.parse().unwrap());
    let set = FeatureSet::named("default").unwrap();
    for seed in 1..=3 {
        let Some(mounted) = Mounted::new("ext4", 64, &["-q", "-I", "256", "-b", "4096"]) else {
            return;
        };
        let served = mounted.serve("ext4");
        let model = WritableMemoryFs::new();
        let (_, files) = mirror(&*served.fs, &model).unwrap();
        let plan = Plan {
            operations,
            size_bytes: 64 << 20,
            unit_bytes: 4096,
            large_values: false,
        };
        let made = generate(plan, Random::new(seed), &model, files);
        let mut lockstep = Lockstep::new(served.fs.clone(), set.traits).unwrap();
        for (number, operation) in made.iter().enumerate() {
            if let Err(error) = lockstep.step(number, operation, &|| number) {
                panic!("seed {seed}, operation {number} {operation:?}: {error:#}");
            }
        }
        lockstep.check_all().unwrap();
        drop(lockstep);
        served.end();
    }
}
