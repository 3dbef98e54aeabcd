//! Sessions of client and server in one process, over the in-memory filesystem.

mod area;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use area::Area;
use diskfs_remote::client::{Client, Remote};
use diskfs_remote::protocol::{About, AgentHello, Frame, MAX_BULK, MIN_APART};

use diskfs_remote::server::{BulkArea, Ending, Machine, MountRequest, Served, serve};
use diskfs_vfs::testing::{Synced, WritableMemoryFs};
use diskfs_vfs::{
    Error, ErrorKind, FileExtentKind, FileType, FsRead, FsWrite, InodeNumber, NewAttributes,
    NewKind, RenameMode, SetMetadata, SetXattr, SyncFile,
};

const PLAIN: NewAttributes = NewAttributes::for_root(0o644);
const SECONDS: Duration = Duration::from_secs(10);

/// A machine that mounts the given filesystem.
struct Memory(Arc<WritableMemoryFs>, Option<Area>);

impl Machine for Memory {
    fn area(&self) -> Option<&dyn BulkArea> {
        self.1.as_ref().map(|area| area as _)
    }

    fn mount(&self, request: &MountRequest) -> diskfs_vfs::Result<Arc<dyn Served>> {
        if !matches!(request.kind.as_str(), "memory" | "xfs") {
            return Err(Error::new(ErrorKind::Unsupported, "only memory is served"));
        }
        Ok(Arc::clone(&self.0) as _)
    }
}

struct Session {
    there: Arc<WritableMemoryFs>,
    stream: UnixStream,
    client: Client,
    server: JoinHandle<std::io::Result<Ending>>,
}

impl Session {
    fn new() -> Self {
        Self::with_areas(None, None)
    }

    /// Starts a session with the client's and the server's view of the area.
    fn with_areas(area: Option<Area>, area_there: Option<Area>) -> Self {
        let there = Arc::new(WritableMemoryFs::new());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let machine = Memory(Arc::clone(&there), area_there);
        let server = thread::spawn(move || serve(theirs.try_clone().unwrap(), theirs, &machine));
        let stream = ours.try_clone().unwrap();
        let area = area.map(|area| Arc::new(area) as _);
        let reader = ours.try_clone().unwrap();
        let client = Client::connect_beside(area, reader, ours, SECONDS).unwrap();
        Self {
            there,
            stream,
            client,
            server,
        }
    }

    fn mount(&self) -> Remote {
        self.client
            .mount(&MountRequest::new("vda", "memory"))
            .unwrap()
    }
}

fn file(fs: &Remote, name: &str) -> InodeNumber {
    fs.create(fs.root(), name.as_bytes(), NewKind::Regular, &PLAIN)
        .unwrap()
}

