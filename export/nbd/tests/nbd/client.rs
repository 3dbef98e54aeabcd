//! Our client, with the servers of others and our own.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::{BlockRead, BlockWrite, Counting, ErrorKind, ExtentKind, File, Memory};
use diskfs_fixtures::{have, pattern};
use diskfs_nbd::client::{Nbd, Options, Uri};
use diskfs_nbd::server::{self, BlockSizes, Export};
use tempfile::TempDir;

use crate::rig::{DISK_BYTES, Served, Slow, program, sparse};

pub(crate) fn connect(uri: &str) -> diskfs_block::Result<Nbd> {
    connect_within(uri, Duration::from_secs(5))
}

fn connect_within(uri: &str, timeout: Duration) -> diskfs_block::Result<Nbd> {
    let options = Options {
        connect_timeout: timeout,
        request_timeout: timeout,
        ..Options::default()
    };
    Nbd::connect(&uri.parse::<Uri>()?, options)
}

/// A server of others, which ends with the test.
struct Other {
    child: Child,
    directory: TempDir,
}

impl Other {
    /// Starts a server by a line of words, in which `SOCKET` is the path of its socket.
    fn start(line: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let line = line.replace("SOCKET", socket.to_str().unwrap());
        let child = Self::run(&line, &socket);
        Self { child, directory }
    }

    fn run(line: &str, socket: &Path) -> Child {
        let mut words = line.split_whitespace();
        let child = Command::new(words.next().unwrap())
            .args(words)
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while UnixStream::connect(socket).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(10), "{line}");
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }

    fn uri(&self) -> String {
        let socket = self.directory.path().join("socket");
        format!("nbd+unix:///?socket={}", socket.display())
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compares a device with the disk of [`sparse`], and its extents.
fn check_sparse(device: &dyn BlockRead, file: &Path) {
    assert_eq!(device.size_bytes(), DISK_BYTES);
    let mut bytes = vec![1; usize::try_from(DISK_BYTES).unwrap()];
    device.read_at(0, &mut bytes).unwrap();
    assert!(bytes == std::fs::read(file).unwrap());
    let hole = device.extent_at(4096).unwrap();
    assert!(hole.kind.reads_as_zeroes(), "{hole:?}");
    assert_eq!(hole.len_bytes, (1 << 20) - 4096);
    let data = device.extent_at(1 << 20).unwrap();
    assert_eq!((data.kind, data.len_bytes), (ExtentKind::Data, 2 << 20));
    assert!(device.extent_at(DISK_BYTES).is_err());
    assert!(device.read_at(DISK_BYTES - 1, &mut [0; 2]).is_err());
}

/// Writes through a device in all ways, and compares with a model.
fn check_writes(device: &dyn BlockWrite) {
    let size = usize::try_from(device.size_bytes()).unwrap();
    let mut model = vec![0; size];
    device.read_at(0, &mut model).unwrap();
    let mut write = |offset: usize, bytes: &[u8]| {
        device.write_at(offset as u64, bytes).unwrap();
        model[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    write(0, &pattern("a", 4096));
    write(4096 + 17, &pattern("b", 1001));
    write(1 << 20, &pattern("c", (3 << 20) + 5));
    device.write_zeroes(100, 5000).unwrap();
    model[100..5100].fill(0);
    device.write_zeroes(1 << 20, 2 << 20).unwrap();
    model[1 << 20..3 << 20].fill(0);
    device.discard(7 << 20, 1 << 20).unwrap();
    device.flush().unwrap();
    let mut bytes = vec![9; size];
    device.read_at(0, &mut bytes).unwrap();
    assert!(bytes[..7 << 20] == model[..7 << 20] && bytes[8 << 20..] == model[8 << 20..]);
    let mut odd = [9; 33];
    device.read_at(4101, &mut odd).unwrap();
    assert_eq!(odd, model[4101..4134]);
    assert!(device.write_at(device.size_bytes(), &[0]).is_err());
}

#[test]
fn our_own_server() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("disk.raw");
    let disk = Arc::new(Counting::new(sparse(&file)));
    let served = Served::device(Arc::clone(&disk) as Arc<dyn BlockWrite>);
    let device = connect(&served.uri("")).unwrap();
    check_sparse(&device, &file);
    let read = disk.reset().read_bytes;
    assert_eq!(read, (2 << 20) + (64 << 10));
    device.will_need(0, 1 << 20);
    check_writes(&device);
    assert!(disk.counts().flushes >= 1);
    drop(device);
    let unknown = connect(&served.uri("unknown")).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound, "{unknown}");
    served.server.stop().unwrap();
}

#[test]
fn an_export_is_exported_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("disk.raw");
    let first = Served::device(sparse(&file));
    let device = connect(&first.uri("")).unwrap();
    // The device is used, and dropped, by threads of another runtime.
    let second = Served::device(Arc::new(device));
    let again = connect(&second.uri("")).unwrap();
    check_sparse(&again, &file);
    check_writes(&again);
    drop(again);
    second.server.stop().unwrap();
    first.server.stop().unwrap();
}

