//! Disks of a web server that are used while they are copied.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use diskfs_fixtures::{Random, TcpServer, free_port, have, image, run};
use rustix::process::Signal;

use super::{Server, has_backing};
use crate::{diskfs_in, diskfs_with};

const MIB: usize = 1 << 20;

/// The size of the disk.
const SIZE_MIB: usize = 24;

/// Returns the image on a server that sends 8 MB a second to each connection.
fn serve(directory: &Path, name: &str) -> (TcpServer, String) {
    let port = free_port();
    let lines = format!("listen 127.0.0.1:{port}; limit_rate 8m;");
    let server = TcpServer::nginx(directory, directory, port, &lines);
    (server, format!("http://127.0.0.1:{port}/{name}"))
}

fn begin(directory: &Path, url: &str) -> Server {
    let words = ["--nbd", "unix:socket", "--overlay", "top.qcow2"];
    Server::begin(
        directory,
        &[&words[..], &["--background-copy", url]].concat(),
    )
}

/// Writes a MiB by the export, and to the file with the expected contents.
fn write(directory: &Path, at_mib: usize, byte: u8) {
    let socket = directory.join("socket").display().to_string();
    let target = format!("nbd+unix:///?socket={socket}");
    let command = format!("write -P {byte} {at_mib}M 1M");
    let words = ["-f", "raw", "-c", &command, "-c", "flush", &target];
    run("qemu-io", words).unwrap();
    let mut expected = fs::read(directory.join("expected.raw")).unwrap();
    expected[at_mib * MIB..][..MIB].fill(byte);
    fs::write(directory.join("expected.raw"), expected).unwrap();
}

fn is_as_expected(directory: &Path) {
    let at = |name: &str| directory.join(name).display().to_string();
    let (top, expected) = (at("top.qcow2"), at("expected.raw"));
    run("qemu-img", ["check", "-q", &top]).unwrap();
    run("qemu-img", ["compare", "-q", "-F", "raw", &top, &expected]).unwrap();
}

/// Runs until the copy is complete, is killed meanwhile, and then works without its server.
#[test]
fn a_killed_copy_goes_on_and_ends() {
    if !have(&["nginx", "qemu-img", "qemu-io"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let mut disk = Random::new(28).bytes(SIZE_MIB * MIB);
    disk[4 * MIB..8 * MIB].fill(0);
    fs::write(at.join("disk.raw"), &disk).unwrap();
    fs::write(at.join("expected.raw"), &disk).unwrap();
    let (web, url) = serve(at, "disk.raw");
    let secret = format!("{url}?signature=secret");

    let server = begin(at, &secret);
    write(at, 20, 1);
    write(at, 0, 2);
    server.kill();
    fs::remove_file(at.join("socket")).unwrap();
    assert!(has_backing(&at.join("top.qcow2")));
    let image = fs::read(at.join("top.qcow2")).unwrap();
    assert!(!image.windows(6).any(|bytes| bytes == b"secret"));

    let server = begin(at, &secret);
    write(at, 23, 3);
    let start = Instant::now();
    while has_backing(&at.join("top.qcow2")) {
        assert!(start.elapsed() < Duration::from_mins(2), "no end");
        sleep(Duration::from_millis(200));
    }
    drop(web);
    write(at, 10, 4);
    server.signal(Signal::TERM);
    let (code, log) = server.end_with_log();
    assert_eq!(code, Some(0), "{log}");
    for told in ["copied 50 % of ", "the copy is complete"] {
        assert!(log.contains(told), "{log}");
    }
    assert!(!log.contains("secret"), "{log}");
    is_as_expected(at);
    // The same command goes on with the complete overlay.
    let server = begin(at, &secret);
    write(at, 11, 5);
    server.signal(Signal::TERM);
    let (code, log) = server.end_with_log();
    assert_eq!(code, Some(0), "{log}");
    is_as_expected(at);
}

/// Changes in an overlay belong to one version of the image.
#[test]
fn an_overlay_of_another_version_is_refused() {
    if !have(&["nginx"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let at = demo.directory();
    let (_web, url) = serve(at, "demo.qcow2");
    fs::write(at.join("new"), "new\n").unwrap();
    let words = [
        "cp",
        "--overlay",
        "top.qcow2",
        "new",
        &format!("{url}:/etc/new"),
    ];
    diskfs_in(at, &words).text();
    fs::create_dir(at.join("mnt")).unwrap();
    diskfs_in(at, &["mount", "--overlay", "top.qcow2", &url, "mnt"]).text();
    assert_eq!(fs::read(at.join("mnt/etc/new")).unwrap(), b"new\n");
    diskfs_in(at, &["umount", "mnt"]).text();
    // Nothing but the command line leads to another machine.
    let (code, stderr) = diskfs_in(at, &["cat", "top.qcow2:/etc/new"]).failure();
    assert!(
        code == 6 && stderr.contains("127.0.0.1"),
        "{code}: {stderr}"
    );
    assert!(stderr.contains("--overlay top.qcow2 http"), "{stderr}");
    let words = ["cp", "--overlay", "top.qcow2", "new", "demo.qcow2:/x"];
    let (code, stderr) = diskfs_in(at, &words).failure();
    assert!(code == 6 && stderr.contains("refusing"), "{code}: {stderr}");

    diskfs_in(at, &["cp", "new", "demo.qcow2:/etc/changed"]).text();
    let before = fs::read(at.join("top.qcow2")).unwrap();
    let again = [
        "cp",
        "--overlay",
        "top.qcow2",
        "new",
        &format!("{url}:/etc/again"),
    ];
    let (code, stderr) = diskfs_with(at, &again, &[]).failure();
    assert!(code == 6 && stderr.contains("stale"), "{code}: {stderr}");
    assert!(before == fs::read(at.join("top.qcow2")).unwrap());
}