fn kind<T: std::fmt::Debug>(result: diskfs_vfs::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn everything_comes_through() {
    let session = Session::new();
    let fs = session.mount();
    let root = fs.root();
    assert_eq!(fs.identity(), session.there.identity());
    assert_eq!(
        fs.statistics().unwrap(),
        session.there.statistics().unwrap()
    );
    let f = file(&fs, "f");
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    assert_eq!(fs.write_at(f, 5, &data).unwrap(), data.len());
    let mut back = vec![0; data.len() + 100];
    assert_eq!(fs.read_at(f, 5, &mut back).unwrap(), data.len());
    assert_eq!(back[..data.len()], data);
    assert_eq!(fs.metadata(f).unwrap(), session.there.metadata(f).unwrap());
    fs.set_len(f, 4 << 20).unwrap();
    let kinds: Vec<_> = fs
        .extents_of(f, 0)
        .unwrap()
        .map(|extent| extent.unwrap().kind)
        .collect();
    assert_eq!(*kinds.last().unwrap(), FileExtentKind::Hole);

    let link = fs
        .create(root, b"l", NewKind::Symlink(b"a/target"), &PLAIN)
        .unwrap();
    assert_eq!(fs.read_link(link).unwrap(), b"a/target");
    fs.set_xattr(f, b"user.a", &vec![7; 60_000], SetXattr::Any)
        .unwrap();
    fs.set_xattr(f, b"user.b", b"", SetXattr::Create).unwrap();
    assert_eq!(fs.xattr(f, b"user.a").unwrap().unwrap().len(), 60_000);
    assert_eq!(fs.xattr(f, b"user.b").unwrap(), Some(vec![]));
    assert_eq!(fs.xattr(f, b"user.c").unwrap(), None);
    assert_eq!(fs.list_xattrs(f).unwrap(), [b"user.a", b"user.b"]);
    fs.remove_xattr(f, b"user.b").unwrap();
    assert_eq!(kind(fs.remove_xattr(f, b"user.b")), ErrorKind::NoAttribute);
    assert_eq!(kind(fs.lookup(root, b"none")), ErrorKind::NotFound);
    assert_eq!(kind(fs.lookup(root, &[b'n'; 5000])), ErrorKind::NameTooLong);
    assert_eq!(kind(fs.lookup(root, b"../f")), ErrorKind::Invalid);
    assert_eq!(kind(fs.read_dir(f, 0).map(drop)), ErrorKind::NotADirectory);
    fs.sync_file(f, SyncFile::Data).unwrap();
    fs.sync().unwrap();
    fs.close().unwrap();
    assert_eq!(kind(fs.metadata(f)), ErrorKind::ReadOnly);
    assert_eq!(
        session.there.take_synced(),
        [Synced::File(f, SyncFile::Data), Synced::All, Synced::Closed]
    );
    session.client.shut_down().unwrap();
    assert_eq!(session.server.join().unwrap().unwrap(), Ending::ShutDown);
}

/// A machine with programs that take time to end.
struct WithPrograms {
    fs: Arc<WritableMemoryFs>,
    callers: AtomicUsize,
    has_programs: AtomicBool,
    /// True if the filesystem was unmounted before they had ended.
    seen: Arc<Mutex<Option<bool>>>,
}

impl Machine for WithPrograms {
    fn mount(&self, _request: &MountRequest) -> diskfs_vfs::Result<Arc<dyn Served>> {
        Ok(Arc::clone(&self.fs) as _)
    }

    fn end_programs(&self) {
        // The first of two callers at once is the later one to look.
        if self.callers.fetch_add(1, Ordering::SeqCst) == 0 {
            thread::sleep(Duration::from_millis(20));
        }
        if self.has_programs.swap(false, Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(50));
            let is_unmounted = self.fs.take_synced().contains(&Synced::Closed);
            *self.seen.lock().unwrap() = Some(is_unmounted);
        }
    }
}

#[test]
fn nothing_is_unmounted_before_all_programs_have_ended() {
    // One thread answers the request for a shutdown, while another leaves the session.
    for _ in 0..5 {
        let seen = Arc::default();
        let machine = WithPrograms {
            fs: Arc::new(WritableMemoryFs::new()),
            callers: AtomicUsize::new(0),
            has_programs: AtomicBool::new(true),
            seen: Arc::clone(&seen),
        };
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = thread::spawn(move || serve(theirs.try_clone().unwrap(), theirs, &machine));
        let client = Client::connect(ours.try_clone().unwrap(), ours, SECONDS).unwrap();
        let fs = client.mount(&MountRequest::new("vda", "memory")).unwrap();
        client.shut_down().unwrap();
        drop(fs);
        assert_eq!(server.join().unwrap().unwrap(), Ending::ShutDown);
        assert_eq!(*seen.lock().unwrap(), Some(false));
    }
}

