//! Names that are created, removed and moved, and files that live as long as they are used.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use diskfs::vfs::FsRead;
use diskfs::vfs::testing::{Synced, WritableMemoryFs};
use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags};

use super::{Writable, failure};
use crate::can_mount;

fn links(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().nlink()
}

#[test]
fn an_open_file_lives_without_a_name() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    fs::write(m.join("f"), "old").unwrap();
    let mut open = File::options()
        .read(true)
        .write(true)
        .open(m.join("f"))
        .unwrap();
    fs::remove_file(m.join("f")).unwrap();
    assert!(!m.join("f").exists());
    open.write_all(b"new contents").unwrap();
    open.sync_all().unwrap();
    let mut read = String::new();
    std::io::Seek::rewind(&mut open).unwrap();
    open.read_to_string(&mut read).unwrap();
    assert_eq!(read, "new contents");
    assert_eq!(open.metadata().unwrap().nlink(), 0);
    assert_eq!(m.fs.file_count(), 2);
    drop(open);
    m.wait_for("the file's end", |fs| fs.file_count() == 1);
}

#[test]
fn a_file_that_is_replaced_lives_as_long_as_it_is_open() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    fs::write(m.join("old"), "old").unwrap();
    fs::write(m.join("new"), "new").unwrap();
    let mut open = File::open(m.join("old")).unwrap();
    fs::rename(m.join("new"), m.join("old")).unwrap();
    let mut read = String::new();
    open.read_to_string(&mut read).unwrap();
    assert_eq!(read, "old");
    assert_eq!(fs::read_to_string(m.join("old")).unwrap(), "new");
    assert!(!m.join("new").exists());
    drop(open);
    m.wait_for("the file's end", |fs| fs.file_count() == 2);
}

/// Creates many more files than the kernel gets at once, and checks that none of them stays
/// referenced.
fn nothing_leaks(count: usize) {
    let m = Writable::new();
    for n in 0..count {
        File::create(m.join(n.to_string())).unwrap();
    }
    assert_eq!(fs::read_dir(&*m).unwrap().count(), count);
    for n in 0..count {
        fs::remove_file(m.join(n.to_string())).unwrap();
    }
    m.wait_for("the files' end", |fs| fs.file_count() == 1);
    let fs = std::sync::Arc::clone(&m.fs);
    m.mount.end();
    assert!(fs.held().is_empty());
}

#[test]
fn files_that_are_gone_are_not_held() {
    if can_mount().is_some() {
        nothing_leaks(3000);
    }
}

#[test]
#[ignore = "takes half a minute"]
fn a_hundred_thousand_files_that_are_gone_are_not_held() {
    if can_mount().is_some() {
        nothing_leaks(100_000);
    }
}

#[test]
fn files_that_stay_are_let_go_at_the_end() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    for n in 0..100 {
        fs::write(m.join(n.to_string()), "x").unwrap();
    }
    let fs = std::sync::Arc::clone(&m.fs);
    m.mount.end();
    assert!(fs.held().is_empty());
    assert_eq!(fs.file_count(), 101);
    assert_eq!(fs.take_synced().last(), Some(&Synced::Closed));
}

#[test]
fn every_kind_of_file_is_made() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let mode = Mode::from_raw_mode(0o640);
    let device = rustix::fs::makedev(259, 0x12345);
    for (name, kind, device) in [
        ("char", FileType::CharacterDevice, device),
        ("block", FileType::BlockDevice, device),
        ("fifo", FileType::Fifo, 0),
        ("socket", FileType::Socket, 0),
        ("file", FileType::RegularFile, 0),
    ] {
        rustix::fs::mknodat(CWD, m.join(name), kind, mode, device).unwrap();
        let found = fs::symlink_metadata(m.join(name)).unwrap();
        assert_eq!(FileType::from_raw_mode(found.mode()), kind);
        assert_eq!((found.rdev(), found.mode() & 0o777), (device, 0o640));
        let inode = diskfs::vfs::InodeNumber(found.ino());
        assert_eq!(m.fs.metadata(inode).unwrap().mode(), found.mode());
    }
    std::os::unix::fs::symlink("target", m.join("link")).unwrap();
    let target = fs::read_link(m.join("link")).unwrap();
    assert_eq!(target.to_str(), Some("target"));
    fs::create_dir(m.join("dir")).unwrap();
    let again = failure(fs::create_dir(m.join("dir")));
    assert_eq!(again, Some(libc::EEXIST));
    let exclusive = File::options()
        .write(true)
        .create_new(true)
        .open(m.join("file"));
    assert_eq!(failure(exclusive), Some(libc::EEXIST));
    assert_eq!(failure(fs::remove_dir(m.join("file"))), Some(libc::ENOTDIR));
    let long = m.join("x".repeat(256));
    assert_eq!(failure(File::create(long)), Some(libc::ENAMETOOLONG));
}

