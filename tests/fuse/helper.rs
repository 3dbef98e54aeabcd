//! mount(8) and umount(8), which call the program by the links `mount.fuse.diskfs` and
//! `umount.fuse.diskfs`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use diskfs_fixtures::{image, require};

use super::{DISKFS, Mountpoint, can_mount, diskfs, processes_with, stderr};

/// One test at a time installs the links.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Links in the directory where mount(8) looks for helpers; dropping this removes them.
struct Installed(
    Vec<PathBuf>,
    #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>,
);

impl Installed {
    fn new() -> Self {
        let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let names = ["mount.fuse.diskfs", "umount.fuse.diskfs"];
        let links = names.map(|name| Path::new("/sbin").join(name));
        let is_free = |link: &PathBuf| link.symlink_metadata().is_err();
        assert!(links.iter().all(is_free), "{links:?} are installed already");
        let mut installed = Self(Vec::new(), one);
        for link in links {
            symlink(DISKFS, &link).unwrap();
            installed.0.push(link);
        }
        installed
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        for link in &self.0 {
            let _ = fs::remove_file(link);
        }
    }
}

/// The time for which a mount may be in use by nobody. A test that runs in parallel starts programs,
/// and until such a program runs it has all files of this process open.
const IN_USE_MAX: Duration = Duration::from_secs(2);

/// Runs a program, again while it says that the mount is in use.
pub(super) fn called(program: &str, words: &[&str]) -> Output {
    let began = Instant::now();
    loop {
        let output = Command::new(program)
            .args(words)
            .env("DISKFS_VM", "none")
            .output()
            .unwrap();
        let said = stderr(&output);
        let is_in_use = ["busy", "in use", "open for writing"].map(|words| said.contains(words));
        if !is_in_use.contains(&true) || began.elapsed() > IN_USE_MAX {
            return output;
        }
        sleep(Duration::from_millis(50));
    }
}

/// Returns true if the mount table has the option `rw`.
fn is_writable(at: &Mountpoint) -> bool {
    let written = fs::write(at.join("new"), "new\n").is_ok();
    if written {
        fs::remove_file(at.join("new")).unwrap();
    }
    written
}

#[test]
fn mount_and_umount_call_the_program() {
    if can_mount().is_none() {
        return;
    }
    let _installed = Installed::new();
    let (image, at) = (image("ext4-default"), Mountpoint::new());
    let (source, place) = (image.path().display().to_string(), at.display().to_string());
    let options = "volume=disk,ro,nofail,_netdev,noatime,x-systemd.device-timeout=9s,allow_other";
    let table = image.directory().join("fstab");
    let line = format!("{source} {place} fuse.diskfs {options} 0 0\n");
    fs::write(&table, line).unwrap();
    let table = table.display().to_string();
    let by_words = ["-t", "fuse.diskfs", &source, &place, "-o", options];
    let by_table = ["-T", &table, &place];
    let all = ["-T", &table, "-a"];
    let to_write = ["-t", "fuse.diskfs", &source, &place];
    for (words, writes) in [
        (&by_words[..], false),
        (&by_table, false),
        (&all, false),
        (&to_write, true),
    ] {
        let mounted = called("mount", words);
        assert!(mounted.status.success(), "{words:?}: {}", stderr(&mounted));
        assert!(at.is_mounted() && at.join("lost+found").is_dir());
        assert_eq!(is_writable(&at), writes, "{words:?}");
        let unmounted = called("umount", &[&place]);
        assert!(unmounted.status.success(), "{}", stderr(&unmounted));
        assert!(!at.is_mounted());
        // umount(8) has waited for the server, as `diskfs umount` does.
        assert!(processes_with(&image.path()).is_empty());
    }
    // The exit codes are those of mount(8).
    let failed = called(
        "mount",
        &["-t", "fuse.diskfs", &source, &place, "-o", "volume=p9"],
    );
    assert_eq!(failed.status.code(), Some(32), "{}", stderr(&failed));
    assert!(stderr(&failed).contains("p9"), "{}", stderr(&failed));
    let wrong = called(
        "mount",
        &["-t", "fuse.diskfs", &source, &place, "-o", "bogus"],
    );
    assert_eq!(wrong.status.code(), Some(1), "{}", stderr(&wrong));
    assert!(stderr(&wrong).contains("unknown mount option `bogus`"));
    let none = called(
        "mount",
        &["-t", "fuse.diskfs", "/no/such", &place, "-o", "nofail"],
    );
    assert!(
        none.status.success() && !at.is_mounted(),
        "{}",
        stderr(&none)
    );
}

