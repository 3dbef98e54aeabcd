//! Tests of the library as a program uses it: options, changes by path, transactions, and the
//! examples.

use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use diskfs::block::{BlockRead, Memory};
use diskfs::image::Format;
use diskfs::vfs::copy_out::CopyOptions;
use diskfs::vfs::{FileType, Follow, SetTime, Timestamp};
use diskfs::{
    CancellationToken, Commits, Disk, DiskOptions, Error, ErrorKind, File, Filesystem, Volume,
};
use diskfs::{WritableFile, WritableFilesystem, WriteOptions};
use diskfs_fixtures::{image, require, run};

/// A copy of a fixture's image.
struct Copy {
    directory: tempfile::TempDir,
}

impl Copy {
    fn of(fixture: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::copy(image(fixture).path(), directory.path().join("disk")).unwrap();
        Self { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    fn open(&self) -> Disk {
        Disk::options().read_only(false).open(self.path()).unwrap()
    }

    /// Checks the filesystem with e2fsck.
    fn check(&self) {
        if require("e2fsck").is_some() {
            run("e2fsck", [Path::new("-fn"), &self.path()]).unwrap();
        }
    }
}

fn write(disk: &Disk) -> WritableFilesystem {
    disk.writable_filesystem(&WriteOptions::default()).unwrap()
}

#[test]
fn its_types_go_from_thread_to_thread() {
    fn goes<T: Send + Sync>() {}
    goes::<Disk>();
    goes::<DiskOptions>();
    goes::<Volume>();
    goes::<Filesystem>();
    goes::<File>();
    goes::<WritableFilesystem>();
    goes::<WritableFile>();
    goes::<Error>();
    goes::<diskfs::Keys>();
    goes::<diskfs::guest::System>();
    goes::<diskfs::inspect::Report>();
    goes::<diskfs::deploy::Deployment>();
}

#[test]
fn changes_by_path_are_there_when_the_image_is_opened_again() {
    let copy = Copy::of("ext4-default");
    let disk = copy.open();
    let fs = write(&disk);
    fs.mkdir_all("/new/a/b").unwrap();
    fs.write("/new/a/file", "first").unwrap();
    fs.set_permissions("/new/a/file", 0o600).unwrap();
    fs.write("/new/a/file", "second").unwrap();
    fs.chown("/new/a/file", Some(1000), Some(1001)).unwrap();
    let time = Timestamp {
        seconds: 1_000_000_000,
        nanoseconds: 5,
    };
    fs.set_times("/new/a/file", None, Some(SetTime::At(time)))
        .unwrap();
    fs.set_xattr("/new/a/file", "user.origin", "host").unwrap();
    fs.symlink("a/file", "/new/link").unwrap();
    fs.write("/new/link", "through the link").unwrap();
    fs.hard_link("/new/a/file", "/new/a/b/second").unwrap();
    fs.rename("/new/a/file", "/new/a/renamed").unwrap();
    fs.mkdir("/new/gone").unwrap();
    fs.remove("/new/gone").unwrap();
    fs.mkdir_all("/new/tree/below").unwrap();
    fs.write("/new/tree/below/file", "").unwrap();
    fs.remove_all("/new/tree").unwrap();
    fs.close().unwrap();
    drop(fs);
    disk.close().unwrap();

    copy.check();
    let disk = Disk::open(copy.path()).unwrap();
    let fs = disk.filesystem().unwrap();
    assert_eq!(fs.read("/new/a/renamed").unwrap(), b"through the link");
    assert_eq!(fs.read_link("/new/link").unwrap(), b"a/file");
    let metadata = fs.metadata("/new/a/b/second").unwrap();
    assert_eq!((metadata.uid, metadata.gid), (1000, 1001));
    assert_eq!(metadata.permissions, 0o600);
    assert_eq!(metadata.links, 2);
    let xattrs = fs.xattrs("/new/a/renamed").unwrap();
    assert!(xattrs.contains(&(b"user.origin".to_vec(), b"host".to_vec())));
    let mut names: Vec<_> = fs.read_dir("/new").unwrap();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<_> = names.into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, [b"a".to_vec(), b"link".to_vec()]);
}

#[test]
fn files_are_found_once_and_walked_in_order() {
    let copy = Copy::of("ext4-default");
    let disk = copy.open();
    let fs = write(&disk);
    fs.mkdir_all("/new/dir").unwrap();
    fs.write("/new/dir/b", "second").unwrap();
    fs.write("/new/dir/a", "first").unwrap();
    fs.symlink("dir/a", "/new/link").unwrap();
    let reader = fs.reader();
    let start = reader.node("/new", Follow::All).unwrap();
    let mut walked = Vec::new();
    for entry in start.walk_sorted() {
        let entry = entry.unwrap();
        let node = start.below(&entry.path, entry.metadata.inode);
        let contents = match entry.metadata.file_type {
            FileType::Regular => node.read_at_most(10).unwrap(),
            FileType::Symlink => node.read_link().unwrap(),
            _ => Vec::new(),
        };
        let path = String::from_utf8(node.path().to_vec()).unwrap();
        walked.push((path, String::from_utf8(contents).unwrap()));
    }
    let expected = [
        ("/new", ""),
        ("/new/dir", ""),
        ("/new/dir/a", "first"),
        ("/new/dir/b", "second"),
        ("/new/link", "dir/a"),
    ];
    assert_eq!(walked, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let found = reader.glob("/new/*/[ab]").unwrap();
    assert_eq!(found, [b"/new/dir/a", b"/new/dir/b"]);

    let host = tempfile::tempdir().unwrap();
    let options = CopyOptions::default();
    let copied = start.copy_to(&host.path().join("new"), &options, &mut |_, _| {
        ControlFlow::Continue(())
    });
    assert_eq!(copied.unwrap().files, 2);
    assert_eq!(
        std::fs::read(host.path().join("new/link")).unwrap(),
        b"first"
    );
    let error = start.read_at_most(10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IsADirectory);
    assert_eq!(error.file(), Some(&*copy.path()));
    assert_eq!(error.guest_path(), Some(&b"/new"[..]));
}

#[test]
fn errors_of_changes_name_image_and_path() {
    let copy = Copy::of("ext4-default");
    let disk = copy.open();
    let fs = write(&disk);
    let missing = fs.write("/no/such/directory", "x").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(missing.file(), Some(&*copy.path()));
    assert_eq!(missing.guest_path(), Some(&b"/no/such/directory"[..]));
    assert_eq!(
        fs.write("/", "x").unwrap_err().kind(),
        ErrorKind::IsADirectory
    );
    fs.mkdir("/twice").unwrap();
    assert_eq!(fs.mkdir("/twice").unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(fs.open("/none").unwrap_err().kind(), ErrorKind::NotFound);
    fs.write("/file", "").unwrap();
    let below = fs.mkdir_all("/file/below").unwrap_err();
    assert_eq!(below.kind(), ErrorKind::NotADirectory);
}

#[test]
fn a_file_is_written_and_read_as_std_io_has_it() {
    let copy = Copy::of("ext4-default");
    let disk = copy.open();
    let fs = write(&disk);
    let mut file = fs.create("/stream").unwrap();
    std::io::copy(&mut std::io::repeat(7).take(100_000), &mut file).unwrap();
    file.seek(SeekFrom::Start(10)).unwrap();
    file.write_all(b"marked").unwrap();
    file.seek(SeekFrom::End(-1)).unwrap();
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, [7]);
    assert!(file.seek(SeekFrom::Current(-1_000_000)).is_err());
    file.set_len(16).unwrap();
    file.sync_all().unwrap();
    // Like an open file of the kernel: after its name is removed, the file still exists.
    fs.remove("/stream").unwrap();
    let mut start = [0; 16];
    assert_eq!(file.read_at(0, &mut start).unwrap(), 16);
    assert_eq!(&start[8..], b"\x07\x07marked");
    drop(file);
    fs.close().unwrap();
    drop(fs);
    disk.close().unwrap();
    copy.check();
}

#[test]
fn a_tree_of_the_host_is_copied() {
    let copy = Copy::of("ext4-default");
    let host = tempfile::tempdir().unwrap();
    std::fs::create_dir(host.path().join("inner")).unwrap();
    std::fs::write(host.path().join("inner/file"), "contents").unwrap();
    let disk = copy.open();
    let fs = write(&disk);
    fs.mkdir("/there").unwrap();
    let mut told = 0;
    let copied = fs
        .copy_from(host.path(), "/there", &mut |_, _| {
            told += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((copied.files, told > 0), (1, true));
    fs.copy_from(
        host.path(),
        "/as-new",
        &mut |_, _| ControlFlow::Continue(()),
    )
    .unwrap();
    for path in ["/there/inner/file", "/as-new/inner/file"] {
        assert_eq!(fs.reader().read(path).unwrap(), b"contents");
    }
}

#[test]
fn reading_ends_when_it_is_cancelled() {
    let copy = Copy::of("ext4-default");
    let token = CancellationToken::new();
    let options = Disk::options().cancellation(token.clone());
    let disk = options.open(copy.path()).unwrap();
    let fs = disk.filesystem().unwrap();
    let path = fs.walk("/").unwrap().find_map(|entry| {
        let entry = entry.unwrap();
        (entry.metadata.size_bytes > 100_000).then_some(entry.path)
    });
    let mut file = fs.open(path.unwrap()).unwrap();
    // Work that continues until it is cancelled.
    let worker = std::thread::spawn(move || {
        loop {
            file.rewind()?;
            std::io::copy(&mut file, &mut std::io::sink())?;
        }
    });
    std::thread::sleep(Duration::from_millis(20));
    assert!(!worker.is_finished());
    token.cancel();
    let ended: Result<(), diskfs::Error> = worker.join().unwrap();
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
    let opened = options.open(copy.path()).and_then(|disk| disk.filesystem());
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_copy_that_is_cancelled_is_undone_with_its_transaction() {
    let copy = Copy::of("ext4-default");
    let host = tempfile::tempdir().unwrap();
    for number in 0..100 {
        std::fs::write(host.path().join(number.to_string()), "contents").unwrap();
    }
    let token = CancellationToken::new();
    let disk = copy.open();
    let volume = disk.default_volume().unwrap();
    let stopped = volume.transaction(&WriteOptions::default(), |fs| {
        fs.copy_from(host.path(), "/copied", &mut |_, summary| {
            if summary.files == 50 {
                token.cancel();
            }
            token.flow()
        })
    });
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
    drop(volume);
    disk.close().unwrap();
    copy.check();
    let fs = Disk::open(copy.path()).unwrap().filesystem().unwrap();
    assert!(!fs.exists("/copied").unwrap());
}

#[test]
fn a_removal_that_is_cancelled_is_undone_with_its_transaction() {
    let copy = Copy::of("ext4-default");
    let paths = || -> Vec<Vec<u8>> {
        let fs = Disk::open(copy.path()).unwrap().filesystem().unwrap();
        let walk = fs.walk("/").unwrap();
        let mut paths: Vec<_> = walk.map(|entry| entry.unwrap().path).collect();
        paths.sort();
        paths
    };
    let before = paths();
    let largest = before.iter().find(|path| {
        let below = |other: &&Vec<u8>| other.starts_with(path) && other.len() > path.len();
        path.len() > 1 && before.iter().filter(below).count() > 5
    });
    let directory = largest.expect("a directory with files");
    let disk = copy.open();
    let volume = disk.default_volume().unwrap();
    let mut removed = 0;
    let stopped = volume.transaction(&WriteOptions::default(), |fs| {
        fs.remove_all_with_progress(directory, &mut |_| {
            removed += 1;
            match removed {
                3 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })
    });
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(removed, 3);
    drop(volume);
    disk.close().unwrap();
    copy.check();
    assert_eq!(paths(), before);
}

#[test]
fn a_transaction_is_done_or_not() {
    let copy = Copy::of("ext4-default");
    let before = std::fs::read(copy.path()).unwrap();
    let disk = copy.open();
    let volume = disk.default_volume().unwrap();
    let failed = volume.transaction(&WriteOptions::default(), |fs| {
        fs.write("/one", "1")?;
        fs.mkdir_all("/two/three")?;
        fs.write("/no/such/directory", "x")
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::NotFound);
    drop(volume);
    disk.close().unwrap();
    copy.check();
    let disk = copy.open();
    let fs = disk.filesystem().unwrap();
    assert!(!fs.exists("/one").unwrap() && !fs.exists("/two").unwrap());
    drop(fs);

    let volume = disk.default_volume().unwrap();
    let number = volume.transaction(&WriteOptions::default(), |fs| {
        fs.write("/one", "1")?;
        fs.write("/two", "2")?;
        Ok(2)
    });
    assert_eq!(number.unwrap(), 2);
    drop(volume);
    disk.close().unwrap();
    copy.check();
    let fs = Disk::open(copy.path()).unwrap().filesystem().unwrap();
    assert_eq!(fs.read("/two").unwrap(), b"2");
    assert!(before != std::fs::read(copy.path()).unwrap());
}

#[test]
fn a_transaction_without_a_journal_is_refused_before_anything_is_changed() {
    let copy = Copy::of("ext4-no-journal");
    let disk = copy.open();
    let volume = disk.default_volume().unwrap();
    let refused = volume.transaction(&WriteOptions::default(), |_| -> diskfs::Result<()> {
        panic!("the callback must not be called")
    });
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.next_step().is_some());
}

#[test]
fn an_image_may_be_in_storage_of_the_program() {
    let bytes = std::fs::read(image("ext4-default").path()).unwrap();
    let device = Arc::new(Memory::new(bytes));
    let disk = Disk::options()
        .format(Format::Raw)
        .read_only(false)
        .open_writable_device("storage", device.clone())
        .unwrap();
    let fs = write(&disk);
    fs.write("/from-the-program", "x").unwrap();
    fs.close().unwrap();
    drop(fs);
    disk.close().unwrap();

    let disk = Disk::options()
        .open_device("storage", device.clone())
        .unwrap();
    let fs = disk.filesystem().unwrap();
    assert_eq!(fs.read("/from-the-program").unwrap(), b"x");
    let error = fs.read("/missing").unwrap_err();
    assert_eq!(error.file(), Some(Path::new("storage")));

    let read_only = Disk::options()
        .read_only(false)
        .open_device("storage", device.clone());
    assert_eq!(read_only.unwrap_err().kind(), ErrorKind::ReadOnly);
    let dry = Disk::options()
        .dry_run()
        .open_device("storage", device.clone());
    let dry = dry.unwrap();
    let options = WriteOptions {
        commits: Commits::AtClose,
        ..WriteOptions::default()
    };
    let fs = dry.writable_filesystem(&options).unwrap();
    fs.write("/forgotten", "x").unwrap();
    fs.close().unwrap();
    assert!(dry.changed_in_memory().unwrap() > 0);
    let size_bytes = device.size_bytes();
    assert!(size_bytes > 0);
    let again = Disk::options().open_device("storage", device).unwrap();
    assert!(!again.filesystem().unwrap().exists("/forgotten").unwrap());
}

#[test]
fn the_order_of_options_does_not_matter() {
    let copy = Copy::of("ext4-default");
    let one = Disk::options().format(Format::Raw).dry_run();
    let two = Disk::options().dry_run().format(Format::Raw);
    for options in [one, two] {
        let disk = options.open(copy.path()).unwrap();
        assert_eq!(disk.description().format, Some(Format::Raw));
        assert_eq!(disk.changed_in_memory(), Some(0));
    }
}

/// Returns the command of an example of the library that `cargo test` has built.
fn example(name: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_diskfs"));
    let example = program.with_file_name("examples").join(name);
    assert!(
        example.exists(),
        "build it first: cargo build --workspace --examples"
    );
    Command::new(example)
}

fn text(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_examples_work() {
    let directory = tempfile::tempdir().unwrap();
    let guest = directory.path().join("demo.qcow2");
    let bundled = std::fs::File::open("fixtures/images/demo.qcow2.zst").unwrap();
    zstd::stream::copy_decode(bundled, std::fs::File::create(&guest).unwrap()).unwrap();

    let release = text(example("read").arg(&guest).arg("/etc/os-release"));
    assert!(release.contains("NAME="), "{release}");
    text(example("edit").arg(&guest));
    let conf = text(example("read").arg(&guest).arg("/etc/app/app.conf"));
    assert_eq!(conf, "key0 = value\nkey1 = value\nkey2 = value\n");
    let said = text(example("block_device").arg(&guest));
    assert!(said.starts_with(&release), "{said}");
    let said = text(example("async").arg(&guest).arg("60"));
    assert!(said.contains(" usr/lib/os-release\n"), "{said}");
    // The guest of the demo has no network configuration tool.
    let disk = Disk::options().read_only(false).open(&guest).unwrap();
    let fs = write(&disk);
    fs.mkdir_all("/etc/network").unwrap();
    fs.write("/etc/network/interfaces", "").unwrap();
    fs.mkdir_all("/usr/sbin").unwrap();
    fs.write("/usr/sbin/ifup", "").unwrap();
    fs.close().unwrap();
    drop(fs);
    disk.close().unwrap();
    let hash = "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1";
    let said = text(example("deploy").arg(&guest).arg(hash));
    assert!(said.contains("web1.example.org"), "{said}");
    let name = text(example("read").arg(&guest).arg("/etc/hostname"));
    assert_eq!(name, "web1.example.org\n");
}
