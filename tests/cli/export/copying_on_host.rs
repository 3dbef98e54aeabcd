//! Disks of this host that are used while they are copied into their overlay.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use diskfs_fixtures::{Random, Tmpfs, have, require, run};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{Server, has_backing, qemu_img};
use crate::diskfs_in;

const MIB: usize = 1 << 20;

/// The size of the disk.
const SIZE_MIB: usize = 8;

/// Creates `base.raw`, and the same file as `expected.raw`.
fn base(directory: &Path) {
    let disk = Random::new(29).bytes(SIZE_MIB * MIB);
    for name in ["base.raw", "expected.raw"] {
        fs::write(directory.join(name), &disk).unwrap();
    }
}

/// Writes a MiB by the export. Returns what qemu-io says about a failure.
fn write(directory: &Path, at_mib: usize, byte: u8) -> Result<(), String> {
    let socket = directory.join("socket").display().to_string();
    let target = format!("nbd+unix:///?socket={socket}");
    let command = format!("write -P {byte} {at_mib}M 1M");
    let words = ["-f", "raw", "-c", &command, "-c", "flush", &target];
    let written = run("qemu-io", words)
        .map_err(|error| error.to_string())
        .and_then(|said| {
            if said.contains("failed") {
                Err(said)
            } else {
                Ok(())
            }
        });
    if written.is_ok() {
        let path = directory.join("expected.raw");
        let mut expected = fs::read(&path).unwrap();
        expected[at_mib * MIB..][..MIB].fill(byte);
        fs::write(path, expected).unwrap();
    }
    written
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(
            start.elapsed() < Duration::from_mins(1),
            "waited for {what}"
        );
        sleep(Duration::from_millis(100));
    }
}

/// The space that a copy leaves on the host.
const RESERVED: u64 = 64 << 20;

/// A small filesystem with an overlay, of a disk on another one.
struct Scene {
    tmpfs: Tmpfs,
    directory: TempDir,
    top: String,
    base: String,
}

impl Scene {
    fn new() -> Option<Self> {
        if !have(&["qemu-img", "qemu-io"]) {
            return None;
        }
        let (tmpfs, directory) = (Tmpfs::new("80M")?, tempfile::tempdir().unwrap());
        base(directory.path());
        Some(Self {
            top: tmpfs.path().join("top.qcow2").display().to_string(),
            base: directory.path().join("base.raw").display().to_string(),
            tmpfs,
            directory,
        })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn begin(&self) -> Server {
        let words = ["--nbd", "unix:socket", "--overlay", &self.top];
        let words = [&words[..], &["--background-copy", &self.base]].concat();
        Server::begin(self.path(), &words)
    }

    /// Lets the copy run until it waits for space.
    fn fill(&self) -> Server {
        self.tmpfs.fill(RESERVED + (3 << 20));
        let server = self.begin();
        wait_for("some data", || {
            fs::metadata(&self.top).unwrap().len() > 2 << 20
        });
        sleep(Duration::from_millis(500));
        server
    }

    fn is_sound(&self) {
        qemu_img(self.path(), &["check", "-q", &self.top]);
        let words = ["compare", "-q", "-F", "raw", &self.top, "expected.raw"];
        qemu_img(self.path(), &words);
    }
}

fn wait_for_end(top: &str) {
    wait_for("the end of the copy", || !has_backing(Path::new(top)));
}

fn end(server: Server) -> String {
    server.signal(Signal::TERM);
    let (code, log) = server.end_with_log();
    assert_eq!(code, Some(0), "{log}");
    log
}

/// A copy does not take the last space of the host from the disk's own writes. When even that space
/// is used, a client is told so by its write.
#[test]
fn a_copy_on_a_full_host_waits() {
    let Some(scene) = Scene::new() else { return };
    let server = scene.fill();
    // What is stored can be overwritten, and there is space for more.
    write(scene.path(), 0, 1).unwrap();
    write(scene.path(), SIZE_MIB - 1, 2).unwrap();
    let last = scene.tmpfs.path().join("last");
    assert!(fs::write(&last, vec![1; 80 << 20]).is_err());
    let refused = write(scene.path(), SIZE_MIB - 2, 3).unwrap_err();
    assert!(refused.contains("No space left on device"), "{refused}");
    write(scene.path(), 0, 4).unwrap();
    fs::remove_file(last).unwrap();
    scene.tmpfs.free();
    wait_for_end(&scene.top);
    write(scene.path(), SIZE_MIB - 2, 5).unwrap();
    let log = end(server);
    let reason =
        "the copy goes on in 1 s: less than 64 MiB of space left on the host; free space there";
    assert!(
        log.contains(reason) && log.contains("the copy is complete"),
        "{log}"
    );
    fs::remove_file(&scene.base).unwrap();
    scene.is_sound();
}

/// A server that ends on a full host leaves a sound overlay, with which the copy goes on.
#[test]
fn a_copy_that_ends_on_a_full_host_goes_on_later() {
    let Some(scene) = Scene::new() else { return };
    let server = scene.fill();
    let log = end(server);
    assert!(
        log.contains("the copy was stopped, and is not complete"),
        "{log}"
    );
    scene.is_sound();
    scene.tmpfs.free();
    let server = scene.fill();
    server.kill();
    fs::remove_file(scene.path().join("socket")).unwrap();
    scene.is_sound();
    scene.tmpfs.free();
    let server = scene.begin();
    wait_for_end(&scene.top);
    end(server);
    scene.is_sound();
}

/// The snapshots of an overlay may need its backing file.
#[test]
fn an_overlay_with_snapshots_is_copied_without_them() {
    if require("qemu-img").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    base(at);
    let create = "create -q -f qcow2 -b base.raw -F raw top.qcow2";
    qemu_img(at, &create.split(' ').collect::<Vec<_>>());
    qemu_img(at, &["snapshot", "-c", "before", "top.qcow2"]);
    let words = ["--nbd", "unix:socket", "--overlay", "top.qcow2"];
    let words = [&words[..], &["--background-copy", "base.raw"]].concat();
    let refused = diskfs_in(at, &[&["export"], &words[..]].concat());
    let (code, said) = refused.failure();
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("diskfs snapshot delete"), "{said}");
    diskfs_in(at, &["snapshot", "delete", "top.qcow2", "before"]).text();
    let server = Server::begin(at, &words);
    wait_for_end(&at.join("top.qcow2").display().to_string());
    end(server);
}