#[test]
fn renames_of_every_kind() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let rename = |from: &str, to: &str, flags| {
        let done = rustix::fs::renameat_with(CWD, m.join(from), CWD, m.join(to), flags);
        done.map_err(rustix::io::Errno::raw_os_error)
    };
    fs::create_dir_all(m.join("a/b")).unwrap();
    fs::write(m.join("f"), "f").unwrap();
    let refused = rename("f", "a", RenameFlags::NOREPLACE);
    assert_eq!(refused, Err(libc::EEXIST));
    rename("f", "a/b", RenameFlags::EXCHANGE).unwrap();
    assert!(m.join("f").is_dir() && m.join("a/b").is_file());
    assert_eq!((links(&m), links(&m.join("a"))), (4, 2));
    rename("a/b", "f/g", RenameFlags::WHITEOUT).unwrap();
    let whiteout = fs::symlink_metadata(m.join("a/b")).unwrap();
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
    assert_eq!(fs::read_to_string(m.join("f/g")).unwrap(), "f");
    rename("f", "a/d", RenameFlags::empty()).unwrap();
    assert_eq!((links(&m), links(&m.join("a"))), (3, 3));
    assert_eq!(
        rename("a", "a/d/x", RenameFlags::empty()),
        Err(libc::EINVAL)
    );
    assert_eq!(
        rename("a/b", "a/d", RenameFlags::empty()),
        Err(libc::EISDIR)
    );
}

#[test]
fn what_the_kernel_remembers_stays_true() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    assert!(!m.join("x").exists(), "remembered as absent");
    fs::write(m.join("x"), "1").unwrap();
    assert!(m.join("x").exists());
    fs::hard_link(m.join("x"), m.join("y")).unwrap();
    assert_eq!((links(&m.join("x")), links(&m.join("y"))), (2, 2));
    fs::write(m.join("y"), "longer").unwrap();
    assert_eq!(fs::metadata(m.join("x")).unwrap().len(), 6);
    fs::remove_file(m.join("x")).unwrap();
    assert!(!m.join("x").exists());
    assert_eq!(links(&m.join("y")), 1);
    let before = fs::metadata(&*m).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::create_dir(m.join("d")).unwrap();
    let after = fs::metadata(&*m).unwrap();
    assert!(after.modified().unwrap() > before.modified().unwrap());
    assert!((after.ctime(), after.ctime_nsec()) > (before.ctime(), before.ctime_nsec()));
    assert_eq!(after.nlink(), before.nlink() + 1);
    fs::remove_dir(m.join("d")).unwrap();
    assert_eq!(links(&m), before.nlink());
}

#[test]
fn a_number_that_is_used_again_is_another_file() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    for round in 0..50_u32 {
        let path = m.join("f");
        fs::write(&path, round.to_string()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), round.to_string());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(round.to_string(), &path).unwrap();
        let target = fs::read_link(&path).unwrap();
        assert_eq!(target.to_str(), Some(round.to_string().as_str()));
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_file_without_a_name_goes_when_it_is_closed() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::with(WritableMemoryFs::new());
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let before = m.fs.file_count();
    let file = rustix::fs::open(&*m, flags, Mode::from_raw_mode(0o600)).expect("O_TMPFILE");
    assert_eq!(m.fs.file_count(), before + 1);
    assert_eq!(rustix::fs::fstat(&file).unwrap().st_nlink, 0);
    drop(file);
    m.wait_for("the file to go", |fs| fs.file_count() == before);
}
