//! `diskfs fetch`: copies of files that nginx serves.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use diskfs_fixtures::{TcpServer, Tmpfs, free_port, require};

use crate::{DISKFS, Run, diskfs_in, diskfs_with};

/// A directory that nginx serves, and one for copies.
struct Scene {
    served: tempfile::TempDir,
    copies: tempfile::TempDir,
    port: u16,
    server: Option<TcpServer>,
}

impl Scene {
    /// Starts nginx, with further lines of its configuration.
    fn new(lines: &str) -> Option<Self> {
        require("nginx")?;
        require("sha256sum")?;
        let mut scene = Self {
            served: tempfile::tempdir().unwrap(),
            copies: tempfile::tempdir().unwrap(),
            port: free_port(),
            server: None,
        };
        scene.start(lines);
        Some(scene)
    }

    fn start(&mut self, lines: &str) {
        let (at, port) = (self.served.path(), self.port);
        let lines = format!("listen 127.0.0.1:{port}; {lines}");
        self.server = Some(TcpServer::nginx(at, at, port, &lines));
    }

    fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.copies.path().join(name)
    }

    /// Makes a file to serve: random bytes, zeroes, random bytes.
    fn write(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.served.path().join(name);
        let script = format!(
            "head -c {half}M /dev/urandom > '{path}' && truncate -s +8M '{path}' &&
             head -c {half}M /dev/urandom >> '{path}' && printf end >> '{path}'",
            half = mib / 2,
            path = path.display()
        );
        assert!(
            Command::new("sh")
                .args(["-c", &script])
                .status()
                .unwrap()
                .success()
        );
        path
    }

    fn fetch(&self, words: &[&str]) -> Run {
        diskfs_in(self.copies.path(), &[&["fetch"], words].concat())
    }

    /// Starts a copy to `copy` that can be continued.
    fn begin(&self, name: &str) -> Child {
        let words = ["fetch", "--resume", &self.url(name), "-o", "copy"];
        let mut command = Command::new(DISKFS);
        let command = command.args(words).current_dir(self.copies.path());
        command.stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits until an unfinished copy has recorded that a part of it is done.
    fn wait_for_record(&self) {
        let start = Instant::now();
        while done(&self.path("copy.resume")).is_none_or(|done| done == 0) {
            assert!(start.elapsed() < Duration::from_mins(1), "no record");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.copies.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

/// Returns how far an unfinished copy is.
fn done(record: &Path) -> Option<u64> {
    let record = fs::read_to_string(record).ok()?;
    record.lines().nth(1)?.parse().ok()
}

fn assert_same(one: &Path, other: &Path) {
    let compared = Command::new("cmp").args([one, other]).output().unwrap();
    assert!(compared.status.success(), "{compared:?}");
}

#[test]
fn a_file_is_copied_with_its_holes_and_its_checksum() {
    let Some(scene) = Scene::new("") else { return };
    let original = scene.write("a b.img", 20);
    fs::write(scene.served.path().join("empty"), "").unwrap();
    fs::write(scene.served.path().join("small"), "small").unwrap();
    let list = "sha256sum -- *.img > SHA256SUMS; sha512sum --tag 'a b.img' > SHA512SUMS";
    let mut sums = Command::new("sh");
    sums.args(["-c", list]).current_dir(scene.served.path());
    assert!(sums.status().unwrap().success());
    let url = scene.url("a%20b.img?x=y");
    for list in ["SHA256SUMS", "SHA512SUMS"] {
        let list = scene.url(list);
        let words = [&url, "-o", "copy", "--force", "--json", "--checksum", &list];
        let document = scene.fetch(&words).json();
        assert_same(&original, &scene.path("copy"));
        let size = original.metadata().unwrap().len();
        assert_eq!(document["size_bytes"], size);
        assert_eq!(document["resumed_bytes"], 0);
        assert!(
            document["checksum"].as_str().unwrap().starts_with("sha"),
            "{document}"
        );
        let allocated = scene.path("copy").metadata().unwrap().blocks() * 512;
        assert!(allocated <= size - (7 << 20), "{allocated}");
        assert_eq!(document["allocated_bytes"], allocated);
    }
    for name in ["empty", "small"] {
        scene
            .fetch(&["--resume", &scene.url(name), "-o", name])
            .text();
        assert_same(&scene.served.path().join(name), &scene.path(name));
    }
    assert_eq!(scene.names(), ["copy", "empty", "small"]);
}

#[test]
fn what_is_refused_leaves_nothing() {
    let Some(scene) = Scene::new("") else { return };
    scene.write("a.img", 2);
    let url = scene.url("a.img");
    fs::write(scene.served.path().join("SHA256SUMS"), "00  other\n").unwrap();
    fs::write(scene.path("there"), "old").unwrap();
    let zeroes = format!("sha256:{}", "0".repeat(64));
    let list = scene.url("SHA256SUMS");
    let missing = scene.url("missing");
    for (words, code, said) in [
        (
            &[&url, "-o", "new", "--checksum", &zeroes][..],
            5,
            "checksum",
        ),
        (
            &[&url, "-o", "new", "--resume", "--checksum", &zeroes],
            5,
            "checksum",
        ),
        (
            &[&url, "-o", "there", "--force", "--checksum", &zeroes],
            5,
            "checksum",
        ),
        (
            &[&url, "-o", "new", "--checksum", &list],
            3,
            "no checksum of `a.img`",
        ),
        (
            &[&url, "-o", "new", "--checksum", "sha256:12"],
            2,
            "64 digits",
        ),
        (
            &[&url, "-o", "new", "--size-limit", "1M"],
            6,
            "at most 1048576",
        ),
        (&[&url, "-o", "there"], 1, "--force"),
        (&[&url, "-o", "there", "--resume"], 1, "--force"),
        (&[&url, "-o", "no/dir"], 3, "no/dir"),
        (&[&url, "-o", "-"], 2, "file"),
        (&[&missing, "-o", "new"], 3, "404"),
        (&["file.img", "-o", "new"], 2, "https://"),
        (&[&url, "-o", "/dev/null", "--force"], 1, "regular"),
    ] {
        let (found, stderr) = scene.fetch(words).failure();
        assert!(stderr.contains(said), "{words:?}: {stderr}");
        assert_eq!(found, code, "{words:?}: {stderr}");
    }
    assert_eq!(scene.names(), ["there"]);
    assert_eq!(fs::read(scene.path("there")).unwrap(), b"old");
}

/// A token is for the server of the image; that of a list of checksums may be anybody's.
#[test]
fn a_token_is_sent_to_one_server() {
    let wants = "if ($http_authorization != \"Bearer secret\") { return 401; }";
    let refuses = "if ($http_authorization) { return 400; }";
    let (Some(scene), Some(lists)) = (Scene::new(wants), Scene::new(refuses)) else {
        return;
    };
    let served = scene.write("a.img", 2);
    let script = format!("sha256sum '{}' > sums", served.display());
    let mut sums = Command::new("sh");
    let sums = sums.args(["-c", &script]).current_dir(lists.served.path());
    assert!(sums.status().unwrap().success());
    let (url, list) = (scene.url("a.img"), lists.url("sums"));
    let variables = [("DISKFS_HTTP_TOKEN", "secret")];
    for words in [&["fetch"][..], &["import", "-O", "raw"]] {
        let words = [words, &[&url, "-o", words[0], "--checksum", &list]].concat();
        diskfs_with(scene.copies.path(), &words, &variables).text();
        assert!(scene.path(words[0]).exists());
    }
}

#[test]
fn a_killed_copy_is_continued_if_the_file_is_the_same() {
    let Some(mut scene) = Scene::new("limit_rate 5m;") else {
        return;
    };
    let original = scene.write("a.img", 120);
    let mut copy = scene.begin("a.img");
    scene.wait_for_record();
    // A second process is refused meanwhile.
    let (code, stderr) = scene
        .fetch(&["--resume", &scene.url("a.img"), "-o", "copy"])
        .failure();
    assert_eq!(code, 6, "{stderr}");
    copy.kill().unwrap();
    copy.wait().unwrap();
    assert_eq!(scene.names(), ["copy.partial", "copy.resume"]);
    let time = original.metadata().unwrap().modified().unwrap();
    let touch = |time| {
        let file = fs::File::options().append(true).open(&original).unwrap();
        file.set_modified(time).unwrap();
    };
    scene.server = None;
    scene.start("");
    touch(time + Duration::from_secs(5));
    let words = ["--resume", "--json", &scene.url("a.img"), "-o", "copy"];
    let (code, stderr) = scene.fetch(&words).failure();
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("another version") && stderr.contains("remove"),
        "{stderr}"
    );
    touch(time);
    let sum = Command::new("sha256sum").arg(&original).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let sum = format!("sha256:{}", sum.split(' ').next().unwrap());
    let words = [&words[..], &["--checksum", &sum]].concat();
    let document = scene.fetch(&words).json();
    assert!(
        document["resumed_bytes"].as_u64().unwrap() >= 16 << 20,
        "{document}"
    );
    assert_same(&original, &scene.path("copy"));
    assert_eq!(scene.names(), ["copy"]);
}

#[test]
fn a_server_that_is_killed_may_come_back() {
    let Some(mut scene) = Scene::new("limit_rate 5m;") else {
        return;
    };
    let original = scene.write("a.img", 100);
    let copy = scene.begin("a.img");
    scene.wait_for_record();
    scene.server = None; // Killed.
    std::thread::sleep(Duration::from_millis(300));
    scene.start("");
    let output = copy.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_same(&original, &scene.path("copy"));
    assert_eq!(scene.names(), ["copy"]);
}

#[test]
fn a_full_disk_leaves_nothing_or_what_can_be_continued() {
    let Some(scene) = Scene::new("") else { return };
    let Some(tmpfs) = Tmpfs::new("24M") else {
        return;
    };
    let original = scene.write("a.img", 30);
    let url = scene.url("a.img");
    let copy = tmpfs.path().join("copy");
    let target = copy.to_str().unwrap();
    let (code, stderr) = scene.fetch(&[&url, "-o", target]).failure();
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("free space there"), "{stderr}");
    assert_eq!(fs::read_dir(tmpfs.path()).unwrap().count(), 0);
    let (_, stderr) = scene.fetch(&["--resume", &url, "-o", target]).failure();
    assert!(stderr.contains("free space there"), "{stderr}");
    assert!(done(&tmpfs.path().join("copy.resume")).is_some());
    assert!(!copy.exists());
    let size = "remount,size=64M";
    let mut remount = Command::new("mount");
    assert!(
        remount
            .args(["-o", size])
            .arg(tmpfs.path())
            .status()
            .unwrap()
            .success()
    );
    scene.fetch(&["--resume", &url, "-o", target]).text();
    assert_same(&original, &copy);
    assert_eq!(fs::read_dir(tmpfs.path()).unwrap().count(), 1);
}
