//! Archives that lie, or that are bombs.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use diskfs_archive::tree::{Limits, WriteOptions};
use diskfs_archive::{Layer, Tree};
use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_vfs::FsRead;
use diskfs_vfs::testing::WritableMemoryFs;
use tar::{EntryType, Header};

/// An archive under construction.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn add(mut self, name: &str, kind: EntryType, link: &str, data: &[u8]) -> Self {
        self.header(name, kind, link, data.len() as u64);
        self.data(data);
        self
    }

    fn header(&mut self, name: &str, kind: EntryType, link: &str, size_bytes: u64) {
        let mut header = Header::new_gnu();
        let old = header.as_gnu_mut().unwrap();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_600_000_000);
        header.set_size(size_bytes);
        header.set_cksum();
        self.0.extend(header.as_bytes());
    }

    fn data(&mut self, data: &[u8]) {
        self.0.extend(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
    }

    fn file(self, name: &str, data: &[u8]) -> Self {
        self.add(name, EntryType::Regular, "", data)
    }

    fn pax(self, keyword: &str, value: &str) -> Self {
        let rest = format!(" {keyword}={value}\n");
        let len = (1..8).map(|digits| digits + rest.len());
        let mut len = len.filter(|len| len.to_string().len() + rest.len() == *len);
        let record = format!("{}{rest}", len.next().unwrap());
        self.add("pax", EntryType::XHeader, "", record.as_bytes())
    }

    fn plan(&self, limits: &Limits, is_of_image: bool) -> Result<Tree> {
        plan(&self.0, limits, is_of_image)
    }

    fn refusal(&self) -> Error {
        self.plan(&Limits::default(), true).unwrap_err()
    }
}

fn plan(bytes: &[u8], limits: &Limits, is_of_image: bool) -> Result<Tree> {
    let mut layer = Layer::from_stream(bytes, Path::new("test.tar"), 1 << 30)?;
    if is_of_image {
        layer = layer.of_image(None, None);
    }
    Tree::plan(&[layer], limits, &mut |_| ControlFlow::Continue(()))
}

#[test]
fn names_that_lead_out_are_refused() {
    let limits = Limits::default();
    for name in ["../x", "a/../../x", "a/.."] {
        let error = Tar::default().file(name, b"").refusal();
        assert_eq!(error.kind(), ErrorKind::Denied, "{name}: {error}");
        assert!(error.to_string().contains("test.tar"), "{error}");
    }
    let absolute = Tar::default().file("/etc/passwd", b"");
    assert_eq!(
        absolute.plan(&limits, false).unwrap_err().kind(),
        ErrorKind::Denied
    );
    assert!(absolute.plan(&limits, true).is_ok());
    for target in ["../x", "missing", "dir", ""] {
        let tar = Tar::default().add("dir", EntryType::Directory, "", b"");
        let error = tar.add("link", EntryType::Link, target, b"").refusal();
        assert!(
            matches!(error.kind(), ErrorKind::Denied | ErrorKind::Corrupt),
            "{error}"
        );
    }
    let tar = Tar::default().add("a", EntryType::Symlink, "b", b"");
    let tar = tar.add("b", EntryType::Symlink, "a", b"").file("a/x", b"");
    assert!(tar.refusal().to_string().contains("symbolic links"));
    for name in [".wh.", ".wh..", ".wh..."] {
        assert_eq!(
            Tar::default().file(name, b"").refusal().kind(),
            ErrorKind::Invalid
        );
    }
    assert!(
        Tar::default()
            .file("x", b"")
            .file("x/y", b"")
            .plan(&limits, true)
            .is_err()
    );
    let root = Tar::default().file("./", b"");
    assert!(root.plan(&limits, true).is_ok(), "a directory by its slash");
    assert!(Tar::default().file(".", b"").plan(&limits, true).is_err());
}

