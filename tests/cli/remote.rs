//! Images that an NBD server exports, in place of files.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use diskfs_fixtures::{image, require};

use crate::diskfs_in;

/// An NBD server of QEMU, for the disk of an image or for the file itself.
struct QemuNbd(Child);

impl QemuNbd {
    fn start(directory: &Path, words: &[&str]) -> Self {
        let mut command = Command::new("qemu-nbd");
        command.args(["--persistent", "--shared=0"]);
        command.args(["--socket", directory.join("socket").to_str().unwrap()]);
        let child = command.args(words).current_dir(directory).spawn().unwrap();
        let start = Instant::now();
        while !directory.join("socket").exists() {
            assert!(start.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(10));
        }
        Self(child)
    }
}

impl Drop for QemuNbd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const URI: &str = "nbd+unix:///?socket=socket";

#[test]
fn commands_read_and_write_an_export() {
    if require("qemu-nbd").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    let dir = demo.directory();
    // The file itself is exported: diskfs finds out that it is qcow2.
    let server = QemuNbd::start(dir, &["--read-only", "-f", "raw", "demo.qcow2"]);
    let info = diskfs_in(dir, &["info", "--json", URI]).json();
    assert_eq!(info["image"]["format"], "qcow2", "{info}");
    drop(server);
    fs::remove_file(dir.join("socket")).unwrap();
    let server = QemuNbd::start(dir, &["-f", "qcow2", "demo.qcow2"]);
    let run = |words: &[&str]| diskfs_in(dir, words);
    let at = |path: &str| format!("{URI}:{path}");
    assert_eq!(run(&["cat", &at("/etc/hostname")]).text(), "demo\n");
    assert!(run(&["ls", &at("/etc")]).text().contains("hostname"));
    fs::write(dir.join("new"), "written by NBD\n").unwrap();
    run(&["cp", "new", &at("/etc/new")]).text();
    assert_eq!(run(&["cat", &at("/etc/new")]).text(), "written by NBD\n");
    run(&["cp", &at("/etc/new"), "back"]).text();
    run(&["convert", URI, "copy.qcow2"]).text();
    run(&["compare", URI, "copy.qcow2"]).text();
    let dry = run(&["cp", "--dry-run", "new", &at("/etc/other")]).text();
    assert!(dry.contains("/etc/other"), "{dry}");
    fs::create_dir(dir.join("mnt")).unwrap();
    run(&["mount", URI, "mnt"]).text();
    assert_eq!(
        fs::read(dir.join("mnt/etc/new")).unwrap(),
        b"written by NBD\n"
    );
    run(&["umount", "mnt"]).text();
    run(&["mount", "--rw", URI, "mnt"]).text();
    fs::write(dir.join("mnt/etc/mounted"), "too").unwrap();
    run(&["umount", "mnt"]).text();
    assert_eq!(run(&["cat", &at("/etc/mounted")]).text(), "too");
    drop(server);
    fs::remove_file(dir.join("socket")).unwrap();
    assert_eq!(
        run(&["cat", "demo.qcow2:/etc/new"]).text(),
        "written by NBD\n"
    );
}

#[test]
fn what_an_export_cannot_do_is_said() {
    if require("qemu-nbd").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    let dir = demo.directory();
    let server = QemuNbd::start(dir, &["--read-only", "-f", "raw", "demo.qcow2"]);
    fs::write(dir.join("new"), "new").unwrap();
    let target = format!("{URI}:/etc/new");
    for (words, code, said) in [
        (&["cp", "new", &target][..], 1, "read-only"),
        (&["cp", "new", URI], 2, "missing the path"),
        (&["snapshot", "create", URI, "one"], 1, "read-only"),
        (&["bitmap", "add", URI, "daily"], 1, "read-only"),
        (&["rebase", "-b", "", URI], 1, "read-only"),
        (&["commit", URI], 4, "in a file"),
        (&["sparsify", URI], 1, "read-only"),
        (&["info", "nbd+unix:///missing?socket=socket"], 3, "missing"),
        (
            &["info", "nbd+unix:///?socket=nowhere"],
            1,
            "cannot connect",
        ),
        (&["info", "nbd+unix:///?sockets=x"], 2, "sockets"),
    ] {
        let (found, stderr) = diskfs_in(dir, words).failure();
        assert!(stderr.contains(said), "{words:?}: {stderr}");
        assert_eq!(found, code, "{words:?}: {stderr}");
    }
    // Its changes go to an overlay.
    for to in [&target, &format!("{URI}:/etc/again")] {
        diskfs_in(dir, &["cp", "--overlay", "o.qcow2", "new", to]).text();
    }
    drop(server);
    let image = fs::read(dir.join("o.qcow2")).unwrap();
    assert!(image.windows(URI.len()).any(|name| name == URI.as_bytes()));
}

