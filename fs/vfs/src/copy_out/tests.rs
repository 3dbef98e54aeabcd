use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::*;
use crate::testing::{Fault, MemoryFs};
use crate::{Device, ErrorKind, FileType, Timestamp};

struct Destination {
    _dir: tempfile::TempDir,
    to: PathBuf,
}

fn place() -> Destination {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("copy");
    Destination { _dir: dir, to }
}

fn copy(fs: &MemoryFs, to: &Path) -> Summary {
    copy_with(fs, to, CopyOptions::default()).unwrap()
}

fn copy_with(fs: &MemoryFs, to: &Path, options: CopyOptions) -> Result<Summary> {
    copy_out(fs, fs.root(), to, &options, &mut |_, _| {
        ControlFlow::Continue(())
    })
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_tree_comes_out_as_it_is() {
    let mut fs = MemoryFs::new();
    let file = fs.file("/etc/hello", b"hello\n");
    fs.metadata_mut(file).permissions = 0o4750;
    fs.symlink("/etc/link", "/nowhere/at all");
    fs.special("/run/fifo", FileType::Fifo, None);
    fs.special("/run/socket", FileType::Socket, None);
    let dir = fs.dir("/closed");
    fs.metadata_mut(dir).permissions = 0o1555;
    fs.file("/closed/inside", b"x");
    let time = Timestamp {
        seconds: 1_000_000_000,
        nanoseconds: 987_654_321,
    };
    fs.metadata_mut(dir).modified = time;
    let p = place();
    let summary = copy(&fs, &p.to);
    assert_eq!(summary.error_count, 0, "{:?}", summary.errors);
    assert_eq!((summary.files, summary.directories), (2, 4));
    assert_eq!(
        (summary.symlinks, summary.specials, summary.bytes),
        (1, 2, 7)
    );
    assert_eq!(fs::read(p.to.join("etc/hello")).unwrap(), b"hello\n");
    let own = |at| if is_root() { at } else { at & 0o1777 };
    assert_eq!(mode(&p.to.join("etc/hello")), own(0o4750));
    assert_eq!(
        fs::read_link(p.to.join("etc/link")).unwrap(),
        Path::new("/nowhere/at all")
    );
    let kind = |name| fs::symlink_metadata(p.to.join(name)).unwrap().file_type();
    assert!(kind("run/fifo").is_fifo());
    assert!(kind("run/socket").is_socket());
    assert_eq!(mode(&p.to.join("closed")), 0o1555);
    for name in ["closed", "etc/hello", "etc/link"] {
        let found = fs::symlink_metadata(p.to.join(name)).unwrap();
        let wanted = if name == "closed" {
            time.seconds
        } else {
            1_600_000_000
        };
        assert_eq!(found.mtime(), wanted, "{name}");
    }
    assert_eq!(
        fs::metadata(p.to.join("closed")).unwrap().mtime_nsec(),
        987_654_321
    );
}

#[test]
fn holes_stay_holes() {
    let mut fs = MemoryFs::new();
    let runs: [(u64, &[u8]); 2] = [(1 << 20, &[7; 8192]), (3 << 20, &[9; 4096])];
    fs.sparse_file("/f", &runs, 8 << 20);
    fs.sparse_file("/only-hole", &[], 1 << 30);
    let p = place();
    let summary = copy(&fs, &p.to);
    assert_eq!(summary.bytes, 8192 + 4096);
    let data = fs::read(p.to.join("f")).unwrap();
    assert_eq!(data.len(), 8 << 20);
    let first = &data[1 << 20..];
    assert!(first[..8192].iter().all(|&byte| byte == 7) && first[8192] == 0);
    assert_eq!(&data[3 << 20..(3 << 20) + 4096], &[9; 4096]);
    let taken = |name: &str| fs::metadata(p.to.join(name)).unwrap().blocks() * 512;
    assert!(taken("f") < 1 << 20, "{}", taken("f"));
    assert_eq!(fs::metadata(p.to.join("only-hole")).unwrap().len(), 1 << 30);
    assert_eq!(taken("only-hole"), 0);
}

#[test]
fn hard_links_stay_together() {
    let mut fs = MemoryFs::new();
    let file = fs.file("/a/one", b"1");
    fs.hard_link("/b/two", file);
    fs.hard_link("/three", file);
    let lonely = fs.file("/lonely", b"2");
    fs.metadata_mut(lonely).links = 5; // The others are not in the tree.
    let p = place();
    let summary = copy(&fs, &p.to);
    assert_eq!((summary.files, summary.hard_links), (2, 2));
    let inode = |name: &str| fs::metadata(p.to.join(name)).unwrap().ino();
    assert_eq!(inode("a/one"), inode("b/two"));
    assert_eq!(inode("a/one"), inode("three"));
}

#[test]
fn a_single_file_can_be_copied() {
    let mut fs = MemoryFs::new();
    let file = fs.file("/deep/f", b"data");
    let p = place();
    copy_out(&fs, file, &p.to, &CopyOptions::default(), &mut |path, _| {
        assert_eq!(path, b"");
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(fs::read(&p.to).unwrap(), b"data");
}

#[test]
fn symlinks_at_the_destination_are_not_followed() {
    let mut fs = MemoryFs::new();
    fs.file("/dir/f", b"new");
    fs.file("/g", b"new");
    let p = place();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("f"), b"old").unwrap();
    fs::create_dir(&p.to).unwrap();
    symlink(outside.path(), p.to.join("dir")).unwrap();
    symlink(outside.path().join("f"), p.to.join("g")).unwrap();
    let summary = copy(&fs, &p.to);
    assert_eq!(fs::read(outside.path().join("f")).unwrap(), b"old");
    assert_eq!(summary.error_count, 1);
    assert_eq!(summary.errors[0].kind(), ErrorKind::NotADirectory);
    assert_eq!(summary.errors[0].path(), Some(&b"dir"[..]));
    assert!(!fs::symlink_metadata(p.to.join("g")).unwrap().is_symlink());
    assert_eq!(fs::read(p.to.join("g")).unwrap(), b"new");
}

#[test]
fn hostile_names_stay_within() {
    let mut fs = MemoryFs::new();
    let file = fs.file("/ok", b"x");
    for name in ["../escaped", "/tmp/escaped", "a/b", "..", ""] {
        fs.raw_entry(fs.root(), name.as_bytes(), file);
    }
    let p = place();
    let summary = copy(&fs, &p.to);
    assert_eq!(summary.error_count, 4, "{:?}", summary.errors);
    let names: Vec<_> = fs::read_dir(&p.to)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["ok"]);
    assert!(!p.to.parent().unwrap().join("escaped").exists());
}

#[test]
fn errors_are_collected_or_end_the_copy() {
    let mut fs = MemoryFs::new();
    let bad = fs.file("/a", b"unreadable");
    let dir = fs.dir("/d");
    fs.file("/d/hidden", b"");
    fs.file("/z", b"fine");
    fs.fail(bad, Fault::Read);
    fs.fail(dir, Fault::ReadDir);
    let p = place();
    let summary = copy(&fs, &p.to);
    let paths: Vec<_> = summary
        .errors
        .iter()
        .map(|e| e.path().unwrap().to_vec())
        .collect();
    assert_eq!(paths, [b"a", b"d"]);
    assert_eq!(fs::read(p.to.join("z")).unwrap(), b"fine");
    let options = CopyOptions {
        on_error: OnError::Stop,
        ..CopyOptions::default()
    };
    let q = place();
    assert_eq!(
        copy_with(&fs, &q.to, options).unwrap_err().path(),
        Some(&b"a"[..])
    );
    assert!(!q.to.join("z").exists());
}

#[test]
fn what_is_in_the_way_stays_or_goes() {
    let mut fs = MemoryFs::new();
    fs.file("/f", b"new");
    fs.dir("/d");
    let p = place();
    fs::create_dir_all(p.to.join("d")).unwrap();
    fs::write(p.to.join("d/other"), b"").unwrap();
    fs::write(p.to.join("f"), b"old").unwrap();
    let keep = CopyOptions {
        existing: Existing::Keep,
        ..CopyOptions::default()
    };
    let summary = copy_with(&fs, &p.to, keep).unwrap();
    assert_eq!(summary.errors[0].kind(), ErrorKind::Exists);
    assert_eq!(fs::read(p.to.join("f")).unwrap(), b"old");
    assert_eq!(copy(&fs, &p.to).error_count, 0);
    assert_eq!(fs::read(p.to.join("f")).unwrap(), b"new");
    assert!(p.to.join("d/other").exists());
}

#[test]
fn a_directory_does_not_give_way_to_a_file() {
    let mut fs = MemoryFs::new();
    fs.file("/f", b"new");
    let p = place();
    fs::create_dir_all(p.to.join("f")).unwrap();
    let summary = copy(&fs, &p.to);
    assert_eq!(summary.errors[0].kind(), ErrorKind::IsADirectory);
    assert!(p.to.join("f").is_dir());
}

#[test]
fn trees_deeper_than_the_descriptors_come_out_whole() {
    let mut fs = MemoryFs::new();
    let mut path = String::new();
    for n in 0..300 {
        path.push_str("/d");
        // Files before and after the next directory: so the way back up is needed, too.
        fs.file(&format!("{path}/a{n}"), b"a");
        fs.dir(&format!("{path}/d"));
        fs.file(&format!("{path}/z{n}"), b"z");
    }
    let p = place();
    let summary = copy(&fs, &p.to);
    assert_eq!(summary.error_count, 0, "{:?}", summary.errors);
    assert_eq!((summary.files, summary.directories), (600, 302));
    let mut found = 0;
    let mut at = p.to.clone();
    for n in 0..300 {
        at.push("d");
        found += usize::from(at.join(format!("a{n}")).exists());
        found += usize::from(at.join(format!("z{n}")).exists());
    }
    assert_eq!(found, 600);
}

#[test]
fn without_attributes_the_umask_counts() {
    let mut fs = MemoryFs::new();
    let dir = fs.dir("/d");
    fs.metadata_mut(dir).permissions = 0o2575;
    let file = fs.file("/d/f", b"x");
    fs.metadata_mut(file).permissions = 0o4777;
    fs.metadata_mut(file).uid = 12345;
    let p = place();
    let options = CopyOptions {
        preserve: Preserve::NOTHING,
        ..CopyOptions::default()
    };
    let summary = copy_with(&fs, &p.to, options).unwrap();
    assert_eq!((summary.error_count, summary.owners_ignored), (0, 0));
    let reference = tempfile::tempdir().unwrap();
    fs::create_dir(reference.path().join("d")).unwrap();
    let umasked = mode(&reference.path().join("d"));
    assert_eq!(mode(&p.to.join("d")) & 0o777, 0o575 & umasked);
    assert_eq!(mode(&p.to.join("d/f")), 0o777 & umasked);
    assert_ne!(fs::metadata(p.to.join("d/f")).unwrap().uid(), 12345);
}

#[test]
fn owners_devices_and_attributes_as_far_as_the_host_allows() {
    let mut fs = MemoryFs::new();
    let file = fs.file("/f", b"x");
    fs.metadata_mut(file).uid = 12345;
    fs.metadata_mut(file).gid = 54321;
    fs.metadata_mut(file).permissions = 0o6755;
    fs.set_xattr(file, "user.note", b"kept");
    fs.special(
        "/null",
        FileType::CharacterDevice,
        Some(Device { major: 1, minor: 3 }),
    );
    let p = place();
    let summary = copy(&fs, &p.to);
    assert_eq!(summary.error_count, 0, "{:?}", summary.errors);
    let found = fs::metadata(p.to.join("f")).unwrap();
    if summary.owners_ignored == 0 {
        assert_eq!((found.uid(), found.gid()), (12345, 54321));
        assert_eq!(mode(&p.to.join("f")), 0o6755);
    } else {
        // All files belong to root on the image, and an ordinary user can't set that owner.
        assert_eq!(mode(&p.to.join("f")), 0o755);
    }
    if summary.specials_ignored == 0 {
        let null = fs::symlink_metadata(p.to.join("null")).unwrap();
        assert_eq!(null.rdev(), rustix::fs::makedev(1, 3));
    }
    if summary.xattrs_ignored == 0 {
        let mut value = [0; 16];
        let len = rustix::fs::getxattr(p.to.join("f"), "user.note", &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"kept");
    }
}

#[test]
fn a_copy_stops_when_progress_says_so() {
    let mut fs = MemoryFs::new();
    fs.file("/a", b"whole");
    fs.file("/b", &vec![1; 3 << 20]);
    fs.file("/c", b"never");
    let p = place();
    let until_half = &mut |_: &[u8], summary: &Summary| {
        if summary.bytes > 1 << 20 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    // The result is the same if errors are only recorded.
    let options = CopyOptions::default();
    let stopped = copy_out(&fs, fs.root(), &p.to, &options, until_half).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    let names: Vec<_> = std::fs::read_dir(&p.to).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn progress_is_reported() {
    let mut fs = MemoryFs::new();
    fs.file("/big", &vec![1; 3 << 20]);
    let p = place();
    let mut told = vec![];
    let note = &mut |path: &[u8], summary: &Summary| {
        told.push((path.to_vec(), summary.bytes));
        ControlFlow::Continue(())
    };
    copy_out(&fs, fs.root(), &p.to, &CopyOptions::default(), note).unwrap();
    let of_big: Vec<u64> = told.iter().filter(|t| t.0 == b"big").map(|t| t.1).collect();
    assert_eq!(of_big, [1 << 20, 2 << 20, 3 << 20, 3 << 20]);
}

#[test]
fn a_destination_needs_a_name_and_a_parent() {
    let fs = MemoryFs::new();
    let kind = |to: &str| {
        copy_with(&fs, Path::new(to), CopyOptions::default())
            .unwrap_err()
            .kind()
    };
    assert_eq!(kind("/"), ErrorKind::Invalid);
    assert_eq!(kind("/no/such/dir/x"), ErrorKind::NotFound);
}

#[test]
fn errors_of_the_host_keep_their_reason() {
    let error = host::failed("writing", rustix::io::Errno::NOSPC);
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.downcast_ref::<io::Error>().is_some());
}
