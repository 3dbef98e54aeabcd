//! Servers, disks and programs for the tests.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use diskfs_block::{BlockRead, BlockWrite, File, Result};
use diskfs_fixtures::{pattern, run};
use diskfs_nbd::server::{Export, Options, Server};
use tempfile::TempDir;

/// The size of the disk of [`sparse`].
pub(crate) const DISK_BYTES: u64 = 16 << 20;

/// Writes a disk with data from 1 to 3 MiB and at its end, and holes between them.
pub(crate) fn sparse(path: &Path) -> Arc<File> {
    let file = fs::File::create(path).unwrap();
    file.set_len(DISK_BYTES).unwrap();
    let disk = File::open_read_write(path).unwrap();
    disk.write_at(1 << 20, &pattern("first", 2 << 20)).unwrap();
    let last = pattern("last", 64 << 10);
    disk.write_at(DISK_BYTES - (64 << 10), &last).unwrap();
    Arc::new(disk)
}

/// A server with a Unix socket.
pub(crate) struct Served {
    pub(crate) server: Server,
    directory: TempDir,
}

impl Served {
    pub(crate) fn start(exports: Vec<Export>, options: Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(exports, options).unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        server.listen(listener).unwrap();
        Self { server, directory }
    }

    /// Serves one device under an empty name.
    pub(crate) fn device(device: Arc<dyn BlockWrite>) -> Self {
        Self::start(vec![Export::writable("", device)], Options::default())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(crate) fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        let timeout = Some(Duration::from_secs(20));
        stream.set_read_timeout(timeout).unwrap();
        stream.set_write_timeout(timeout).unwrap();
        stream
    }
}

/// Runs a line of words with a program, and returns its output.
pub(crate) fn program(line: &str) -> String {
    attempt(line).unwrap()
}

/// Runs a line of words with a program that may fail.
pub(crate) fn attempt(line: &str) -> anyhow::Result<String> {
    let mut words = line.split_whitespace();
    run(words.next().unwrap(), words)
}

/// A device that waits before each read of its first MiB.
#[derive(Debug)]
pub(crate) struct Slow<D> {
    pub(crate) inner: D,
    pub(crate) delay: Duration,
}

impl<D: BlockRead> BlockRead for Slow<D> {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        assert!(offset != PANIC_AT, "a device that panics");
        if offset < 1 << 20 {
            std::thread::sleep(self.delay);
        }
        self.inner.read_at(offset, buf)
    }
}

/// The offset at which [`Slow`] panics.
pub(crate) const PANIC_AT: u64 = (2 << 20) + 512;

impl<D: BlockWrite> BlockWrite for Slow<D> {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.inner.write_at(offset, buf)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }
}
