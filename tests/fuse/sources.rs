//! Mounts of images on other machines, whose server or whose broker is killed.

use std::any::Any;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use diskfs_fixtures::{ImageRegistry, TcpServer, free_port, have, pattern};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

use super::lifetime::wait_for;
use super::{DISKFS, Mountpoint, can_mount, diskfs, processes_with, server_and_broker, stderr};

/// The size of the file `noise`, of which a mount reads only small parts.
const NOISE_BYTES: usize = 40 << 20;

/// An image on another machine. Its server ends when this value is dropped.
struct Source {
    uri: String,
    _server: Box<dyn Any>,
}

/// A mount in the foreground.
struct Mounted {
    at: Mountpoint,
    uri: String,
    server: Child,
}

/// Makes `disk.raw`, a filesystem with the file `noise`.
fn disk() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("noise"), pattern("noise", NOISE_BYTES)).unwrap();
    let words = ["-q", "-t", "ext4", "-d"].map(Path::new);
    let disk = dir.path().join("disk.raw");
    let words = words.into_iter().chain([&*tree, &*disk, Path::new("64M")]);
    diskfs_fixtures::run("mke2fs", words).unwrap();
    dir
}

/// Serves the disk by HTTP.
fn by_http(at: &Path) -> Source {
    let port = free_port();
    let server = TcpServer::nginx(at, at, port, &format!("listen 127.0.0.1:{port};"));
    Source {
        uri: format!("http://127.0.0.1:{port}/disk.raw"),
        _server: Box::new(server),
    }
}

/// Pushes the disk to a registry.
fn by_registry(at: &Path) -> Source {
    let registry = ImageRegistry::start(at, "");
    let uri = format!("oci://{}/disk", registry.host);
    let [disk, layout] = ["disk.raw", "layout"].map(|name| at.join(name));
    let [disk, layout] = [&disk, &layout].map(|path| path.to_str().unwrap());
    let build = ["oci", "build", disk, "-o", layout, "--compress", "none"];
    for words in [&build[..], &["oci", "push", layout, &uri]] {
        let done = diskfs(words);
        assert!(done.status.success(), "{words:?}: {}", stderr(&done));
    }
    Source {
        uri,
        _server: Box::new(registry),
    }
}

impl Mounted {
    fn start(source: &Source) -> Self {
        let (at, uri) = (Mountpoint::new(), source.uri.clone());
        let mut server = Command::new(DISKFS);
        let server = server.args(["mount", "--foreground", &uri]).arg(&*at);
        let server = server.env("RUST_LOG", "warn").stderr(Stdio::piped());
        let mut settings = tempfile::NamedTempFile::new().unwrap();
        settings.write_all(b"[remote]\nretry = 8.0\n").unwrap();
        let server = server.env("DISKFS_CONFIG", settings.path());
        let server = server.spawn().unwrap();
        at.wait_until(true);
        Self { at, uri, server }
    }

    /// Reads a block of the file.
    fn read(&self, offset: usize) -> io::Result<()> {
        let mut block = [0; 4096];
        let noise = File::open(self.at.join("noise"))?;
        noise.read_exact_at(&mut block, offset as u64)?;
        assert!(block == pattern("noise", NOISE_BYTES)[offset..offset + 4096]);
        Ok(())
    }

    /// Expects that a read fails within this time.
    fn fails_within(&self, time: Duration, offset: usize) {
        let begin = Instant::now();
        let error = self.read(offset).unwrap_err();
        let errno = error.raw_os_error();
        assert_eq!(errno, Some(Errno::IO.raw_os_error()), "{error}");
        assert!(begin.elapsed() < time, "{:?}", begin.elapsed());
    }

    /// Unmounts, and returns the server's log.
    fn end(self) -> String {
        let unmounted = diskfs(["umount".as_ref(), self.at.as_os_str()]);
        assert!(unmounted.status.success(), "{}", stderr(&unmounted));
        let ended = self.server.wait_with_output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        wait_for("the processes' end", || {
            processes_with(Path::new(&self.uri)).is_empty() && processes_with(&self.at).is_empty()
        });
        stderr(&ended)
    }
}

#[test]
fn without_its_broker_a_mount_shows_only_what_it_has_read() {
    if can_mount().is_none() || !have(&["docker-registry", "nginx"]) {
        return;
    }
    for make in [by_http, by_registry] {
        let disk = disk();
        let source = make(disk.path());
        let mounted = Mounted::start(&source);
        mounted.read(0).unwrap();
        let (_, broker) = server_and_broker(Path::new(&source.uri));
        kill_process(broker.expect("find the broker"), Signal::KILL).unwrap();
        mounted.fails_within(Duration::from_secs(10), NOISE_BYTES / 2);
        mounted.fails_within(Duration::from_secs(10), NOISE_BYTES / 4);
        mounted.read(0).unwrap();
        let said = mounted.end();
        let reason = "the process that opens files for this one has ended";
        assert!(
            said.contains(reason) && said.contains(&source.uri),
            "{said}"
        );
    }
}

#[test]
fn without_its_registry_a_mount_fails_after_its_retries() {
    if can_mount().is_none() || !have(&["docker-registry"]) {
        return;
    }
    let disk = disk();
    let source = by_registry(disk.path());
    let mounted = Mounted::start(&source);
    mounted.read(0).unwrap();
    let uri = source.uri.clone();
    drop(source);
    // Requests are repeated for eight seconds, and later ones only sent once.
    mounted.fails_within(Duration::from_secs(40), NOISE_BYTES / 2);
    mounted.fails_within(Duration::from_secs(10), NOISE_BYTES / 4);
    mounted.read(0).unwrap();
    let said = mounted.end();
    assert!(said.contains("connect") && said.contains(&uri), "{said}");
}
