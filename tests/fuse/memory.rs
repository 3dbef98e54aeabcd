//! A filesystem in memory, with arbitrary contents, which a thread serves.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::sync::Arc;

use diskfs::export::fuse::{Access, IdMap, Options, mount};
use diskfs::vfs::testing::{Fault, MemoryFs};
use diskfs::vfs::{Device, FileType, FsRead, Timestamp};
use rustix::fs::SeekFrom;

use super::served::{Served, errno};
use super::{can_mount, run};

fn serve(fs: MemoryFs) -> Served {
    serve_with(fs, &Options::default())
}

fn serve_with(fs: MemoryFs, options: &Options) -> Served {
    Served::start(|at| mount(Arc::new(fs), at, options))
}

#[test]
fn metadata_is_as_the_filesystem_says() {
    if can_mount().is_none() {
        return;
    }
    let mut fs = MemoryFs::new();
    let file = fs.file("/etc/hello", b"hello\n");
    let m = fs.metadata_mut(file);
    (m.uid, m.gid, m.permissions) = (1234, 5678, 0o6751);
    m.modified = Timestamp {
        seconds: -5,
        nanoseconds: 999_999_999,
    };
    m.accessed.seconds = 0x3_0000_0000;
    fs.hard_link("/second", file);
    fs.symlink("/link", "etc/hello");
    fs.special(
        "/disk",
        FileType::BlockDevice,
        Some(Device {
            major: 259,
            minor: 0x12345,
        }),
    );
    fs.special("/fifo", FileType::Fifo, None);
    let root = fs.root();
    let m = serve(fs);
    let hello = fs::metadata(m.join("etc/hello")).unwrap();
    assert_eq!(
        (hello.uid(), hello.gid(), hello.mode()),
        (1234, 5678, 0o106_751)
    );
    assert_eq!((hello.mtime(), hello.mtime_nsec()), (-5, 999_999_999));
    assert_eq!(hello.atime(), 0x3_0000_0000);
    assert_eq!((hello.ino(), hello.nlink(), hello.len()), (file.0, 2, 6));
    assert_eq!(fs::metadata(m.join("second")).unwrap().ino(), file.0);
    assert_eq!(fs::metadata(&*m).unwrap().ino(), root.0);
    assert_eq!(
        fs::read_link(m.join("link")).unwrap().to_str(),
        Some("etc/hello")
    );
    assert_eq!(fs::read(m.join("link")).unwrap(), b"hello\n");
    let disk = fs::symlink_metadata(m.join("disk")).unwrap();
    assert!(disk.file_type().is_block_device());
    assert_eq!(disk.rdev(), rustix::fs::makedev(259, 0x12345));
    assert!(
        fs::symlink_metadata(m.join("fifo"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
    assert_eq!(errno(&fs::read(m.join("none")).unwrap_err()), libc::ENOENT);
    assert_eq!(
        errno(&fs::write(m.join("new"), b"").unwrap_err()),
        libc::EROFS
    );
    let s = rustix::fs::statvfs(&*m).unwrap();
    assert_eq!(
        (s.f_bsize, s.f_blocks, s.f_bfree, s.f_bavail),
        (4096, 1000, 300, 200)
    );
}

#[test]
fn ten_thousand_entries_come_once_each() {
    if can_mount().is_none() {
        return;
    }
    let mut fs = MemoryFs::new();
    for n in 0..10_000 {
        fs.file(&format!("/big/{n:05}-{}", "x".repeat(n % 200)), b"x");
    }
    let m = serve(fs);
    let list = || {
        let entries = fs::read_dir(m.join("big")).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
        names.sort_unstable();
        names
    };
    let names = list();
    assert_eq!(names.len(), 10_000);
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(list(), names, "from the kernel's cache");
    // Several threads at once, each at another position of the directory.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(list().len(), 10_000));
        }
    });
}

#[test]
fn contents_are_right_wherever_they_are_read() {
    if can_mount().is_none() {
        return;
    }
    let data: Vec<u8> = (0..5_000_003_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut fs = MemoryFs::new();
    fs.file("/f", &data);
    let m = serve(fs);
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (m, data) = (&m, &data);
            scope.spawn(move || {
                let file = File::open(m.join("f")).unwrap();
                let mut buf = vec![0; 70_000];
                for step in 0..50 {
                    let at = (thread * 1_234_567 + step * 98_765) % data.len();
                    let read = file.read_at(&mut buf, at as u64).unwrap();
                    assert!(read > 0 && buf[..read] == data[at..at + read], "at {at}");
                }
            });
        }
    });
    assert!(fs::read(m.join("f")).unwrap() == data);
    let mut tail = vec![];
    let file = File::open(m.join("f")).unwrap();
    rustix::fs::seek(&file, SeekFrom::Start(5_000_000)).unwrap();
    (&file).read_to_end(&mut tail).unwrap();
    assert_eq!(tail, &data[5_000_000..]);
}

