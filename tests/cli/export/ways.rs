//! NBD, a FUSE file and both at once, as QEMU and other programs see them.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use diskfs_fixtures::{pattern, require};
use rustix::process::Signal;
use serde_json::Value;

use super::{Server, qemu_img};
use crate::{DISKFS, diskfs_in};

const MIB: u64 = 1 << 20;

/// Makes `disk.qcow2` of 64 MiB, with a MiB of data at 1 MiB.
fn disk() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let raw = fs::File::create(path.join("seed.raw")).unwrap();
    raw.set_len(64 * MIB).unwrap();
    raw.write_all_at(&pattern("export", 1 << 20), MIB).unwrap();
    diskfs_in(path, &["convert", "seed.raw", "disk.qcow2"]).text();
    directory
}

fn qemu_io(directory: &Path, image: &str, commands: &[&str]) -> String {
    let mut command = diskfs_fixtures::command("qemu-io");
    command.args(["-f", "raw"]).current_dir(directory);
    for words in commands {
        command.args(["-c", words]);
    }
    let output = command.arg(image).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{commands:?}: {output:?}");
    assert!(!printed.contains("failed"), "{printed}");
    printed
}

/// Returns the map of an image as `qemu-img` prints it.
fn map(directory: &Path, words: &[&str]) -> Value {
    let mut command = diskfs_fixtures::command("qemu-img");
    command.args(["map", "--output=json"]).args(words);
    let output = command.current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.contains(&*path.to_string_lossy())
}

/// Whatever one way writes, the other one shows at once.
#[test]
fn all_ways_show_one_state() {
    if require("qemu-img").is_none() {
        return;
    }
    let directory = disk();
    let dir = directory.path();
    let words = [
        "--nbd",
        "unix:s k",
        "--nbd",
        "tcp:localhost:0",
        "--fuse-file",
    ];
    let server = Server::begin(dir, &[&words[..], &["disk.img", "disk.qcow2"]].concat());
    let document = &server.1;
    let uris = document["nbd"].as_array().unwrap();
    let [unix, tcp] = uris.as_slice() else {
        panic!("{document}");
    };
    let (unix, tcp) = (unix.as_str().unwrap(), tcp.as_str().unwrap());
    assert!(unix.ends_with("/s%20k"), "{unix}");
    assert_eq!(
        document["fuse_file"],
        dir.join("disk.img").to_str().unwrap()
    );
    for image in [unix, tcp, "disk.img"] {
        qemu_img(
            dir,
            &["compare", "-f", "raw", "-F", "raw", "seed.raw", image],
        );
    }
    qemu_io(
        dir,
        unix,
        &["write -P 7 8M 64k", "write -z 1M 64k", "discard 8M 4k"],
    );
    let mut options = fs::File::options();
    let file = options.read(true).write(true);
    let mut file = file.open(dir.join("disk.img")).unwrap();
    let mut read = vec![0; 64 << 10];
    file.read_exact_at(&mut read, 8 * MIB).unwrap();
    assert!(read[4096..].iter().all(|byte| *byte == 7));
    file.read_exact_at(&mut read, MIB).unwrap();
    assert_eq!(read, vec![0; 64 << 10]);
    file.seek(SeekFrom::Start(20 * MIB)).unwrap();
    file.write_all(&pattern("file", 1 << 20)).unwrap();
    file.sync_all().unwrap();
    let found = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(9 * MIB)).unwrap();
    assert_eq!(found, 20 * MIB);
    qemu_io(dir, tcp, &["read 20M 1M"]);
    qemu_img(dir, &["compare", "-f", "raw", "-F", "raw", "disk.img", tcp]);
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 20 * MIB, MIB).unwrap();
    qemu_io(dir, unix, &["read -P 0 20M 1M"]);
    assert_eq!(map(dir, &["-f", "raw", "disk.img"])[0]["data"], false);
    // The size is that of the disk.
    let past_end = file.write_at(b"more", 64 * MIB).unwrap_err();
    assert_eq!(past_end.raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(
        file.set_len(0).unwrap_err().raw_os_error(),
        Some(libc::EPERM)
    );
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.mode(), metadata.len()), (0o100_600, 64 * MIB));
    assert!(metadata.blocks() * 512 < 64 * MIB);
    drop(file);
    qemu_img(
        dir,
        &["convert", "-f", "raw", "-O", "raw", tcp, "state.raw"],
    );
    server.signal(Signal::TERM);
    server.end();
    assert!(!dir.join("disk.img").exists() && !dir.join("s k").exists());
    qemu_img(dir, &["check", "-q", "disk.qcow2"]);
    qemu_img(dir, &["compare", "disk.qcow2", "state.raw"]);
}

#[test]
fn a_file_that_exists_is_a_mount_point_and_ends_with_an_unmount() {
    let directory = disk();
    let dir = directory.path();
    fs::write(dir.join("disk.img"), "below").unwrap();
    let words = ["--read-only", "--fuse-file", "disk.img", "disk.qcow2"];
    let server = Server::begin(dir, &words);
    let mut seed = Vec::new();
    let mut file = fs::File::open(dir.join("seed.raw")).unwrap();
    file.read_to_end(&mut seed).unwrap();
    assert!(fs::read(dir.join("disk.img")).unwrap() == seed);
    let refused = fs::File::options().write(true).open(dir.join("disk.img"));
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EROFS));
    diskfs_in(dir, &["umount", "disk.img"]).text();
    server.end();
    assert_eq!(fs::read(dir.join("disk.img")).unwrap(), b"below");
}