/// Tests generic/294 and 306 of xfstests.
#[test]
fn a_mount_is_remounted_read_only_and_back() {
    if can_mount().is_none() {
        return;
    }
    let _installed = Installed::new();
    let (image, at) = (image("ext4-default"), Mountpoint::new());
    let (source, place) = (image.path().display().to_string(), at.display().to_string());
    let mounted = called(
        "mount",
        &["-t", "fuse.diskfs", "-o", "nosuid,noexec", &source, &place],
    );
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    fs::write(at.join("before"), "before\n").unwrap();
    // By the mount point alone, mount(8) takes the other options from the mount table.
    for (words, writes) in [
        (&["-o", "remount,ro", &place][..], false),
        (&["-o", "remount,rw", &place], true),
        (
            &["-t", "fuse.diskfs", "-o", "ro,remount", &source, &place],
            false,
        ),
        (
            &["-t", "fuse.diskfs", "-o", "remount", &source, &place],
            true,
        ),
    ] {
        let remounted = called("mount", words);
        assert!(
            remounted.status.success(),
            "{words:?}: {}",
            stderr(&remounted)
        );
        assert_eq!(is_writable(&at), writes, "{words:?}");
        assert_eq!(fs::read(at.join("before")).unwrap(), b"before\n");
        let table = fs::read_to_string("/proc/mounts").unwrap();
        let line = table.lines().find(|line| line.contains(&place)).unwrap();
        assert!(line.contains("nosuid") && line.contains("noexec"), "{line}");
    }
    // A file that is open for writing keeps the mount writable.
    let open = fs::File::create(at.join("open")).unwrap();
    let busy = called("mount", &["-o", "remount,ro", &place]);
    assert_eq!(busy.status.code(), Some(32), "{}", stderr(&busy));
    assert!(
        stderr(&busy).contains("open for writing"),
        "{}",
        stderr(&busy)
    );
    drop(open);
    // The server of a read-only mount has the image open read-only.
    assert!(called("umount", &[&place]).status.success());
    let words = ["-t", "fuse.diskfs", "-o", "ro", &source, &place];
    assert!(called("mount", &words).status.success());
    let refused = called("mount", &["-o", "remount,rw", &place]);
    assert_eq!(refused.status.code(), Some(32), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("open read-only"),
        "{}",
        stderr(&refused)
    );
    assert!(!is_writable(&at));
}

/// Test generic/306 of xfstests: umount(8) waited for the server, which goes on.
#[test]
fn a_bind_mount_is_unmounted_without_waiting() {
    if can_mount().is_none() {
        return;
    }
    let _installed = Installed::new();
    let (image, at, bound) = (image("ext4-default"), Mountpoint::new(), Mountpoint::new());
    let (source, place) = (image.path().display().to_string(), at.display().to_string());
    let bound = bound.display().to_string();
    let mounted = called("mount", &["-t", "fuse.diskfs", &source, &place]);
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    for words in [&["umount", &*bound][..], &[DISKFS, "umount", &*bound]] {
        assert!(
            called("mount", &["--bind", &place, &bound])
                .status
                .success()
        );
        let started = Instant::now();
        let unmounted = called(words[0], &words[1..]);
        assert!(unmounted.status.success(), "{}", stderr(&unmounted));
        assert!(unmounted.stderr.is_empty(), "{}", stderr(&unmounted));
        assert!(started.elapsed() < Duration::from_secs(20));
        assert!(is_writable(&at));
    }
    assert!(called("umount", &[&place]).status.success());
    assert!(processes_with(&image.path()).is_empty());
}

/// After a remount read-only, everything is soon in the image, although the server runs on.
#[test]
fn what_was_written_before_a_remount_becomes_durable() {
    if can_mount().is_none() {
        return;
    }
    let _installed = Installed::new();
    let (image, at) = (image("ext4-default"), Mountpoint::new());
    let (source, place) = (image.path().display().to_string(), at.display().to_string());
    let mounted = called("mount", &["-t", "fuse.diskfs", &source, &place]);
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    let written = vec![b'7'; 100_000];
    fs::write(at.join("written"), &written).unwrap();
    let remounted = called("mount", &["-o", "remount,ro", &place]);
    assert!(remounted.status.success(), "{}", stderr(&remounted));
    let copy = image.directory().join("copy");
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        fs::copy(image.path(), &copy).unwrap();
        let read = diskfs(["cat".as_ref(), copy.as_os_str(), "/written".as_ref()]);
        if read.stdout == written {
            break;
        }
        assert!(Instant::now() < deadline, "{}", stderr(&read));
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_mount_in_another_namespace_is_told_and_not_waited_for() {
    if can_mount().is_none() || require("unshare").is_none() {
        return;
    }
    let (image, at) = (image("ext4-default"), Mountpoint::new());
    let mounted = diskfs(["mount".as_ref(), image.path().as_os_str(), at.as_os_str()]);
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    // Detaches the mounts of the tests that run in parallel.
    let script = "grep ' fuse.diskfs ' /proc/self/mountinfo | cut -d' ' -f5 | while read -r at; do \
                  [ \"$at\" = \"$1\" ] || umount -i -l \"$at\"; done; echo; exec sleep 60";
    let mut other = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(at.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0];
    std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut line).unwrap();
    let started = Instant::now();
    let unmounted = diskfs(["umount".as_ref(), at.as_os_str()]);
    let told = stderr(&unmounted);
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(unmounted.status.code(), Some(6), "{told}");
    assert!(told.contains(&format!("(pid {})", other.id())), "{told}");
    assert!(told.contains("nsenter -t") && !at.is_mounted(), "{told}");
    other.kill().unwrap();
    other.wait().unwrap();
    let waited = diskfs(["wait".as_ref(), image.path().as_os_str()]);
    assert!(waited.status.success(), "{}", stderr(&waited));
}
