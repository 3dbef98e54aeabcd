//! A full filesystem: a write that needs space fails, and data that no call could report is
//! reported at the end.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use diskfs::export::fuse::Writes;
use diskfs::vfs::FsRead;
use diskfs::vfs::testing::{Limits, WritableMemoryFs};
use diskfs_fixtures::require;

use super::{Writable, failure};
use crate::{can_mount, run};

/// Makes a filesystem of this many blocks of 4 KiB.
fn small(blocks: u64) -> WritableMemoryFs {
    WritableMemoryFs::with_limits(Limits {
        blocks,
        inodes: 2000,
    })
}

/// Writes pieces of `len` bytes until no space is left; returns their number, and the errno of the
/// next write.
fn fill(path: &Path, len: usize) -> (usize, Option<i32>) {
    let mut file = File::create(path).unwrap();
    let piece = vec![b'x'; len];
    for written in 0.. {
        assert!(written * len < 64 << 20, "far more than there is room for");
        if let Err(error) = file.write_all(&piece) {
            return (written * len, error.raw_os_error());
        }
    }
    unreachable!("it is never full")
}

/// Test generic/015 of xfstests, with additional sizes of writes.
#[test]
fn no_room_is_an_error_of_the_write_that_needs_it() {
    if can_mount().is_none() {
        return;
    }
    for len in [11, 4096, 1 << 20] {
        let m = Writable::with(small(512));
        let free = m.fs.statistics().unwrap().blocks_free;
        let (written, told) = fill(&m.join("f"), len);
        assert_eq!(told, Some(libc::ENOSPC), "writes of {len}");
        assert!(written as u64 <= free * 4096);
        let size = fs::metadata(m.join("f")).unwrap().len();
        let room = size - written as u64;
        assert!(room < len as u64, "writes of {len}: {size} for {written}");
        // The stored part is what was written.
        assert!(fs::read(m.join("f")).unwrap().iter().all(|&b| b == b'x'));
        // Each write fails: also to an open file, and to a new one.
        for name in ["f", "g"] {
            let mut file = File::options()
                .append(true)
                .create(true)
                .open(m.join(name))
                .unwrap();
            for _ in 0..3 {
                let told = failure(file.write_all(&[0; 8192]));
                assert_eq!(told, Some(libc::ENOSPC), "{name}");
            }
        }
        fs::remove_file(m.join("f")).unwrap();
        m.wait_for("room", |fs| {
            fs.statistics().unwrap().blocks_free + 4 >= free
        });
        fs::write(m.join("h"), vec![1; 100_000]).unwrap();
    }
}

/// A write fails, too, if it began while there was enough space for all of it.
#[test]
fn one_large_write_is_told_where_room_ended() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::with(small(1024));
    let mut file = File::create(m.join("f")).unwrap();
    let written = file.write(&vec![1; 64 << 20]).unwrap();
    assert!(written < 5 << 20, "{written}");
    assert_eq!(failure(file.write(b"x")), Some(libc::ENOSPC));
    assert_eq!(fs::metadata(m.join("f")).unwrap().len(), written as u64);
}

/// Test generic/224 of xfstests: all writers reach the end of the space.
#[test]
fn many_writers_of_a_full_filesystem_all_hear_of_it() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::with(small(2048));
    std::thread::scope(|scope| {
        for n in 0..100 {
            let path = m.join(n.to_string());
            scope.spawn(move || {
                let mut file = File::create(path).unwrap();
                let piece = vec![7; 128 << 10];
                let told = (0..100).find_map(|_| failure(file.write_all(&piece)));
                assert_eq!(told, Some(libc::ENOSPC));
            });
        }
    });
    assert_eq!(m.fs.statistics().unwrap().blocks_free, 0);
    m.end_well();
}

/// The program that writes to a mapping of a file without space for it.
const MAP: &str = "import mmap,sys\n\
    f=open(sys.argv[1],'r+b'); m=mmap.mmap(f.fileno(),0)\n\
    m[0:4096*64]=b'm'*(4096*64)\n\
    try: m.flush()\n\
    except OSError as e: print(e.errno)\n";

#[test]
fn what_a_mapping_held_and_had_no_room_is_told_and_shown_as_lost() {
    if can_mount().is_none() || require("python3").is_none() {
        return;
    }
    let m = Writable::with(small(64));
    let path = m.join("sparse");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    fs::write(m.join("fill"), vec![1; 60 * 4096]).unwrap();
    let told = run("python3", &["-c".as_ref(), MAP.as_ref(), path.as_ref()]);
    assert_eq!(told.trim(), libc::ENOSPC.to_string(), "by msync");
    // Reads don't return data from memory that the filesystem doesn't have.
    let lost = |_: &WritableMemoryFs| {
        let mut page = [0; 4096];
        let file = File::open(&path).unwrap();
        file.read_exact_at(&mut page, 63 * 4096).unwrap();
        page == [0; 4096]
    };
    m.wait_for("what was lost to go", lost);
    let words = m.end_badly();
    assert!(words.contains("was lost"), "{words}");
}

/// With `-o writeback`, close fails, and the unmount reports it.
#[test]
fn what_the_cache_held_and_had_no_room_is_told_at_the_end() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::with_writes(small(64), Writes::Cached);
    let of = format!("of={}", m.join("f").display());
    let dd = Command::new("dd")
        .args(["if=/dev/zero", &of, "bs=64k", "count=16"])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!dd.success());
    let words = m.end_badly();
    assert!(words.contains("was lost"), "{words}");
}
