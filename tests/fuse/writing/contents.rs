//! File contents: reads return what was written, and lost data is an error.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use diskfs::vfs::testing::{Limits, Synced, WritableMemoryFs};
use diskfs::vfs::{ErrorKind, FsRead, InodeNumber, SyncFile};
use diskfs_fixtures::require;
use rustix::fs::{FallocateFlags, SeekFrom};

use super::{Writable, failure};
use crate::{can_mount, run};

fn open(path: &Path) -> File {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).unwrap()
}

fn inode(path: &Path) -> InodeNumber {
    InodeNumber(fs::metadata(path).unwrap().ino())
}

/// Returns a file's contents as the filesystem stores them.
fn stored(fs: &WritableMemoryFs, inode: InodeNumber) -> Vec<u8> {
    let len = fs.metadata(inode).unwrap().size_bytes;
    let mut contents = vec![0; len.try_into().unwrap()];
    assert_eq!(fs.read_at(inode, 0, &mut contents).unwrap(), contents.len());
    contents
}

#[test]
fn what_is_closed_is_with_the_filesystem() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let data: Vec<u8> = (0..3_000_001_u32).map(|n| (n % 251) as u8).collect();
    fs::write(m.join("f"), &data).unwrap();
    assert!(stored(&m.fs, inode(&m.join("f"))) == data);
    let file = open(&m.join("f"));
    file.write_all_at(b"patch", 1_000_000).unwrap();
    file.set_len(2_000_000).unwrap();
    drop(file);
    let mut expected = data;
    expected.truncate(2_000_000);
    expected[1_000_000..1_000_005].copy_from_slice(b"patch");
    assert!(stored(&m.fs, inode(&m.join("f"))) == expected);
    assert!(fs::read(m.join("f")).unwrap() == expected);
    fs::write(m.join("f"), "cut by O_TRUNC").unwrap();
    assert_eq!(stored(&m.fs, inode(&m.join("f"))), b"cut by O_TRUNC");
}

#[test]
fn syncing_reaches_the_filesystem() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let mut file = open(&m.join("f"));
    let f = inode(&m.join("f"));
    // All data is synced periodically.
    let synced = || {
        let mut synced = m.fs.take_synced();
        synced.retain(|what| *what != Synced::All);
        synced
    };
    synced();
    file.write_all(b"data").unwrap();
    file.sync_data().unwrap();
    assert_eq!(stored(&m.fs, f), b"data");
    assert_eq!(synced(), [Synced::File(f, SyncFile::Data)]);
    file.write_all(b" more").unwrap();
    file.sync_all().unwrap();
    assert_eq!(stored(&m.fs, f), b"data more");
    assert_eq!(synced(), [Synced::File(f, SyncFile::All)]);
    File::open(&*m).unwrap().sync_all().unwrap();
    let root = m.fs.root();
    assert_eq!(synced(), [Synced::File(root, SyncFile::All)]);
}

#[test]
fn a_mapped_file_is_written_back() {
    if can_mount().is_none() || require("python3").is_none() {
        return;
    }
    let m = Writable::new();
    fs::write(m.join("f"), vec![b'.'; 20_000]).unwrap();
    let script = "import mmap,sys\n\
        f=open(sys.argv[1],'r+b'); m=mmap.mmap(f.fileno(),0)\n\
        m[5000:5006]=b'mapped'; m.flush()\n\
        f.seek(5000); assert f.read(6)==b'mapped'\n";
    let path = m.join("f");
    run("python3", &["-c".as_ref(), script.as_ref(), path.as_ref()]);
    assert_eq!(&stored(&m.fs, inode(&path))[4999..5007], b".mapped.");
}

#[test]
fn two_processes_append_side_by_side() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let script = "for n in $(seq 500); do echo \"$0 line $n\" >>\"$1\"; done";
    let writers: Vec<_> = ["a", "b"]
        .iter()
        .map(|name| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script, name]).arg(m.join("log"));
            shell.spawn().unwrap()
        })
        .collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let log = fs::read_to_string(m.join("log")).unwrap();
    for name in ["a", "b"] {
        let lines = log.lines().filter(|line| line.starts_with(name));
        let wanted = (1..=500).map(|n| format!("{name} line {n}"));
        assert!(lines.eq(wanted), "{name}");
    }
    assert_eq!(log.lines().count(), 1000);
}

