//! `diskfs export`: a virtual machine of QEMU boots from the export, and writes to it.

mod boot_sector;
#[cfg(feature = "objects")]
mod copying;
mod copying_on_host;
mod ways;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use diskfs_fixtures::{require, run};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::DISKFS;

const QEMU: &str = "qemu-system-x86_64";

/// A program that serves and has reported that it is ready, with its document.
struct Server(Child, serde_json::Value);

impl Server {
    fn start(directory: &Path, words: &[&str]) -> Self {
        Self::begin(
            directory,
            &[&["--vhost-user-blk", "socket"], words].concat(),
        )
    }

    fn begin(directory: &Path, words: &[&str]) -> Self {
        let child = Command::new(DISKFS)
            .args(["export", "--json"])
            .args(words)
            .current_dir(directory)
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("start diskfs");
        let stdout = child.stdout.as_mut().expect("the output is a pipe");
        let mut documents = serde_json::Deserializer::from_reader(stdout).into_iter();
        let Some(Ok(document)) = documents.next() else {
            panic!("it serves: {:?}", child.wait_with_output());
        };
        Self(child, document)
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Sends it a signal.
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).expect("send the signal");
    }

    fn end(self) {
        let (code, log) = self.end_with_log();
        assert!(code == Some(0) && log.is_empty(), "{log}");
    }

    /// Waits for its end, and returns its exit code and its log.
    fn end_with_log(self) -> (Option<i32>, String) {
        let output = self.0.wait_with_output().expect("wait for its end");
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), log)
    }
}

/// Tells whether an image in use has a backing file. qemu-img fails if the header changes between
/// two of its reads; nothing is known then, and the file is still taken to be there.
fn has_backing(image: &Path) -> bool {
    let image = image.display().to_string();
    run("qemu-img", ["info", "-U", &image]).map_or(true, |info| info.contains("backing file:"))
}

fn qemu_img(directory: &Path, words: &[&str]) {
    let output = Command::new("qemu-img")
        .args(words)
        .current_dir(directory)
        .output();
    let output = output.expect("start qemu-img");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Makes a bootable `disk.qcow2` over `base.qcow2`.
fn bootable() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = vec![0; 1 << 20];
    disk[..512].copy_from_slice(&boot_sector::bytes());
    disk[512..][..boot_sector::TEXT.len()].copy_from_slice(boot_sector::TEXT);
    let path = directory.path();
    std::fs::write(path.join("disk.raw"), disk).unwrap();
    qemu_img(
        path,
        &[
            "convert",
            "-f",
            "raw",
            "-O",
            "qcow2",
            "disk.raw",
            "base.qcow2",
        ],
    );
    let overlay = [
        "create",
        "-q",
        "-f",
        "qcow2",
        "-b",
        "base.qcow2",
        "-F",
        "qcow2",
        "disk.qcow2",
    ];
    qemu_img(path, &overlay);
    directory
}

/// Boots a machine from the export, and waits until it exits.
fn boot(directory: &Path) -> Output {
    let machine = Command::new("timeout")
        .args([
            "60",
            QEMU,
            "-M",
            "pc,memory-backend=mem",
            "-accel",
            "tcg",
            "-m",
            "64",
        ])
        .args([
            "-nodefaults",
            "-display",
            "none",
            "-serial",
            "stdio",
            "-no-reboot",
        ])
        .args(["-object", "memory-backend-memfd,id=mem,size=64M,share=on"])
        .args(["-chardev", "socket,id=disk,path=socket"])
        .args(["-device", "vhost-user-blk-pci,chardev=disk,bootindex=0"])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=1"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .output();
    machine.expect("QEMU starts")
}

/// Returns a sector of an image, as QEMU reads it.
fn sector(directory: &Path, image: &str, number: usize) -> Vec<u8> {
    qemu_img(directory, &["convert", "-O", "raw", image, "read.raw"]);
    let disk = std::fs::read(directory.join("read.raw")).unwrap();
    disk[number * 512..][..512].to_vec()
}

#[test]
fn a_virtual_machine_boots_from_it_and_writes_to_it() {
    if require("qemu-img").and(require(QEMU)).is_none() {
        return;
    }
    let directory = bootable();
    let path = directory.path();
    let server = Server::start(path, &["disk.qcow2", "--once"]);
    let output = boot(path);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(boot_sector::DONE), "{stderr}");
    assert_eq!(
        output.stdout.escape_ascii().to_string(),
        boot_sector::TEXT.escape_ascii().to_string()
    );
    server.end();

    qemu_img(path, &["check", "-q", "disk.qcow2"]);
    let mut written = sector(path, "base.qcow2", 1);
    assert_eq!(
        sector(path, "base.qcow2", 2),
        [0; 512],
        "the base is as it was"
    );
    written[0] = boot_sector::MARK;
    assert_eq!(sector(path, "disk.qcow2", 2), written);
}

#[test]
fn what_is_read_only_boots_and_refuses_the_write() {
    if require("qemu-img").and(require(QEMU)).is_none() {
        return;
    }
    let directory = bootable();
    let path = directory.path();
    // The same program serves the second machine.
    let server = Server::start(path, &["disk.qcow2", "--read-only"]);
    for _ in 0..2 {
        let output = boot(path);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(boot_sector::FAILED), "{stderr}");
        assert_eq!(
            output.stdout.escape_ascii().to_string(),
            boot_sector::TEXT.escape_ascii().to_string()
        );
    }
    server.signal(Signal::TERM);
    let (code, log) = server.end_with_log();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("write to a read-only device"), "{log}");
    assert_eq!(sector(path, "disk.qcow2", 2), [0; 512]);
}

#[test]
fn a_signal_ends_it_and_the_socket() {
    if require("qemu-img").is_none() {
        return;
    }
    let directory = bootable();
    let path = directory.path();
    for signal in [Signal::INT, Signal::TERM] {
        let server = Server::start(path, &["disk.qcow2", "--overlay", "changes.qcow2"]);
        assert!(path.join("socket").exists());
        server.signal(signal);
        server.end();
        assert!(!path.join("socket").exists());
    }
    qemu_img(path, &["check", "-q", "changes.qcow2"]);
}