#[test]
fn block_sizes_of_a_server() {
    let sizes = BlockSizes {
        minimum: 4096,
        preferred: 4096,
        maximum: 1 << 20,
    };
    let export = Export::writable("", Arc::new(Memory::new(vec![3; 9 << 20])));
    let exports = vec![export.block_sizes(sizes)];
    let served = Served::start(exports, server::Options::default());
    let device = connect(&served.uri("")).unwrap();
    check_writes(&device);
    served.server.stop().unwrap();
}

#[test]
fn a_read_only_export() {
    let export = Export::read_only("r", Arc::new(Memory::new(vec![3; 1 << 20])));
    let served = Served::start(vec![export], server::Options::default());
    let device = connect(&served.uri("r")).unwrap();
    assert!(!device.is_writable());
    let refused = device.write_at(0, &[1; 512]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    device.flush().unwrap();
}

#[test]
fn several_threads_use_several_connections() {
    let slow = Slow {
        inner: Memory::new(vec![5; 4 << 20]),
        delay: Duration::from_millis(300),
    };
    let served = Served::device(Arc::new(slow));
    let device = connect(&served.uri("")).unwrap();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let device = &device;
            scope.spawn(move || {
                let mut buf = vec![0; 70_000];
                device.read_at(thread * 4096, &mut buf).unwrap();
                assert!(buf == vec![5; 70_000]);
            });
        }
    });
    // One after another they take 4.8 seconds.
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert!(served.server.connections() > 1);
}

/// Starts a server of a disk of this size, in place of an earlier one at the socket.
fn serve_at(socket: &Path, bytes: usize) -> server::Server {
    let _ = std::fs::remove_file(socket);
    let export = Export::writable("", Arc::new(Memory::new(vec![7; bytes])));
    let server = server::Server::start(vec![export], server::Options::default()).unwrap();
    server.listen(UnixListener::bind(socket).unwrap()).unwrap();
    server
}

#[test]
fn an_outage_is_waited_for_once() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let server = serve_at(&socket, 1 << 20);
    let timeout = Duration::from_secs(2);
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let device = connect_within(&uri, timeout).unwrap();
    let read = || {
        let begun = Instant::now();
        let done = device.read_at(0, &mut [0; 4096]);
        (done.map_err(|e| e.kind()), begun.elapsed())
    };
    server.stop().unwrap();
    let (failed, first) = read();
    assert_eq!(failed, Err(ErrorKind::Io));
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(read().0, Err(ErrorKind::Io));
    }
    assert!(
        begun.elapsed() < timeout && first > timeout / 4,
        "{first:?}"
    );
    let server = serve_at(&socket, 1 << 20);
    assert_eq!(read().0, Ok(()));
    server.stop().unwrap();
    let (failed, second) = read();
    assert_eq!(failed, Err(ErrorKind::Io));
    assert!(second > timeout / 4, "{second:?}");
}

#[test]
fn a_server_that_is_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let serve = |bytes| serve_at(&socket, bytes);
    let first = serve(1 << 20);
    let device = connect(&format!("nbd+unix:///?socket={}", socket.display())).unwrap();
    let mut buf = [0; 4096];
    device.read_at(0, &mut buf).unwrap();
    device.write_at(0, &buf).unwrap();
    first.stop().unwrap();
    // Nobody listens; the read waits for the next server.
    let second = std::thread::scope(|scope| {
        let reading = scope.spawn(|| device.read_at(4096, &mut buf));
        std::thread::sleep(Duration::from_millis(300));
        let second = serve(1 << 20);
        reading.join().unwrap().unwrap();
        second
    });
    // The write that was answered before was not flushed.
    let lost = device.flush().unwrap_err();
    assert!(lost.to_string().contains("not flushed"), "{lost}");
    device.flush().unwrap();
    second.stop().unwrap();
    let third = serve(2 << 20);
    let changed = device.read_at(0, &mut buf).unwrap_err();
    assert!(
        changed.to_string().contains("size of the export"),
        "{changed}"
    );
    third.stop().unwrap();
}

