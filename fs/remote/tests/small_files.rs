//! Small files that one request reads: how many requests that takes, and that their contents are
//! never older than a change.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use diskfs_remote::client::{Client, Remote};
use diskfs_remote::server::{Machine, MountRequest, Served, serve};
use diskfs_vfs::testing::WritableMemoryFs;
use diskfs_vfs::{FsRead, FsWrite, InodeNumber, NewAttributes, NewKind};

const PLAIN: NewAttributes = NewAttributes::for_root(0o644);

struct Memory(Arc<WritableMemoryFs>);

impl Machine for Memory {
    fn mount(&self, _request: &MountRequest) -> diskfs_vfs::Result<Arc<dyn Served>> {
        Ok(Arc::clone(&self.0) as _)
    }
}

/// A stream that counts the requests.
struct Counting(UnixStream, Arc<AtomicUsize>);

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

struct Session {
    there: Arc<WritableMemoryFs>,
    fs: Remote,
    requests: Arc<AtomicUsize>,
}

impl Session {
    fn new() -> Self {
        let there = Arc::new(WritableMemoryFs::new());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let machine = Memory(Arc::clone(&there));
        thread::spawn(move || serve(theirs.try_clone().unwrap(), theirs, &machine));
        let requests = Arc::default();
        let writer = Counting(ours.try_clone().unwrap(), Arc::clone(&requests));
        let client = Client::connect(ours, writer, Duration::from_secs(10)).unwrap();
        let fs = client.mount(&MountRequest::new("vda", "memory")).unwrap();
        Self {
            there,
            fs,
            requests,
        }
    }

    /// Creates files, each with its number and length as contents, past the client.
    fn files(&self, count: usize, len: usize) -> Vec<InodeNumber> {
        let one = |number: usize| {
            let name = format!("{number:05}");
            let root = self.there.root();
            let made = self
                .there
                .create(root, name.as_bytes(), NewKind::Regular, &PLAIN);
            let file = made.unwrap();
            let data = contents(number, len);
            self.there.write_at(file, 0, &data).unwrap();
            file
        };
        (0..count).map(one).collect()
    }

    fn list(&self) {
        let entries = self.fs.read_dir(self.fs.root(), 0).unwrap();
        assert!(entries.map(Result::unwrap).count() > 2);
    }

    fn take_requests(&self) -> usize {
        self.requests.swap(0, Ordering::SeqCst)
    }

    fn read(&self, file: InodeNumber) -> Vec<u8> {
        let mut buf = vec![0; 200 << 10];
        let len = self.fs.read_at(file, 0, &mut buf).unwrap();
        buf.truncate(len);
        buf
    }
}

fn contents(number: usize, len: usize) -> Vec<u8> {
    let bytes = number.to_le_bytes().into_iter().cycle();
    bytes.take(len + number % 7).collect()
}

#[test]
fn announced_files_come_several_at_once() {
    let session = Session::new();
    let files = session.files(100, 3000);
    session.list();
    for &file in &files {
        session.fs.will_need(file, 0, 3000);
    }
    session.take_requests();
    for (number, &file) in files.iter().enumerate() {
        assert_eq!(session.read(file), contents(number, 3000));
    }
    assert_eq!(session.take_requests(), 4, "32 files a request");
    let mut middle = [0; 10];
    assert_eq!(
        session.fs.read_at(files[99], 1000, &mut middle).unwrap(),
        10
    );
    assert_eq!(middle, contents(99, 3000)[1000..1010]);
    assert_eq!(session.fs.read_at(files[99], 9000, &mut middle).unwrap(), 0);
    assert_eq!(session.take_requests(), 0);
}

#[test]
fn files_are_guessed_from_the_listing() {
    let session = Session::new();
    let files = session.files(1000, 500);
    session.list();
    session.take_requests();
    for (number, &file) in files.iter().enumerate() {
        assert_eq!(session.read(file), contents(number, 500));
    }
    let requests = session.take_requests();
    assert!(requests <= 60, "{requests} requests for 1000 files");
    session.fs.close().unwrap();
}

#[test]
fn files_that_are_large_empty_gone_or_special_are_read_alone() {
    let session = Session::new();
    let files = session.files(6, 10);
    let there = &session.there;
    there.set_len(files[1], 1 << 20).unwrap();
    there.set_len(files[2], 0).unwrap();
    let fifo = there
        .create(there.root(), b"x", NewKind::Fifo, &PLAIN)
        .unwrap();
    session.list();
    there.unlink(there.root(), b"00003").unwrap();
    for &file in files.iter().chain([&fifo, &InodeNumber(7777)]) {
        session.fs.will_need(file, 0, 10);
    }
    assert_eq!(session.read(files[0]), contents(0, 10));
    assert_eq!(session.read(files[1]).len(), 200 << 10);
    assert!(session.read(files[2]).is_empty());
    let mut buf = [0; 100];
    for bad in [files[3], fifo, InodeNumber(7777)] {
        assert!(session.fs.read_at(bad, 0, &mut buf).is_err());
    }
    assert_eq!(session.read(files[4]), contents(4, 10));
    assert_eq!(session.read(files[5]), contents(5, 10));
}

#[test]
fn contents_are_never_older_than_a_change() {
    let session = Session::new();
    let files = session.files(20, 100);
    let fs = &session.fs;
    let announce = || {
        session.list();
        for &file in &files {
            fs.will_need(file, 0, 100);
        }
        // The others have arrived with it, or are on their way.
        assert!(!session.read(files[19]).is_empty());
        assert!(!session.read(files[0]).is_empty());
    };
    announce();
    fs.write_at(files[1], 0, b"new").unwrap();
    assert_eq!(session.read(files[1])[..3], *b"new");
    fs.set_len(files[2], 1).unwrap();
    assert_eq!(session.read(files[2]).len(), 1);
    fs.set_len(files[2], 5).unwrap();
    assert_eq!(session.read(files[2])[1..], [0; 4]);
    announce();
    // The inode number may be used again.
    fs.unlink(fs.root(), b"00003").unwrap();
    for number in 0..5 {
        let name = format!("new-{number}");
        let made = fs
            .create(fs.root(), name.as_bytes(), NewKind::Regular, &PLAIN)
            .unwrap();
        assert!(session.read(made).is_empty());
    }
}

#[test]
fn reads_beside_writes_see_each_completed_write() {
    let session = Session::new();
    let files = session.files(8, 8);
    let fs = &session.fs;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for &file in &files {
            let (session, is_over, files) = (&session, &is_over, &files);
            scope.spawn(move || {
                for round in 0..400_u64 {
                    let written = round.to_le_bytes();
                    assert_eq!(fs.write_at(file, 0, &written).unwrap(), 8);
                    session.list();
                    for &other in files {
                        fs.will_need(other, 0, 8);
                    }
                    let _ = session.read(files[0]);
                    let mut back = [0; 8];
                    assert_eq!(fs.read_at(file, 0, &mut back).unwrap(), 8);
                    assert_eq!(u64::from_le_bytes(back), round);
                }
                is_over.store(true, Ordering::SeqCst);
            });
        }
    });
    assert!(is_over.load(Ordering::SeqCst));
}
