//! Image locks, tested against QEMU.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use diskfs_block::ErrorKind;
use diskfs_image::{Image, OpenOptions, Share};

use crate::tools::{have_qemu, run, start, try_run};

/// A qemu-storage-daemon that holds images open until it is dropped.
struct Daemon(Child);

impl Daemon {
    /// Starts the daemon with block devices, and waits until it has opened them.
    fn start(dir: &Path, blockdevs: &[&str]) -> Self {
        let mut command = Command::new("qemu-storage-daemon");
        for blockdev in blockdevs {
            command.args(["--blockdev", blockdev]);
        }
        command
            .args(["--chardev", "stdio,id=qmp", "--monitor", "chardev=qmp"])
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = start(&mut command);
        // The daemon sends its QMP greeting when everything on its command line is open.
        let mut greeting = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut greeting).unwrap();
        assert!(greeting.contains("QMP"), "{greeting}");
        child.stdin.as_mut().unwrap().flush().unwrap();
        Self(child)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const WRITABLE: &str = "driver=qcow2,node-name=disk,file.driver=file,file.filename=disk.qcow2";

fn make(dir: &Path) {
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "raw", "base.raw", "1M"],
    );
    let args = [
        "create",
        "-q",
        "-f",
        "qcow2",
        "-b",
        "base.raw",
        "-F",
        "raw",
        "disk.qcow2",
    ];
    run(dir, "qemu-img", &args);
}

fn open(dir: &Path, name: &str, share: Share) -> diskfs_block::Result<Image> {
    let options = OpenOptions {
        share,
        ..OpenOptions::default()
    };
    Image::open(&dir.join(name), &options)
}

#[test]
fn an_image_that_is_written_to_is_refused() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let daemon = Daemon::start(dir.path(), &[WRITABLE]);
    let e = open(dir.path(), "disk.qcow2", Share::Readers).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
    assert!(e.to_string().contains("--force-share"), "{e}");
    assert!(e.path().unwrap().ends_with("disk.qcow2"));
    open(dir.path(), "disk.qcow2", Share::Force).unwrap();
    // The daemon only reads the backing file, so others may read it, too.
    open(dir.path(), "base.raw", Share::Readers).unwrap();
    drop(daemon);
    open(dir.path(), "disk.qcow2", Share::Readers).unwrap();
}

#[test]
fn a_backing_file_that_is_written_to_is_refused() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let args = [
        "create",
        "-q",
        "-f",
        "qcow2",
        "-b",
        "disk.qcow2",
        "-F",
        "qcow2",
        "top.qcow2",
    ];
    run(dir.path(), "qemu-img", &args);
    let _daemon = Daemon::start(dir.path(), &[WRITABLE]);
    let e = open(dir.path(), "top.qcow2", Share::Readers).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
    assert!(e.path().unwrap().ends_with("disk.qcow2"), "{e}");
}

#[test]
fn qemu_does_not_write_to_an_image_that_is_read() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let image = open(dir.path(), "disk.qcow2", Share::Readers).unwrap();
    for name in ["disk.qcow2", "base.raw"] {
        let format = if name == "base.raw" { "raw" } else { "qcow2" };
        let args = ["-f", format, "-c", "write -P 1 0 512", name];
        let output = try_run(dir.path(), "qemu-io", &args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("lock"), "{text}");
    }
    // The remaining device keeps the lock.
    let device = image.device();
    drop(image);
    assert!(
        !try_run(dir.path(), "qemu-io", &["-c", "write 0 512", "disk.qcow2"])
            .status
            .success()
    );
    drop(device);
    run(dir.path(), "qemu-io", &["-c", "write 0 512", "disk.qcow2"]);
}

#[test]
fn readers_coexist() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let read_only = format!("{WRITABLE},read-only=on");
    let _daemon = Daemon::start(dir.path(), &[&read_only]);
    let first = open(dir.path(), "disk.qcow2", Share::Readers).unwrap();
    let second = open(dir.path(), "disk.qcow2", Share::Readers).unwrap();
    run(dir.path(), "qemu-img", &["info", "disk.qcow2"]);
    run(
        dir.path(),
        "qemu-io",
        &["-r", "-c", "read 0 512", "disk.qcow2"],
    );
    drop((first, second));
}