#[test]
fn what_is_not_in_a_directory_that_was_made_here_is_not_asked_for() {
    let session = Session::new();
    let request = MountRequest::new("vda", "xfs");
    let fs = session.client.mount(&request).unwrap();
    let root = fs.root();
    let dir = fs.create(root, b"dir", NewKind::Directory, &PLAIN).unwrap();
    // Create a file without the client, so that a look-up through the client would find it.
    let hidden = session
        .there
        .create(dir, b"hidden", NewKind::Regular, &PLAIN);
    hidden.unwrap();
    assert_eq!(kind(fs.lookup(dir, b"hidden")), ErrorKind::NotFound);
    let f = file(&fs, "f");
    fs.link(f, dir, b"linked").unwrap();
    fs.rename(root, b"f", dir, b"moved", RenameMode::Replace)
        .unwrap();
    let made = fs.create(dir, b"made", NewKind::Fifo, &PLAIN).unwrap();
    let sub = fs.create(dir, b"sub", NewKind::Directory, &PLAIN).unwrap();
    for (name, inode) in [("linked", f), ("moved", f), ("made", made), ("sub", sub)] {
        assert_eq!(fs.lookup(dir, name.as_bytes()).unwrap(), inode);
    }
    fs.unlink(dir, b"made").unwrap();
    assert_eq!(kind(fs.lookup(dir, b"made")), ErrorKind::NotFound);
    let is_taken = fs.create(dir, b"hidden", NewKind::Regular, &PLAIN);
    assert_eq!(kind(is_taken), ErrorKind::Exists);
    assert!(fs.lookup(dir, b"hidden").is_ok());
}

#[test]
fn a_large_directory_is_listed_whole_and_from_anywhere() {
    let session = Session::new();
    let fs = session.mount();
    for n in 0..5000 {
        session
            .there
            .create(
                fs.root(),
                format!("{n:0100}").as_bytes(),
                NewKind::Fifo,
                &PLAIN,
            )
            .unwrap();
    }
    let list = |fs: &dyn FsRead, cookie| {
        let entries = fs.read_dir(fs.root(), cookie).unwrap();
        entries.map(Result::unwrap).collect::<Vec<_>>()
    };
    let all = list(&fs, 0);
    assert_eq!(all, list(&*session.there, 0));
    assert_eq!(list(&fs, all[3000].cookie), all[3001..]);
    assert_eq!(all[2].file_type, Some(FileType::Fifo));
}

#[test]
fn a_held_file_outlives_its_names_and_no_longer() {
    let session = Session::new();
    let fs = session.mount();
    let (f, g) = (file(&fs, "f"), file(&fs, "g"));
    fs.hold(f);
    fs.unlink(fs.root(), b"f").unwrap();
    assert_eq!(fs.metadata(f).unwrap().links, 0);
    assert_eq!(fs.write_at(f, 0, b"still").unwrap(), 5);
    fs.hold(f);
    fs.release(f).unwrap();
    assert_eq!(session.there.held(), [(f, 1)]);
    fs.release(f).unwrap();
    assert_eq!(kind(fs.metadata(f)), ErrorKind::NotFound);
    // A replaced file is held, too; a file that nobody holds is removed at once.
    fs.hold(g);
    file(&fs, "h");
    fs.rename(fs.root(), b"h", fs.root(), b"g", RenameMode::Replace)
        .unwrap();
    assert_eq!(session.there.held(), [(g, 1)]);
    let h = fs.lookup(fs.root(), b"g").unwrap();
    fs.unlink(fs.root(), b"g").unwrap();
    assert_eq!(kind(session.there.metadata(h)), ErrorKind::NotFound);
    fs.release(g).unwrap();
    let unnamed = fs.create_unnamed(fs.root(), &PLAIN).unwrap();
    fs.link(unnamed, fs.root(), b"u").unwrap();
    assert_eq!(fs.metadata(unnamed).unwrap().links, 1);
    fs.release(unnamed).unwrap();
    assert_eq!(session.there.held(), []);
    assert_eq!(session.there.file_count(), 2);
}