#[test]
fn qemu_nbd() {
    if !have(&["qemu-nbd", "qemu-img"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("disk.raw");
    sparse(&file);
    let image = directory.path().join("disk.qcow2");
    program(&format!(
        "qemu-img convert -O qcow2 {} {}",
        file.display(),
        image.display()
    ));
    let mut server = Other::start(&format!(
        "qemu-nbd -f qcow2 -t -k SOCKET {}",
        image.display()
    ));
    let device = connect_within(&server.uri(), Duration::from_secs(2)).unwrap();
    assert!(device.is_writable());
    check_sparse(&device, &file);
    check_writes(&device);
    // Killed: an error in time, and no write is repeated.
    server.kill();
    let begun = Instant::now();
    let lost = device.write_at(0, &[1; 4096]).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Io, "{lost}");
    assert!(device.read_at(0, &mut [0; 512]).is_err());
    assert!(
        begun.elapsed() < Duration::from_secs(12),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_server_that_is_killed_during_requests() {
    if !have(&["nbdkit"]) {
        return;
    }
    let mut server =
        Other::start("nbdkit -f -U SOCKET --filter=delay memory 16M rdelay=3 wdelay=3");
    let device = connect_within(&server.uri(), Duration::from_secs(2)).unwrap();
    let begun = Instant::now();
    let (read, written) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| device.read_at(0, &mut [0; 512]));
        let writing = scope.spawn(|| device.write_at(4096, &[1; 512]));
        std::thread::sleep(Duration::from_millis(300));
        server.kill();
        (reading.join().unwrap(), writing.join().unwrap())
    });
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Io);
    let lost = written.unwrap_err().to_string();
    assert!(lost.contains("the NBD connection is lost"), "{lost}");
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn nbdkit() {
    if !have(&["nbdkit"]) {
        return;
    }
    for line in [
        "nbdkit -f -U SOCKET memory 16M",
        "nbdkit -f -U SOCKET --filter=cow memory 16M",
        "nbdkit -f -U SOCKET --filter=delay memory 16M delay-read=2ms delay-write=2ms",
        "nbdkit -f -U SOCKET --filter=blocksize-policy memory 16M blocksize-minimum=512 \
         blocksize-preferred=4096 blocksize-maximum=1M blocksize-error-policy=error",
        "nbdkit -f -U SOCKET --filter=nozero --filter=noextents memory 16M",
        "nbdkit -f -U SOCKET --no-sr memory 16M",
        "nbdkit -f -U SOCKET --mask-handshake=0 memory 16M",
    ] {
        let server = Other::start(line);
        let device = connect(&server.uri()).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert!(device.is_writable());
        check_writes(&device);
    }
    let server = Other::start(
        "nbdkit -f -U SOCKET --filter=retry --filter=error memory 16M error-pread=EIO \
         error-pread-rate=100% retries=0",
    );
    let device = connect(&server.uri()).unwrap();
    let failed = device.read_at(4096, &mut [0; 512]).unwrap_err();
    assert_eq!(
        (failed.kind(), failed.offset()),
        (ErrorKind::Io, Some(4096)),
        "{failed}"
    );
    let server = Other::start(
        "nbdkit -f -U SOCKET --filter=error memory 16M error-pwrite=ENOSPC error-pwrite-rate=100%",
    );
    let device = connect(&server.uri()).unwrap();
    let full = device.write_at(0, &[1; 512]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::NoSpace, "{full}");
    let server = Other::start("nbdkit -f -r -U SOCKET memory 16M");
    assert!(!connect(&server.uri()).unwrap().is_writable());
    // No oldstyle.
    let server = Other::start("nbdkit -f -o -U SOCKET memory 16M");
    let oldstyle = connect(&server.uri()).unwrap_err().to_string();
    assert!(oldstyle.contains("oldstyle"), "{oldstyle}");
}

#[test]
fn a_disk_copied_by_our_client_is_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("disk.raw");
    let served = Served::device(sparse(&file));
    let device = connect(&served.uri("")).unwrap();
    let copy = directory.path().join("copy.raw");
    std::fs::File::create(&copy)
        .unwrap()
        .set_len(DISK_BYTES)
        .unwrap();
    let target = File::open_read_write(&copy).unwrap();
    let mut at = 0;
    while at < device.size_bytes() {
        let extent = device.extent_at(at).unwrap();
        if extent.kind == ExtentKind::Data {
            let mut bytes = vec![0; usize::try_from(extent.len_bytes).unwrap()];
            device.read_at(at, &mut bytes).unwrap();
            target.write_at(at, &bytes).unwrap();
        }
        at += extent.len_bytes;
    }
    assert!(std::fs::read(&copy).unwrap() == std::fs::read(&file).unwrap());
}
