//! Writable mounts of real images: however they end, the promised data is on the image, and e2fsck
//! finds no errors.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use diskfs_fixtures::require;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{DISKFS, Mountpoint, can_mount, diskfs, processes_with, run, stderr};

/// A new ext4 filesystem in a file.
struct Image {
    dir: TempDir,
}

impl Image {
    fn new() -> Option<Self> {
        can_mount()?;
        require("mke2fs")?;
        require("e2fsck")?;
        let dir = tempfile::Builder::new()
            .prefix("diskfs-rw-")
            .tempdir()
            .expect("create a directory");
        let image = Self { dir };
        File::create(image.path())
            .unwrap()
            .set_len(64 << 20)
            .unwrap();
        let words = ["-q", "-t", "ext4"].map(AsRef::as_ref);
        run(
            "mke2fs",
            &[&words[..], &[image.path().as_os_str()]].concat(),
        );
        Some(image)
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("disk.img")
    }

    fn mount(&self, at: &Mountpoint) {
        let mounted = self.try_mount(at, &["--rw"]);
        assert!(mounted.status.success(), "{}", stderr(&mounted));
    }

    fn try_mount(&self, at: &Path, words: &[&str]) -> Output {
        let words = ["mount"].iter().chain(words).map(AsRef::as_ref);
        diskfs(words.chain([self.path().as_os_str(), at.as_os_str()]))
    }

    fn wait(&self) {
        let waited = diskfs(["wait".as_ref(), self.path().as_os_str()]);
        assert!(waited.status.success(), "{}", stderr(&waited));
    }