#[test]
fn images_in_an_export_are_changed_as_a_whole() {
    if require("qemu-nbd").is_none() || require("qemu-img").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    let dir = demo.directory();
    // Room for a few more clusters.
    let file = fs::File::options()
        .append(true)
        .open(dir.join("demo.qcow2"));
    let file = file.unwrap();
    file.set_len(file.metadata().unwrap().len() + (1 << 20))
        .unwrap();
    let server = QemuNbd::start(dir, &["-f", "raw", "demo.qcow2"]);
    let run = |words: &[&str]| diskfs_in(dir, words);
    let verdict = run(&["validate", "--policy", "kubevirt", "--json", URI]).json();
    assert_eq!(verdict["accepted"], true, "{verdict}");
    assert_eq!(verdict["images"][0]["image"], URI, "{verdict}");
    // Its second filesystem needs a microVM.
    let checked = run(&["check", "--with", "native", "--json", URI]);
    let checked: serde_json::Value = serde_json::from_slice(&checked.output.stdout).unwrap();
    assert_eq!(checked["image"]["clean"], true, "{checked}");
    run(&["snapshot", "create", URI, "before"]).text();
    run(&["bitmap", "add", URI, "daily"]).text();
    assert!(run(&["bitmap", "list", URI]).text().contains("daily"));
    run(&["bitmap", "remove", URI, "daily"]).text();
    fs::write(dir.join("new"), "after").unwrap();
    run(&["cp", "new", &format!("{URI}:/etc/hostname")]).text();
    run(&["snapshot", "apply", URI, "before"]).text();
    let hostname = format!("{URI}:/etc/hostname");
    assert_eq!(run(&["cat", &hostname]).text(), "demo\n");
    // The export cannot grow: at some time, a snapshot is refused, and the image stays whole.
    let full = (0..200).find_map(|n| {
        let made = run(&["snapshot", "create", URI, &format!("more{n}")]);
        (made.code() != Some(0)).then(|| (n, made.failure()))
    });
    let (made, (code, stderr)) = full.expect("the export is full");
    assert!(code == 1 && stderr.contains("space"), "{code}: {stderr}");
    let listed = run(&["snapshot", "list", URI]).text();
    assert_eq!(listed.lines().count(), made + 1, "{listed}");
    drop(server);
    fs::remove_file(dir.join("socket")).unwrap();
    let checked = Command::new("qemu-img")
        .args(["check", "demo.qcow2"])
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
    assert_eq!(run(&["cat", "demo.qcow2:/etc/hostname"]).text(), "demo\n");
}

/// Makes the certificates of an authority and of a server on this host, named as QEMU names them.
fn certificates(directory: &Path) {
    for words in [
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca-key.pem \
         -out ca-cert.pem -addext basicConstraints=critical,CA:TRUE \
         -addext keyUsage=critical,keyCertSign",
        "req -new -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server-key.pem \
         -out server.csr -addext subjectAltName=DNS:localhost",
        "x509 -req -in server.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 \
         -copy_extensions copy -out server-cert.pem",
    ] {
        let mut openssl = Command::new("openssl");
        let made = openssl
            .args(words.split_whitespace())
            .current_dir(directory);
        let made = made.output().unwrap();
        assert!(made.status.success(), "{made:?}");
    }
}

/// The broker speaks TLS, and the confined command gets the bytes from it.
#[test]
fn an_export_with_tls() {
    if require("qemu-nbd").is_none() || require("openssl").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    let dir = demo.directory();
    certificates(dir);
    let credentials = "tls-creds-x509,id=tls,endpoint=server,dir=.,verify-peer=off";
    let words = [
        "--object",
        credentials,
        "--tls-creds",
        "tls",
        "-f",
        "qcow2",
        "demo.qcow2",
    ];
    let _server = QemuNbd::start(dir, &words);
    let uri = "nbds+unix:///?socket=socket&tls-certificates=.";
    let cat = |path: &str| diskfs_in(dir, &["cat", &format!("{uri}:{path}")]).text();
    assert_eq!(cat("/etc/hostname"), "demo\n");
    fs::write(dir.join("new"), "by TLS\n").unwrap();
    diskfs_in(dir, &["cp", "new", &format!("{uri}:/etc/new")]).text();
    assert_eq!(cat("/etc/new"), "by TLS\n");
    fs::create_dir(dir.join("mnt")).unwrap();
    diskfs_in(dir, &["mount", "--rw", uri, "mnt"]).text();
    fs::write(dir.join("mnt/etc/mounted"), "too").unwrap();
    diskfs_in(dir, &["umount", "mnt"]).text();
    assert_eq!(cat("/etc/mounted"), "too");
    let (code, stderr) = diskfs_in(dir, &["info", URI]).failure();
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("TLS"), "{stderr}");
}
