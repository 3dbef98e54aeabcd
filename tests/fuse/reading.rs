//! Failures under a read-only mount, the same for each kind of filesystem: a server that is killed
//! in the middle of a tar, an image that is truncated.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use diskfs_fixtures::{Mount, have};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{DISKFS, Mountpoint, can_mount, diskfs, processes_with, run, stderr};

/// The kinds of filesystems, with the program that makes one.
const KINDS: [(&str, &[&str]); 3] = [
    ("ext4", &["mke2fs", "-q", "-t", "ext4"]),
    ("xfs", &["mkfs.xfs", "-q"]),
    ("btrfs", &["mkfs.btrfs", "-q"]),
];

/// The size of an image: mkfs.xfs refuses smaller ones.
const IMAGE_BYTES: u64 = 320 << 20;
/// The number of files, and the size of each.
const FILES: usize = 160;
const FILE_BYTES: usize = 200_000;
/// The length to which the image is truncated: less than what is before the contents.
const CUT_BYTES: u64 = 4 << 20;

/// An image that the kernel has filled.
struct Image {
    dir: TempDir,
}

impl Image {
    fn new(kind: &str, mkfs: &[&str]) -> Self {
        let image = Self {
            dir: TempDir::new().expect("create a directory"),
        };
        let path = image.path();
        File::create(&path).unwrap().set_len(IMAGE_BYTES).unwrap();
        let (program, words) = mkfs.split_first().expect("a program");
        let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
        run(program, &[&words[..], &[path.as_os_str()]].concat());
        let mount = Mount::of_image(&path, "").expect(kind);
        for nth in 0..FILES {
            fs::write(mount.path().join(name(nth)), contents(nth)).unwrap();
        }
        drop(mount);
        image
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("disk.img")
    }

    fn digest(&self) -> String {
        let printed = run("sha256sum", &[self.path().as_os_str()]);
        printed.split(' ').next().unwrap().to_owned()
    }
}

fn name(nth: usize) -> String {
    format!("file-{nth:03}")
}

/// Returns contents that no other file has.
fn contents(nth: usize) -> Vec<u8> {
    let line = format!("line of file {nth}\n");
    line.bytes().cycle().take(FILE_BYTES).collect()
}

fn each_kind(check: impl Fn(&str, &Image)) {
    let programs: Vec<_> = KINDS.iter().map(|(_, mkfs)| mkfs[0]).collect();
    if can_mount().is_none() || !have(&programs) {
        return;
    }
    for (kind, mkfs) in KINDS {
        check(kind, &Image::new(kind, mkfs));
    }
}

fn pids(word: &Path) -> Vec<Pid> {
    let pid = |process: PathBuf| Pid::from_raw(process.file_name()?.to_str()?.parse().ok()?);
    processes_with(word).into_iter().filter_map(pid).collect()
}

/// Starts a tar of a directory, and reads its first MiB: it then waits until more is read.
fn start_tar(at: &Path) -> Child {
    let mut tar = Command::new("tar")
        .args(["-cf", "-", "-C"])
        .arg(at)
        .arg(".")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tar");
    let mut first = vec![0; 1 << 20];
    tar.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    tar
}

#[test]
fn a_tar_whose_server_is_killed_fails() {
    each_kind(|kind, image| {
        let before = image.digest();
        for companion_too in [false, true] {
            let at = Mountpoint::new();
            let path = image.path();
            let mounted = diskfs(["mount".as_ref(), path.as_os_str(), at.as_os_str()]);
            assert!(mounted.status.success(), "{kind}: {}", stderr(&mounted));
            let tar = start_tar(&at);
            let servers = pids(&path);
            // The companion first, which would otherwise unmount.
            for pid in pids(&at).iter().filter(|pid| !servers.contains(pid)) {
                if companion_too {
                    kill_process(*pid, Signal::KILL).unwrap();
                }
            }
            for pid in servers {
                let _ = kill_process(pid, Signal::KILL);
            }
            let tar = tar.wait_with_output().unwrap();
            assert!(!tar.status.success(), "{kind}");
            let said = String::from_utf8_lossy(&tar.stderr).into_owned();
            let expected = [Errno::NOTCONN, Errno::IO, Errno::NOENT, Errno::CONNABORTED];
            let errors = expected.map(|errno| io::Error::from(errno).to_string());
            let is_named = |error: &String| said.contains(error.split(" (os").next().unwrap());
            assert!(errors.iter().any(is_named), "{kind}: {said}");
            if companion_too {
                run("umount", &["-l".as_ref(), at.as_os_str()]);
            }
            at.wait_until(false);
            assert_eq!(fs::read_dir(&*at).unwrap().count(), 0);
            super::lifetime::wait_for("the processes' end", || {
                processes_with(&path).is_empty() && processes_with(&at).is_empty()
            });
        }
        assert_eq!(image.digest(), before, "{kind}");
    });
}

#[test]
fn a_truncated_image_is_an_error_of_the_read() {
    each_kind(|kind, image| {
        let (at, path) = (Mountpoint::new(), image.path());
        let log = image.dir.path().join("log");
        let mut server = Command::new(DISKFS)
            .args(["mount", "--foreground"])
            .args([&*path, at.path()])
            .env("DISKFS_VM", "none")
            .env("RUST_LOG", "warn")
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        at.wait_until(true);
        // The names are in the kernel's cache then, and the first file.
        for entry in fs::read_dir(&*at).unwrap() {
            entry.unwrap().metadata().unwrap();
        }
        assert!(fs::read(at.join(name(0))).unwrap() == contents(0), "{kind}");
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(CUT_BYTES).unwrap();
        let mut failed = 0;
        for nth in 0..FILES {
            match fs::read(at.join(name(nth))) {
                Ok(read) => assert!(read == contents(nth), "{kind}: {nth}"),
                Err(error) => {
                    let errno = Errno::IO.raw_os_error();
                    assert_eq!(error.raw_os_error(), Some(errno), "{kind}: {nth}");
                    failed += 1;
                }
            }
        }
        assert!(failed > FILES / 2, "{kind}: {failed} files");
        let said = fs::read_to_string(&log).unwrap();
        let is_place = |line: &&str| line.contains("read") && line.contains("byte 0x");
        assert!(said.lines().any(|line| is_place(&line)), "{kind}: {said}");
        // The server lives: it still shows what is cached, and ends as usual.
        assert!(fs::read(at.join(name(0))).unwrap() == contents(0), "{kind}");
        assert!(server.try_wait().unwrap().is_none(), "{kind}: {said}");
        let ended = diskfs(["umount".as_ref(), at.as_os_str()]);
        assert!(ended.status.success(), "{kind}: {}", stderr(&ended));
        assert!(server.wait().unwrap().success(), "{kind}");
    });
}