#[test]
fn a_kill_leaves_no_mount() {
    let directory = disk();
    let dir = directory.path();
    let server = Server::begin(dir, &["--fuse-file", "disk.img", "disk.qcow2"]);
    let path = dir.join("disk.img");
    assert!(is_mounted(&path));
    server.kill();
    for _ in 0..200 {
        if !is_mounted(&path) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(!is_mounted(&path));
}

#[test]
fn changes_go_to_an_overlay_and_bitmaps_are_shown() {
    if require("qemu-img").is_none() {
        return;
    }
    let directory = disk();
    let dir = directory.path();
    diskfs_in(dir, &["bitmap", "add", "disk.qcow2", "monday"]).text();
    let write = ["-f", "qcow2", "-c", "write -P 9 32M 128k", "disk.qcow2"];
    let mut command = diskfs_fixtures::command("qemu-io");
    let wrote = command.args(write).current_dir(dir).output().unwrap();
    assert!(wrote.status.success(), "{wrote:?}");
    let bitmap = ["--read-only", "--bitmap", "monday", "--nbd", "unix:socket"];
    let server = Server::begin(dir, &[&bitmap[..], &["disk.qcow2"]].concat());
    let options = "driver=nbd,server.type=unix,server.path=socket,\
                   x-dirty-bitmap=qemu:dirty-bitmap:monday";
    let marked = map(dir, &["--image-opts", options]);
    let marked = marked.as_array().unwrap().iter();
    // QEMU shows a marked range as one without data.
    let marked: Vec<_> = marked.filter(|run| run["data"] == false).collect();
    assert_eq!(marked.len(), 1, "{marked:?}");
    assert_eq!(
        (&marked[0]["start"], &marked[0]["length"]),
        (&(32 * MIB).into(), &(128 << 10).into())
    );
    server.signal(Signal::INT);
    server.end();
    let before = fs::read(dir.join("disk.qcow2")).unwrap();
    let words = [
        "--overlay",
        "changes.qcow2",
        "--nbd",
        "unix:socket",
        "disk.qcow2",
    ];
    let server = Server::begin(dir, &words);
    qemu_io(dir, "nbd+unix:///?socket=socket", &["write -P 5 0 4k"]);
    server.signal(Signal::TERM);
    server.end();
    assert!(fs::read(dir.join("disk.qcow2")).unwrap() == before);
    let words = ["compare", "disk.qcow2", "changes.qcow2"];
    assert_eq!(diskfs_in(dir, &words).code(), Some(1));
}

#[test]
fn a_network_needs_tls_or_the_word() {
    let directory = disk();
    let dir = directory.path();
    let (_, said) = diskfs_in(dir, &["export", "disk.qcow2", "--nbd", "tcp:0.0.0.0:0"]).failure();
    assert!(said.contains("--tls-certificate"), "{said}");
    let server = Server::begin(dir, &["--insecure", "--nbd", "tcp:0.0.0.0:0", "disk.qcow2"]);
    server.signal(Signal::TERM);
    server.end();
    for (words, hint) in [
        (&["disk.qcow2"][..], "--nbd"),
        (&["disk.qcow2", "--nbd", "socket"], "unix:PATH"),
        (
            &["disk.qcow2", "--bitmap", "x", "--nbd", "unix:s"],
            "--read-only",
        ),
        (
            &["disk.qcow2", "--fuse-file", "/nonexistent/x"],
            "no such file",
        ),
        (
            &["missing.qcow2", "--fuse-file", "new.img"],
            "missing.qcow2",
        ),
    ] {
        let (_, said) = diskfs_in(dir, &[&["export"], words].concat()).failure();
        assert!(said.contains(hint), "{words:?}: {said}");
    }
    assert!(!dir.join("new.img").exists() && !dir.join("s").exists());
}

/// libnbd starts a server with its socket, as systemd does, and ends it afterwards.
#[test]
fn a_client_of_libnbd_starts_it_with_a_socket() {
    if require("nbdinfo").is_none() || require("nbdcopy").is_none() || require("qemu-img").is_none()
    {
        return;
    }
    let dir = disk();
    let served = ["[", DISKFS, "export", "--read-only", "--nbd", "systemd"];
    let call = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        let output = command.args(words).current_dir(dir.path()).output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {stderr}");
        output.stdout
    };
    let size = [&["--size", "--"], &served[..], &["disk.qcow2", "]"]].concat();
    let size = String::from_utf8(call("nbdinfo", &size)).unwrap();
    assert_eq!(size.trim().parse(), Ok(64 * MIB), "{size}");
    call(
        "nbdcopy",
        &[&["--"], &served[..], &["disk.qcow2", "]", "copy.raw"]].concat(),
    );
    call("qemu-img", &["compare", "disk.qcow2", "copy.raw"]);
    let (code, stderr) =
        diskfs_in(dir.path(), &["export", "--nbd", "systemd", "disk.qcow2"]).failure();
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("passed no socket"), "{stderr}");
}

#[test]
fn it_ends_with_its_last_client() {
    if require("qemu-img").is_none() || require("qemu-io").is_none() {
        return;
    }
    let dir = disk();
    let words = ["--nbd", "unix:socket", "--once", "disk.qcow2"];
    let server = Server::begin(dir.path(), &words);
    let uri = "nbd+unix:///?socket=socket";
    // Whoever only connects is no client.
    drop(std::os::unix::net::UnixStream::connect(dir.path().join("socket")).unwrap());
    let written = qemu_io(dir.path(), uri, &["write -P 7 0 64k"]);
    assert!(written.contains("wrote"), "{written}");
    server.end();
    assert!(!dir.path().join("socket").exists());
    qemu_img(
        dir.path(),
        &["convert", "-O", "raw", "disk.qcow2", "copy.raw"],
    );
    let copied = fs::read(dir.path().join("copy.raw")).unwrap();
    assert!(copied[..64 << 10].iter().all(|byte| *byte == 7));
}