#[test]
fn metadata_that_is_kept_is_never_stale() {
    let session = Session::new();
    let fs = session.mount();
    let same = |inode| {
        assert_eq!(
            fs.metadata(inode).ok(),
            session.there.metadata(inode).ok(),
            "{inode}"
        );
    };
    let root = fs.root();
    let f = file(&fs, "f");
    let all = |step: &str| {
        for inode in [root, f] {
            same(inode);
            same(inode);
        }
        assert!(!step.is_empty());
    };
    all("create");
    fs.write_at(f, 0, b"12345").unwrap();
    all("write");
    fs.link(f, root, b"g").unwrap();
    all("link");
    let change = SetMetadata {
        permissions: Some(0o600),
        ..SetMetadata::default()
    };
    fs.set_metadata(f, &change).unwrap();
    all("set metadata");
    fs.set_xattr(f, b"user.x", b"y", SetXattr::Any).unwrap();
    all("set xattr");
    fs.rename(root, b"g", root, b"f", RenameMode::Replace)
        .unwrap();
    all("rename to itself");
    fs.unlink(root, b"g").unwrap();
    all("unlink");
    fs.create(root, b"d", NewKind::Directory, &PLAIN).unwrap();
    all("mkdir");
    fs.rmdir(root, b"d").unwrap();
    all("rmdir");
    fs.unlink(root, b"f").unwrap();
    all("the last");
}