#[test]
fn ranges_are_allocated_and_punched() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let file = open(&m.join("f"));
    let change = |flags, offset, len| rustix::fs::fallocate(&file, flags, offset, len);
    let keep = FallocateFlags::KEEP_SIZE;
    change(FallocateFlags::empty(), 0, 100_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 100_000);
    change(keep, 0, 1 << 20).unwrap();
    let found = file.metadata().unwrap();
    assert_eq!((found.len(), found.blocks()), (100_000, 2048));
    file.write_all_at(&vec![7; 65536], 0).unwrap();
    change(FallocateFlags::PUNCH_HOLE | keep, 4096, 8192).unwrap();
    change(FallocateFlags::ZERO_RANGE, 30_000, 5000).unwrap();
    let mut expected = vec![0; 100_000];
    expected[..65536].fill(7);
    expected[4096..12288].fill(0);
    expected[30_000..35_000].fill(0);
    assert!(fs::read(m.join("f")).unwrap() == expected);
    file.sync_all().unwrap();
    let seek = |from| rustix::fs::seek(&file, from).unwrap();
    assert_eq!(seek(SeekFrom::Hole(0)), 4096);
    assert_eq!(seek(SeekFrom::Data(4096)), 12288);
    // The kernel does not pass these on to any FUSE filesystem.
    let moved = change(FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(moved.unwrap_err(), rustix::io::Errno::OPNOTSUPP);
}

#[test]
fn contents_are_copied_without_their_holes() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let (from, to) = (open(&m.join("from")), open(&m.join("to")));
    from.write_all_at(&[1; 10_000], 0).unwrap();
    from.write_all_at(&[2; 10_000], 8 << 20).unwrap();
    let (mut offset, mut total) = (0, 0);
    loop {
        let (mut at, rest) = (offset, usize::MAX >> 1);
        let copied =
            rustix::fs::copy_file_range(&from, Some(&mut offset), &to, Some(&mut at), rest)
                .unwrap();
        if copied == 0 {
            break;
        }
        total += copied;
    }
    assert_eq!(total, (8 << 20) + 10_000);
    assert!(fs::read(m.join("to")).unwrap() == fs::read(m.join("from")).unwrap());
    let blocks = |file: &File| file.metadata().unwrap().blocks();
    assert_eq!(blocks(&to), blocks(&from));
}

#[test]
fn a_full_filesystem_is_told_at_the_latest_when_a_file_is_closed() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::with(WritableMemoryFs::with_limits(Limits {
        blocks: 100,
        inodes: 4,
    }));
    let mut file = open(&m.join("f"));
    let written = file.write_all(&vec![1; 1 << 20]);
    let synced = file.sync_all();
    let told = failure(written).or(failure(synced));
    assert_eq!(told, Some(libc::ENOSPC), "by write or fsync");
    drop(file);
    assert_eq!(m.fs.statistics().unwrap().blocks_free, 0);
    let of = format!("of={}", m.join("g").display());
    let dd = Command::new("dd")
        .args(["if=/dev/zero", &of, "bs=64k", "count=16"])
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&dd.stderr).into_owned();
    assert!(
        !dd.status.success() && said.contains("No space left"),
        "{said}"
    );
    assert_eq!(rustix::fs::statvfs(&*m).unwrap().f_bfree, 0, "live");
    fs::write(m.join("h"), "").unwrap();
    let inodes = failure(File::create(m.join("i")));
    assert_eq!(inodes, Some(libc::ENOSPC));
    fs::remove_file(m.join("f")).unwrap();
    m.wait_for("the file's blocks", |fs| {
        fs.statistics().unwrap().blocks_free >= 99
    });
    fs::write(m.join("h"), vec![1; 300_000]).unwrap();
}