#[test]
fn holes_are_found() {
    if can_mount().is_none() {
        return;
    }
    let mut fs = MemoryFs::new();
    let runs: [(u64, &[u8]); 2] = [(1 << 20, &[7; 8192]), (3 << 20, &[9; 4096])];
    fs.sparse_file("/f", &runs, 4 << 20);
    let m = serve(fs);
    let file = File::open(m.join("f")).unwrap();
    let seek = |from| rustix::fs::seek(&file, from).map_err(rustix::io::Errno::raw_os_error);
    assert_eq!(seek(SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(seek(SeekFrom::Hole(0)), Ok(0));
    assert_eq!(seek(SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 8192));
    assert_eq!(seek(SeekFrom::Data((1 << 20) + 8192)), Ok(3 << 20));
    assert_eq!(seek(SeekFrom::Data((3 << 20) + 4096)), Err(libc::ENXIO));
    assert_eq!(seek(SeekFrom::Hole(4 << 20)), Err(libc::ENXIO));
}

/// Returns the POSIX ACL that `setfacl -m u:1234:rwx` makes of mode 640.
fn acl() -> Vec<u8> {
    let entry = |tag: u16, permissions: u16, id: u32| {
        [
            &tag.to_le_bytes()[..],
            &permissions.to_le_bytes(),
            &id.to_le_bytes(),
        ]
        .concat()
    };
    [
        2_u32.to_le_bytes().to_vec(),
        entry(0x01, 6, u32::MAX),
        entry(0x02, 7, 1234),
        entry(0x04, 4, u32::MAX),
        entry(0x10, 7, u32::MAX),
        entry(0x20, 0, u32::MAX),
    ]
    .concat()
}

#[test]
fn attributes_and_acls_are_shown() {
    if can_mount().is_none() || diskfs_fixtures::require("getfacl").is_none() {
        return;
    }
    let ids = IdMap {
        uid: "0:100000:65536".parse().unwrap(),
        ..IdMap::default()
    };
    for (access, ids, user) in [
        (Access::Owner, IdMap::default(), "user:1234:rwx"),
        (Access::Everyone, IdMap::default(), "user:1234:rwx"),
        (Access::Owner, ids, "user:101234:rwx"),
    ] {
        let mut fs = MemoryFs::new();
        let file = fs.file("/f", b"");
        fs.metadata_mut(file).permissions = 0o670;
        fs.set_xattr(file, "system.posix_acl_access", &acl());
        fs.set_xattr(file, "user.note", &[b'n'; 300]);
        let options = Options {
            access,
            ids,
            ..Options::default()
        };
        let m = serve_with(fs, &options);
        let path = m.join("f");
        let listed = run("getfacl", &["-nc".as_ref(), path.as_os_str()]);
        assert!(
            listed.lines().any(|line| line == user),
            "{access:?}: {listed}"
        );
        let mut value = vec![0; 1000];
        let read = |buf: &mut [u8], name: &str| rustix::fs::getxattr(&path, name, buf);
        assert_eq!(read(&mut value, "user.note"), Ok(300));
        assert_eq!(&value[..300], &[b'n'; 300]);
        let short = read(&mut value[..10], "user.note");
        assert_eq!(short, Err(rustix::io::Errno::RANGE));
        let none = read(&mut value, "user.none");
        assert_eq!(none, Err(rustix::io::Errno::NODATA));
        let mut names = vec![0; 1000];
        let len = rustix::fs::listxattr(&path, &mut names[..]).unwrap();
        let names = String::from_utf8_lossy(&names[..len]).into_owned();
        assert!(names.contains("user.note\0"), "{names}");
    }
}

#[test]
fn owners_are_mapped() {
    if can_mount().is_none() {
        return;
    }
    let mut fs = MemoryFs::new();
    let file = fs.file("/f", b"");
    fs.metadata_mut(file).uid = 5;
    fs.metadata_mut(file).gid = 70_000;
    let options = Options {
        ids: IdMap {
            uid: "1000".parse().unwrap(),
            gid: "0:100000:65536".parse().unwrap(),
        },
        ..Options::default()
    };
    let m = serve_with(fs, &options);
    let found = fs::metadata(m.join("f")).unwrap();
    assert_eq!((found.uid(), found.gid()), (1000, 65534));
}

#[test]
fn what_is_broken_fails_alone() {
    if can_mount().is_none() {
        return;
    }
    let mut fs = MemoryFs::new();
    for (path, fault) in [
        ("/unreadable", Fault::Read),
        ("/panics", Fault::PanicOnRead),
        ("/no-metadata", Fault::Metadata),
    ] {
        let file = fs.file(path, b"contents");
        fs.fail(file, fault);
    }
    let dir = fs.dir("/dir");
    fs.fail(dir, Fault::ReadDir);
    fs.entry("/loop", fs.root());
    fs.file("/fine", b"fine");
    let m = serve(fs);
    let fails = |name: &str| errno(&fs::read(m.join(name)).unwrap_err());
    assert_eq!(fails("unreadable"), libc::EIO);
    assert_eq!(fails("panics"), libc::EIO);
    assert_eq!(fails("no-metadata"), libc::EIO);
    assert_eq!(fails("loop"), libc::EUCLEAN);
    assert_eq!(
        errno(
            &fs::read_dir(m.join("dir"))
                .unwrap()
                .next()
                .unwrap()
                .unwrap_err()
        ),
        libc::EIO
    );
    let mut names: Vec<_> = fs::read_dir(&*m)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["dir", "fine", "loop", "no-metadata", "panics", "unreadable"]
    );
    assert_eq!(fs::read(m.join("fine")).unwrap(), b"fine");
}