    /// Runs e2fsck, and returns its exit code and output.
    fn e2fsck(&self, how: &str) -> (Option<i32>, String) {
        let mut e2fsck = diskfs_fixtures::command("e2fsck");
        let output = e2fsck.arg(how).arg(self.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
        (output.status.code(), said)
    }

    fn check(&self) {
        let (code, said) = self.e2fsck("-fn");
        assert_eq!(code, Some(0), "{said}");
        assert!(!said.contains("recover"), "{said}");
    }

    /// Makes e2fsck replay the journal.
    fn recover(&self) {
        let (code, said) = self.e2fsck("-fp");
        assert!(matches!(code, Some(0 | 1)), "{said}");
    }

    /// Returns a file's contents, read without a mount.
    fn cat(&self, path: &str) -> String {
        let mut operand = self.path().into_os_string();
        operand.push(":");
        operand.push(path);
        let found = diskfs(["cat".as_ref(), operand.as_os_str()]);
        assert!(found.status.success(), "{}", stderr(&found));
        String::from_utf8(found.stdout).unwrap()
    }

    fn server(&self) -> Pid {
        super::server(&self.path())
    }
}

/// Writes the files that the checks need.
fn fill(at: &Path) {
    fs::create_dir(at.join("dir")).unwrap();
    for n in 0..200 {
        fs::write(at.join(format!("dir/{n}")), n.to_string()).unwrap();
    }
    fs::write(at.join("large"), vec![b'x'; 5_000_000]).unwrap();
}

#[test]
fn what_ends_a_mount_leaves_everything_on_the_image() {
    for (program, words) in [
        (DISKFS, &["umount"][..]),
        ("umount", &[]),
        ("fusermount3", &["-u"]),
    ] {
        let Some(image) = Image::new() else {
            return;
        };
        let at = Mountpoint::new();
        image.mount(&at);
        fill(&at);
        let words = words.iter().map(AsRef::as_ref).chain([at.as_os_str()]);
        run(program, &words.collect::<Vec<_>>());
        if program != DISKFS {
            image.wait();
        }
        assert!(processes_with(&image.path()).is_empty(), "{program}");
        image.check();
        assert_eq!(image.cat("/dir/199"), "199");
        assert_eq!(image.cat("/large").len(), 5_000_000);
    }
}

#[test]
fn a_signal_ends_in_good_order_also_for_those_who_are_in_the_middle() {
    let Some(image) = Image::new() else {
        return;
    };
    let at = Mountpoint::new();
    image.mount(&at);
    fill(&at);
    kill_process(image.server(), Signal::TERM).unwrap();
    image.wait();
    assert!(!at.is_mounted());
    image.check();
    assert_eq!(image.cat("/dir/0"), "0");

    image.mount(&at);
    let mut open = File::create(at.join("open")).unwrap();
    open.write_all(b"written, not closed").unwrap();
    kill_process(image.server(), Signal::TERM).unwrap();
    image.wait();
    assert!(!at.is_mounted());
    assert!(open.write_all(b"too late").and(open.sync_all()).is_err());
    image.check();
    assert_eq!(image.cat("/open"), "written, not closed");
}

#[test]
fn a_killed_server_leaves_what_was_synced() {
    let Some(image) = Image::new() else {
        return;
    };
    let at = Mountpoint::new();
    image.mount(&at);
    fill(&at);
    let mut synced = File::create(at.join("synced")).unwrap();
    synced.write_all(b"promised").unwrap();
    synced.sync_all().unwrap();
    fs::rename(at.join("synced"), at.join("renamed")).unwrap();
    File::open(&*at).unwrap().sync_all().unwrap();
    fs::write(at.join("more"), vec![1; 1 << 20]).unwrap();
    kill_process(image.server(), Signal::KILL).unwrap();
    at.wait_until(false);
    image.wait();
    // diskfs replays the journal when it reads the image, and when it opens it for writing.
    assert_eq!(image.cat("/renamed"), "promised");
    let copy = image.dir.path().join("copy.img");
    fs::copy(image.path(), &copy).unwrap();
    image.recover();
    image.check();
    assert_eq!(image.cat("/renamed"), "promised");
    fs::rename(&copy, image.path()).unwrap();
    image.mount(&at);
    assert_eq!(fs::read_to_string(at.join("renamed")).unwrap(), "promised");
    fs::write(at.join("goes-on"), "fine").unwrap();
    run(DISKFS, &["umount".as_ref(), at.as_os_str()]);
    image.check();
}

/// Mounts it and fills it except for some kilobytes.
fn fill_up(image: &Image, at: &Mountpoint) {
    image.mount(at);
    let of = format!("of={}", at.join("fill").display());
    let dd = Command::new("dd")
        .args(["if=/dev/zero", &of, "bs=1M"])
        .output()
        .unwrap();
    assert!(stderr(&dd).contains("No space left"), "{}", stderr(&dd));
}

#[test]
fn a_full_image_is_told_by_each_write() {
    let Some(image) = Image::new() else {
        return;
    };
    let at = Mountpoint::new();
    fill_up(&image, &at);
    let script = "for i in $(seq 3000); do echo 0123456789; done >\"$1\"";
    let writer = Command::new("bash")
        .args(["-c", script, "bash"])
        .arg(at.join("e1"))
        .output()
        .unwrap();
    assert!(!writer.status.success());
    assert!(stderr(&writer).contains("No space left on device"));
    run(DISKFS, &["umount".as_ref(), at.as_os_str()]);
    image.check();
    // Files that were written before are there.
    let e1 = image.cat("/e1");
    let lines = e1.lines().take_while(|line| *line == "0123456789").count();
    assert!(lines.abs_diff(e1.lines().count()) <= 1, "{lines}");
}

#[test]
fn what_a_full_image_lost_is_told_at_the_end() {
    if require("python3").is_none() {
        return;
    }
    let Some(image) = Image::new() else {
        return;
    };
    let at = Mountpoint::new();
    fill_up(&image, &at);
    File::create(at.join("sparse"))
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    let script = "import mmap,sys\n\
        f=open(sys.argv[1],'r+b'); m=mmap.mmap(f.fileno(),0); m[:]=b'm'*len(m)";
    let path = at.join("sparse");
    // No program syncs the file; close(2) may fail, which Python ignores.
    let _ = Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .output();
    let waiting = Command::new(DISKFS)
        .arg("wait")
        .arg(image.path())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let unmounted = diskfs(["umount".as_ref(), at.as_os_str()]);
    assert_eq!(unmounted.status.code(), Some(1), "{}", stderr(&unmounted));
    let said = stderr(&unmounted);
    assert!(
        said.contains("was lost") && said.contains("no free blocks"),
        "{said}"
    );
    let waited = waiting.wait_with_output().unwrap();
    assert_eq!(waited.status.code(), Some(1), "{}", stderr(&waited));
    assert!(stderr(&waited).contains("was lost"), "{}", stderr(&waited));
    assert!(!at.is_mounted());
    image.check();
}

/// `sync` doesn't reach a FUSE server, so the server syncs by itself.
#[test]
fn what_was_written_is_durable_soon() {
    let Some(image) = Image::new() else {
        return;
    };
    let at = Mountpoint::new();
    image.mount(&at);
    fs::write(at.join("f"), "data").unwrap();
    std::thread::sleep(Duration::from_secs(4));
    kill_process(image.server(), Signal::KILL).unwrap();
    at.wait_until(false);
    image.wait();
    assert_eq!(image.cat("/f"), "data");
}

#[test]
fn waiting_takes_as_long_as_it_is_mounted() {
    let Some(image) = Image::new() else {
        return;
    };
    // No process serves it.
    image.wait();
    for words in [&["--rw"][..], &[]] {
        let at = Mountpoint::new();
        assert!(image.try_mount(&at, words).status.success());
        let mut waiting = Command::new(DISKFS)
            .arg("wait")
            .arg(image.path())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert!(waiting.try_wait().unwrap().is_none(), "{words:?}");
        let began = Instant::now();
        run(DISKFS, &["umount".as_ref(), at.as_os_str()]);
        assert!(waiting.wait().unwrap().success());
        assert!(began.elapsed() < Duration::from_secs(10));
    }
    let none = diskfs(["wait", "/no/such/image"]);
    assert_eq!(none.status.code(), Some(3));
}

#[test]
fn a_written_image_is_nobody_elses() {
    let Some(image) = Image::new() else {
        return;
    };
    let (at, other) = (Mountpoint::new(), Mountpoint::new());
    image.mount(&at);
    for words in [&["--rw"][..], &[]] {
        let refused = image.try_mount(&other, words);
        assert_eq!(refused.status.code(), Some(6), "{words:?}");
        assert!(!other.is_mounted());
    }
    run(DISKFS, &["umount".as_ref(), at.as_os_str()]);
    let before = fs::read(image.path()).unwrap();
    assert!(image.try_mount(&at, &[]).status.success());
    let refused = image.try_mount(&other, &["--rw"]);
    assert_eq!(
        refused.status.code(),
        Some(6),
        "refused, because a process reads it"
    );
    run(DISKFS, &["umount".as_ref(), at.as_os_str()]);
    assert!(fs::read(image.path()).unwrap() == before);
}

#[test]
fn an_image_that_cannot_be_written_is_refused_with_a_way_on() {
    let Some(image) = Image::new() else {
        return;
    };
    // A swap area, which no driver writes.
    let swap = image.dir.path().join("swap");
    File::create(&swap).unwrap().set_len(1 << 20).unwrap();
    run("mkswap", &[swap.as_os_str()]);
    fs::rename(&swap, image.path()).unwrap();
    let at = Mountpoint::new();
    let before = fs::read(image.path()).unwrap();
    let refused = image.try_mount(&at, &["--rw"]);
    assert!(!refused.status.success() && !at.is_mounted());
    let said = stderr(&refused);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(fs::read(image.path()).unwrap() == before);
}

#[test]
fn an_overlay_takes_the_changes() {
    let Some(image) = Image::new() else {
        return;
    };
    if require("qemu-img").is_none() {
        return;
    }
    let (at, overlay) = (Mountpoint::new(), image.dir.path().join("changes.qcow2"));
    let before = fs::read(image.path()).unwrap();
    let words = ["--overlay", overlay.to_str().unwrap()];
    for round in 0..2 {
        let mounted = image.try_mount(&at, &words);
        assert!(mounted.status.success(), "{}", stderr(&mounted));
        fs::write(at.join(format!("f{round}")), "overlaid").unwrap();
        assert!(at.join("f0").exists());
        run(DISKFS, &["umount".as_ref(), at.as_os_str()]);
        let check = ["check", "-q"].map(AsRef::as_ref);
        run("qemu-img", &[&check[..], &[overlay.as_os_str()]].concat());
    }
    assert!(fs::read(image.path()).unwrap() == before);
    let raw = image.dir.path().join("raw");
    let words = ["convert", "-O", "raw"].map(AsRef::as_ref);
    let paths = [overlay.as_os_str(), raw.as_os_str()];
    run("qemu-img", &[&words[..], &paths].concat());
    fs::rename(&raw, image.path()).unwrap();
    image.check();
    assert_eq!(image.cat("/f1"), "overlaid");
}