#[test]
fn refusals_arrive_as_themselves() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    fs::write(m.join("f"), "x").unwrap();
    for (kind, errno) in [
        (ErrorKind::QuotaExceeded, libc::EDQUOT),
        (ErrorKind::ReadOnly, libc::EROFS),
        (ErrorKind::Corrupt, libc::EUCLEAN),
    ] {
        m.fs.refuse(Some(kind));
        assert_eq!(failure(File::create(m.join("g"))), Some(errno));
        assert_eq!(failure(fs::create_dir(m.join("g"))), Some(errno));
        assert_eq!(failure(fs::remove_file(m.join("f"))), Some(errno));
        let file = open(&m.join("f"));
        let written = file.write_all_at(b"y", 0);
        let told = failure(written).or(failure(file.sync_all()));
        assert_eq!(told, Some(errno));
        m.fs.refuse(None);
        // The data in the kernel's cache.
        let _ = file.sync_all();
    }
    fs::write(m.join("f"), "fine again").unwrap();
    assert_eq!(stored(&m.fs, inode(&m.join("f"))), b"fine again");
}

#[test]
fn times_are_as_they_were_set_or_as_of_now() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let path = m.join("f");
    let file = open(&path);
    let time = |seconds, nanoseconds| SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    let times = fs::FileTimes::new()
        .set_accessed(time(0x3_0000_0000, 1))
        .set_modified(time(5, 999_999_999));
    file.set_times(times).unwrap();
    let stored_times = || {
        let found = m.fs.metadata(inode(&path)).unwrap();
        (found.accessed, found.modified, found.changed)
    };
    let (accessed, modified, changed) = stored_times();
    assert_eq!((accessed.seconds, accessed.nanoseconds), (0x3_0000_0000, 1));
    assert_eq!((modified.seconds, modified.nanoseconds), (5, 999_999_999));
    assert!(changed.seconds > 1_600_000_000);
    // A late write, and then what cp -p does: the time must survive the cache.
    file.write_all_at(b"late", 0).unwrap();
    assert!(file.metadata().unwrap().mtime() > 5);
    file.set_times(fs::FileTimes::new().set_modified(time(7, 7)))
        .unwrap();
    drop(file);
    let (accessed, modified, _) = stored_times();
    assert_eq!((modified.seconds, modified.nanoseconds), (7, 7));
    assert_eq!(accessed.seconds, 0x3_0000_0000, "UTIME_OMIT");
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.mtime(), found.mtime_nsec()), (7, 7));
}

/// Opening a running program with `O_TRUNC` fails, and leaves the program and its file unchanged.
#[test]
fn a_running_program_is_not_truncated() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let program = m.join("sleep");
    fs::copy("/bin/sleep", &program).unwrap();
    let size_bytes = fs::metadata(&program).unwrap().len();
    let mut running = Command::new(&program).arg("60").spawn().unwrap();
    for options in [
        File::options().write(true),
        File::options().write(true).truncate(true),
        File::options().read(true).custom_flags(libc::O_TRUNC),
    ] {
        let refused = options.open(&program).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ExecutableFileBusy);
    }
    assert!(running.try_wait().unwrap().is_none());
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(fs::metadata(&program).unwrap().len(), size_bytes);
    assert!(fs::read(&program).unwrap() == fs::read("/bin/sleep").unwrap());
}

#[test]
fn locks_hold_between_processes() {
    if can_mount().is_none() || require("python3").is_none() {
        return;
    }
    let m = Writable::new();
    let path = m.join("f");
    fs::write(&path, "0123456789").unwrap();
    let script = "import fcntl,sys\n\
        f=open(sys.argv[1],'r+b')\n\
        def taken(lock):\n\
        \x20   try: lock(); return 'free'\n\
        \x20   except OSError as e: return e.errno\n\
        x=fcntl.LOCK_EX|fcntl.LOCK_NB\n\
        print(taken(lambda: fcntl.flock(f,x)),\n\
        \x20   taken(lambda: fcntl.lockf(f,x,5,0)), taken(lambda: fcntl.lockf(f,x,5,5)))\n";
    let ask = || run("python3", &["-c".as_ref(), script.as_ref(), path.as_ref()]);
    assert_eq!(ask().trim(), "free free free");
    let file = open(&path);
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert_eq!(ask().trim(), "11 free free");
    drop(file);
    let holder = "import fcntl,sys\nf=open(sys.argv[1],'r+b'); fcntl.lockf(f,fcntl.LOCK_EX,5,0)\n\
        print('locked',flush=True); sys.stdin.read()\n";
    let mut holder = Command::new("python3")
        .args(["-c", holder])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 7];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(ask().trim(), "free 11 free");
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    assert_eq!(ask().trim(), "free free free");
}