#[test]
fn many_threads_at_once() {
    let session = Session::new();
    let fs = session.mount();
    thread::scope(|scope| {
        for t in 0..8_u8 {
            let fs = &fs;
            scope.spawn(move || {
                for n in 0..200_u32 {
                    let f = file(fs, &format!("{t}-{n}"));
                    let data = vec![t; 1 + n as usize * 500];
                    assert_eq!(fs.write_at(f, 0, &data).unwrap(), data.len());
                    let mut back = vec![0; data.len()];
                    fs.read_at(f, 0, &mut back).unwrap();
                    assert_eq!(back, data);
                    assert_eq!(fs.metadata(f).unwrap().size_bytes, data.len() as u64);
                    if n % 3 == 0 {
                        fs.unlink(fs.root(), format!("{t}-{n}").as_bytes()).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(session.there.file_count(), 1 + 8 * 133);
}

/// Returns bytes that depend on position and seed.
fn pattern(seed: u8, len: usize) -> Vec<u8> {
    let bytes = (0..=250_u8).cycle().map(|byte| byte ^ seed);
    bytes.take(len).collect()
}

/// Writes and reads contents of all lengths from several threads. Returns the number of accesses to
/// the area.
fn contents_come_through(area: Option<Area>, area_there: Option<Area>) -> usize {
    let session = Session::with_areas(area.clone(), area_there);
    let fs = session.mount();
    thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let fs = &fs;
            scope.spawn(move || {
                let f = file(fs, name);
                for len in [
                    1,
                    4095,
                    4096,
                    MIN_APART - 1,
                    MIN_APART,
                    100_001,
                    MAX_BULK,
                    2_500_003,
                ] {
                    let bytes = pattern(name.as_bytes()[0], len);
                    fs.set_len(f, 0).unwrap();
                    assert_eq!(fs.write_at(f, 7, &bytes).unwrap(), len);
                    let mut back = vec![0; len + 10];
                    // The file's end is within the last answer.
                    assert_eq!(fs.read_at(f, 7, &mut back).unwrap(), len);
                    assert!(back[..len] == bytes, "{len}");
                }
            });
        }
    });
    area.map_or(0, |area| area.take_uses())
}

#[test]
fn long_contents_go_through_the_area() {
    let area = Area::new();
    // Three files, four lengths each, the longest in three pieces, each written and read, twice.
    let uses = contents_come_through(Some(area.clone()), Some(area));
    assert_eq!(uses, 3 * (1 + 1 + 1 + 3) * 2 * 2);
}

#[test]
fn an_area_that_one_end_does_not_see_is_not_used() {
    assert_eq!(contents_come_through(Some(Area::new()), None), 0);
    // The server answers through an area that the client doesn't have, which breaks the connection.
    let session = Session::with_areas(None, Some(Area::new()));
    let fs = session.mount();
    let f = file(&fs, "f");
    fs.write_at(f, 0, &vec![1; MIN_APART]).unwrap();
    let error = fs.read_at(f, 0, &mut vec![0; MIN_APART]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn a_lost_connection_is_told_with_its_reason() {
    let session = Session::new();
    let fs = session.mount();
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    session.client.on_lost(move || {
        *count.lock().unwrap() += 1;
        Some("the microVM was killed (signal 9)".into())
    });
    session.stream.shutdown(std::net::Shutdown::Both).unwrap();
    for _ in 0..3 {
        let error = fs.lookup(fs.root(), b"f").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("signal 9"), "{error}");
    }
    assert_eq!(*asked.lock().unwrap(), 1);
    assert_eq!(session.server.join().unwrap().unwrap(), Ending::Lost);
    assert_eq!(session.there.take_synced(), [Synced::Closed]);
}

#[test]
fn dropping_unmounts_and_what_is_read_only_stays() {
    let session = Session::new();
    let request = MountRequest {
        read_only: true,
        ..MountRequest::new("vda", "memory")
    };
    let fs = session.client.mount(&request).unwrap();
    let made = fs.create(fs.root(), b"f", NewKind::Regular, &PLAIN);
    assert_eq!(kind(made), ErrorKind::ReadOnly);
    drop(fs);
    assert_eq!(session.there.take_synced(), [Synced::Closed]);
    let other = session.client.mount(&MountRequest::new("vda", "other"));
    assert_eq!(kind(other.map(drop)), ErrorKind::Unsupported);
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let deadline = Duration::from_millis(50);
    let error = Client::connect(ours.try_clone().unwrap(), ours, deadline).unwrap_err();
    assert!(
        error.to_string().contains("did not answer within 0.05 s"),
        "{error}"
    );
}

/// Returns a stream whose other side gives this answer to every request.
fn impostor(answer: Vec<u8>) -> (UnixStream, JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut hello = Frame::default();
    let introduction = AgentHello::new(About::default(), false);
    hello.fill(0, &introduction, 0).unwrap();
    let thread = thread::spawn(move || {
        let mut theirs = theirs;
        let mut request = [0; 4096];
        assert_ne!(
            theirs.read(&mut request).unwrap(),
            0,
            "the client sends its first frame"
        );
        theirs.write_all(hello.bytes()).unwrap();
        while theirs.read(&mut request).is_ok_and(|read| read > 0) {
            if theirs.write_all(&answer).is_err() {
                break;
            }
        }
    });
    (ours, thread)
}

#[test]
fn nonsense_breaks_the_connection() {
    let head = |total: u32, message: u32, request: u64| {
        let mut head = total.to_le_bytes().to_vec();
        head.extend(message.to_le_bytes());
        head.extend(request.to_le_bytes());
        head
    };
    let first = 1 << 32 | 63;
    let answers = [
        head(0, 0, first),
        head(u32::MAX, u32::MAX, first),
        head(17, 2, first),
        // An answer without a request, and one to a past request.
        [head(17, 1, 77), vec![1]].concat(),
        [head(17, 1, first + (1 << 32)), vec![1]].concat(),
        // An answer of another kind, and one with more bulk than requested.
        [head(17, 1, first), vec![1]].concat(),
        [head(117, 1, first), vec![1; 101]].concat(),
        [head(17, 1, first), vec![99]].concat(),
        [head(18, 2, first), vec![1, 1]].concat(),
        head(16, 0, first),
    ];
    for answer in answers {
        let (stream, thread) = impostor(answer.clone());
        let client = Client::connect(stream.try_clone().unwrap(), stream, SECONDS).unwrap();
        let error = client.mount(&MountRequest::new("vda", "x")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{answer:?}");
        let again = client.mount(&MountRequest::new("vda", "x")).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
        drop(client);
        thread.join().unwrap();
    }
}