#[test]
fn wrong_sizes_and_values_are_refused() {
    let mut cut = Tar::default();
    cut.header("x", EntryType::Regular, "", u64::MAX / 2);
    assert_eq!(cut.refusal().kind(), ErrorKind::Corrupt);
    let symlink = Tar::default().add("x", EntryType::Symlink, "", b"");
    assert_eq!(symlink.refusal().kind(), ErrorKind::Invalid);
    for (keyword, value) in [
        ("GNU.sparse.map", "0,10,5,10"),
        (
            "GNU.sparse.map",
            "0,18446744073709551615,18446744073709551615,9",
        ),
        ("GNU.sparse.map", "0,100"),
        ("GNU.sparse.map", "0"),
        ("size", "-1"),
        ("size", "99999999999999999999"),
        ("mtime", "x"),
        ("uid", "4294967296"),
        ("SCHILY.acl.access", "nothing"),
    ] {
        let tar = Tar::default().pax(keyword, value).file("x", b"0123456789");
        let error = tar.refusal();
        assert_eq!(
            error.kind(),
            ErrorKind::Corrupt,
            "{keyword}={value}: {error}"
        );
    }
    let device = |name: &str, major: u32| {
        let mut header = Header::new_gnu();
        header.set_path(name).unwrap();
        header.set_entry_type(EntryType::Char);
        header.set_size(0);
        header.set_mode(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_device_major(major).unwrap();
        header.set_device_minor(0).unwrap();
        header.set_cksum();
        Tar(header.as_bytes().to_vec())
    };
    assert!(device("x", 4095).plan(&Limits::default(), true).is_ok());
    assert!(
        device("x", 4096)
            .refusal()
            .to_string()
            .contains("device number 4096:0")
    );
}

#[test]
fn bombs_are_stopped_by_the_limits() {
    let limits = Limits {
        unpacked_bytes: 1 << 20,
        files: 100,
        memory_bytes: 1 << 16,
    };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut large = Tar::default();
    large.header("zeroes", EntryType::Regular, "", 1 << 30);
    gzip.write_all(&large.0).unwrap();
    let zeroes = vec![0; 1 << 20];
    for _ in 0..64 {
        gzip.write_all(&zeroes).unwrap();
    }
    let error = plan(&gzip.finish().unwrap(), &limits, true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(
        error.to_string().contains("at most 1048576 bytes"),
        "{error}"
    );
    let many = (0..101).fold(Tar::default(), |tar, n| tar.file(&n.to_string(), b""));
    let error = many.plan(&limits, true).unwrap_err();
    assert!(error.to_string().contains("at most 100"), "{error}");
    let deep = Tar::default().pax("path", &"d/".repeat(99)).file("x", b"");
    assert!(deep.plan(&limits, true).is_ok());
    let names = (0..90).fold(Tar::default(), |tar, n| {
        tar.pax("path", &format!("{n}{}", "x".repeat(250)))
            .pax("SCHILY.xattr.user.a", "1")
            .add("x", EntryType::Symlink, &"y".repeat(99), b"")
    });
    let small = Limits {
        memory_bytes: 1 << 14,
        ..limits
    };
    let error = names.plan(&small, true).unwrap_err();
    assert!(error.to_string().contains("too much memory"), "{error}");
}

/// The deepest tree through symlinks: each member continues below the one before.
#[test]
fn deep_directories_through_symlinks_are_refused() {
    let step = "d/".repeat(1000);
    let mut tar = Tar::default();
    for n in 0..3 {
        let start = if n == 0 {
            String::new()
        } else {
            format!("l{}/", n - 1)
        };
        tar = tar
            .pax("path", &format!("{start}{step}"))
            .add("x", EntryType::Directory, "", b"");
        let target = format!("{start}{step}");
        tar = tar.pax("linkpath", &target[..target.len().min(4000)]);
        tar = tar.add(&format!("l{n}"), EntryType::Symlink, "", b"");
    }
    let error = tar.refusal();
    assert!(error.to_string().contains("nested directories"), "{error}");
}

#[test]
fn many_records_take_little_time() {
    // Comparing each record with all before it would take minutes.
    let start = Instant::now();
    let records = (0..100_000).map(|n| {
        let record = format!(" SCHILY.xattr.user.{n:06}=\n");
        format!("{}{record}", record.len() + 2)
    });
    let records = records.collect::<Vec<_>>().concat();
    let tar = Tar::default().add("pax", EntryType::XHeader, "", records.as_bytes());
    let tree = tar.file("x", b"").plan(&Limits::default(), true).unwrap();
    assert_eq!(tree.nodes().last().unwrap().xattrs.len(), 100_000);
    assert!(start.elapsed() < Duration::from_secs(20));
    let global = "x".repeat(70_000);
    let tar = Tar::default().add("g", EntryType::XGlobalHeader, "", global.as_bytes());
    assert!(
        tar.file("x", b"")
            .refusal()
            .to_string()
            .contains("too large")
    );
}

#[test]
fn repeated_whiteouts_take_little_time() {
    // Walking through the directory for each whiteout would take minutes.
    let start = Instant::now();
    let mut lower = Tar::default();
    let mut upper = Tar::default();
    for n in 0..20_000 {
        upper = upper.file(&format!("d/{n}"), b"");
    }
    lower = lower.file("d/x", b"");
    for _ in 0..20_000 {
        upper = upper.file("d/.wh..wh..opq", b"").file(".wh.d", b"");
    }
    let layer = |tar: &Tar| {
        let layer = Layer::from_stream(&tar.0[..], Path::new("test.tar"), 1 << 30);
        layer.unwrap().of_image(None, None)
    };
    let layers = [layer(&lower), layer(&upper)];
    let go_on = &mut |_| ControlFlow::Continue(());
    let tree = Tree::plan(&layers, &Limits::default(), go_on).unwrap();
    assert_eq!(tree.nodes().count(), 20_002);
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn work_ends_when_the_caller_cancels() {
    let tar = Tar::default().file("x", &vec![7; 3 << 20]);
    let layer = Layer::from_stream(&tar.0[..], Path::new("test.tar"), 1 << 30).unwrap();
    let stop = &mut |_| ControlFlow::Break(());
    let layers = [layer];
    let error = Tree::plan(&layers, &Limits::default(), stop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let go_on = &mut |_| ControlFlow::Continue(());
    let tree = Tree::plan(&layers, &Limits::default(), go_on).unwrap();
    let fs = WritableMemoryFs::new();
    let error = tree
        .write_to(&fs, &WriteOptions::default(), stop)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_changed_archive_writes_no_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar");
    std::fs::write(&path, Tar::default().file("good", b"12345").0).unwrap();
    let layers = [Layer::open(&path, 0).unwrap()];
    let go_on = &mut |_| ControlFlow::Continue(());
    let tree = Tree::plan(&layers, &Limits::default(), go_on).unwrap();
    for bad in [
        Tar::default().file("bad", b"123456"),
        Tar::default().add("bad", EntryType::Symlink, "/etc", b""),
        Tar::default(),
    ] {
        let mut bytes = bad.0;
        bytes.resize(1024, 0);
        std::fs::write(&path, bytes).unwrap();
        let fs = WritableMemoryFs::new();
        let error = tree
            .write_to(&fs, &WriteOptions::default(), go_on)
            .unwrap_err();
        assert!(error.to_string().contains("changed while"), "{error}");
        assert!(fs.lookup(fs.root(), b"bad").is_err());
    }
}

#[test]
fn a_filesystem_with_the_name_is_not_overwritten() {
    let tar = Tar::default().file("x", b"new").file("lost+found/y", b"");
    let tree = tar.plan(&Limits::default(), false).unwrap();
    let fs = WritableMemoryFs::new();
    let go_on = &mut |_| ControlFlow::Continue(());
    tree.write_to(&fs, &WriteOptions::default(), go_on).unwrap();
    let error = tree
        .write_to(&fs, &WriteOptions::default(), go_on)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(error.to_string().contains("empty directory"), "{error}");
}
