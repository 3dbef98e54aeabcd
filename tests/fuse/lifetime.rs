//! The beginning and end of mounts: in the background, in the foreground, busy, killed, as an
//! ordinary user.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use diskfs_fixtures::{TempImage, Tree, image, require};
use rustix::process::{Pid, Signal, kill_process};

use super::{
    DISKFS, Mountpoint, can_mount, diskfs, processes_with, run, server_and_broker, status, stderr,
};

const FIXTURE: &str = "ext4-default";

fn mount(image: &TempImage, at: &Mountpoint) {
    mount_with(&[], image, at);
}

fn mount_with(words: &[&str], image: &TempImage, at: &Mountpoint) {
    let words = ["mount"].iter().chain(words).map(AsRef::as_ref);
    let output = diskfs(words.chain([image.path().as_os_str(), at.as_os_str()]));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stderr.is_empty() && output.stdout.is_empty());
    assert!(at.is_mounted());
}

fn umount(at: &Mountpoint, words: &[&str]) -> (Option<i32>, String) {
    let words = ["umount"].iter().chain(words).map(AsRef::as_ref);
    let output = diskfs(words.chain([at.as_os_str()]));
    (output.status.code(), stderr(&output))
}

fn server(image: &TempImage) -> Pid {
    super::server(&image.path())
}

pub(super) fn wait_for(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn mounts_in_the_background_and_leaves_nothing() {
    if can_mount().is_none() {
        return;
    }
    let (image, at) = (image(FIXTURE), Mountpoint::new());
    mount(&image, &at);
    let entry = diskfs::export::fuse::mounted_at(&at).unwrap().unwrap();
    assert_eq!(
        (entry.kind.as_str(), entry.source.as_os_str()),
        ("fuse.diskfs", image.path().as_os_str())
    );
    assert_eq!(umount(&at, &[]), (Some(0), String::new()));
    assert!(!at.is_mounted());
    // umount returns when the server has released the image, shortly before the process exits.
    wait_for("the processes' end", || {
        processes_with(&image.path()).is_empty() && processes_with(&at).is_empty()
    });
}

#[test]
fn whatever_unmounts_it_ends_the_server() {
    if can_mount().is_none() {
        return;
    }
    for (program, words) in [("umount", vec![]), ("fusermount3", vec!["-u"])] {
        let (image, at) = (image(FIXTURE), Mountpoint::new());
        mount(&image, &at);
        let words = words.iter().map(AsRef::as_ref).chain([at.as_os_str()]);
        run(program, &words.collect::<Vec<_>>());
        wait_for("the server's end", || {
            processes_with(&image.path()).is_empty()
        });
        assert!(!at.is_mounted());
    }
}

#[test]
fn a_killed_server_leaves_no_dead_mount() {
    if can_mount().is_none() {
        return;
    }
    let (image, at) = (image(FIXTURE), Mountpoint::new());
    mount(&image, &at);
    kill_process(server(&image), Signal::KILL).unwrap();
    at.wait_until(false);
    assert_eq!(fs::read_dir(&*at).unwrap().count(), 0);
    wait_for("the companion's end", || processes_with(&at).is_empty());
}

/// A mount writes only changes, however it ends.
#[test]
fn a_mount_without_a_change_leaves_every_byte() {
    if can_mount().is_none() {
        return;
    }
    for is_killed in [false, true] {
        let (image, at) = (image(FIXTURE), Mountpoint::new());
        let before = fs::read(image.path()).unwrap();
        mount_with(&["--rw"], &image, &at);
        Tree::of_directory(&at).unwrap();
        let failed = fs::remove_file(at.join("missing")).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::NotFound);
        let failed = fs::create_dir(at.join("lost+found")).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::AlreadyExists);
        File::open(&*at).unwrap().sync_all().unwrap();
        if is_killed {
            kill_process(server(&image), Signal::KILL).unwrap();
            at.wait_until(false);
        } else {
            assert_eq!(umount(&at, &[]), (Some(0), String::new()));
        }
        wait_for("the server's end", || {
            processes_with(&image.path()).is_empty()
        });
        assert!(fs::read(image.path()).unwrap() == before, "{is_killed}");
    }
}

/// Without its broker, the server still serves, and its companion unmounts.
#[test]
fn a_server_is_confined_and_survives_its_broker() {
    if can_mount().is_none() {
        return;
    }
    let ways: [&[&str]; 2] = [&[], &["--rw"]];
    for (unmounts, words) in [true, false].into_iter().flat_map(|unmounts| {
        let both = ways.iter();
        both.map(move |words| (unmounts, *words))
    }) {
        let (image, at) = (image(FIXTURE), Mountpoint::new());
        mount_with(words, &image, &at);
        let (server, broker) = server_and_broker(&image.path());
        assert_eq!(
            (&*status(server, "Seccomp"), &*status(server, "NoNewPrivs")),
            ("2", "1")
        );
        let broker = broker.expect("a confined server has a broker");
        assert_eq!(status(broker, "Seccomp"), "0");
        kill_process(broker, Signal::KILL).unwrap();
        assert!(fs::read_dir(&*at).unwrap().count() > 0);
        if !words.is_empty() {
            fs::write(at.join("written"), "before the end").unwrap();
        }
        if unmounts {
            assert_eq!(umount(&at, &[]), (Some(0), String::new()));
        } else {
            kill_process(server, Signal::TERM).unwrap();
        }
        at.wait_until(false);
        wait_for("the processes' end", || {
            processes_with(&image.path()).is_empty() && processes_with(&at).is_empty()
        });
        if !words.is_empty() {
            let place = format!("{}:/written", image.path().display());
            assert_eq!(diskfs(["cat", &place]).stdout, b"before the end");
        }
    }
}

/// The broker creates the overlay, as a command does that is not confined.
#[test]
fn a_confined_server_has_a_new_overlay() {
    if can_mount().is_none() {
        return;
    }
    let (image, at) = (image(FIXTURE), Mountpoint::new());
    let overlay = image.directory().join("new.qcow2");
    let words = ["--overlay", overlay.to_str().unwrap()];
    // Nothing is left of a mount that failed.
    let failing = ["mount", words[0], words[1], "--volume", "p9"].map(AsRef::as_ref);
    let failed = diskfs(
        failing
            .into_iter()
            .chain([image.path().as_os_str(), at.as_os_str()]),
    );
    assert_eq!(failed.status.code(), Some(3), "{}", stderr(&failed));
    assert!(!overlay.exists());
    for round in 1..=2 {
        mount_with(&words, &image, &at);
        assert_eq!(
            fs::read_dir(&*at)
                .unwrap()
                .flatten()
                .filter(is_written)
                .count(),
            round - 1
        );
        fs::write(at.join(format!("written{round}")), "x").unwrap();
        assert_eq!(umount(&at, &[]), (Some(0), String::new()));
    }
    // It has recorded the state of its backing file.
    let place = format!("{}:/below", image.path().display());
    assert!(diskfs(["mkdir", &place]).status.success());
    let refused = diskfs(["ls".as_ref(), overlay.as_os_str()]);
    assert_eq!(refused.status.code(), Some(6));
    assert!(stderr(&refused).contains("stale"), "{}", stderr(&refused));
}

fn is_written(entry: &fs::DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b"written")
}

/// The server asks its broker for the groups of a process, which `/proc` shows.
#[test]
fn a_confined_server_knows_the_groups_of_a_writer() {
    if can_mount().is_none() || require("setpriv").is_none() {
        return;
    }
    let (image, at) = (image(FIXTURE), Mountpoint::new());
    let words = ["--rw", "--allow-other", "-o", "suid"];
    mount_with(&words, &image, &at);
    let path = at.join("locked");
    // Without execution by the group, set-group-id means mandatory locking. Members keep it.
    for (group, kept) in [("4242", 0o2666), ("4243", 0o666)] {
        fs::write(&path, "x").unwrap();
        std::os::unix::fs::chown(&path, Some(65534), Some(4242)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o2666)).unwrap();
        let ids = ["--reuid=65534", "--regid=65534", "--groups"];
        let writes = ["sh", "-c", "echo y >>\"$0\""];
        let words = ids.iter().chain([&group]).chain(&writes);
        let words = words.map(AsRef::as_ref).chain([path.as_os_str()]);
        run("setpriv", &words.collect::<Vec<_>>());
        let found = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(format!("{found:o}"), format!("{kept:o}"), "{group}");
    }
    assert_eq!(umount(&at, &[]), (Some(0), String::new()));
}

#[test]
fn signals_unmount() {
    if can_mount().is_none() {
        return;
    }
    for signal in [Signal::INT, Signal::TERM] {
        let (image, at) = (image(FIXTURE), Mountpoint::new());
        let mut server = Command::new(DISKFS)
            .args(["mount", "--foreground"])
            .args([image.path(), at.to_path_buf()])
            .spawn()
            .unwrap();
        at.wait_until(true);
        assert!(fs::read_dir(&*at).unwrap().count() > 0);
        kill_process(Pid::from_child(&server), signal).unwrap();
        assert!(server.wait().unwrap().success());
        assert!(!at.is_mounted());
    }
}

#[test]
fn who_uses_a_mount_is_named() {
    if can_mount().is_none() {
        return;
    }
    let (image, at) = (image(FIXTURE), Mountpoint::new());
    mount(&image, &at);
    let mut user = Command::new("sleep")
        .arg("60")
        .current_dir(&*at)
        .spawn()
        .unwrap();
    let (code, said) = umount(&at, &[]);
    assert_eq!(code, Some(6), "{said}");
    // Other processes may be named as well: those that access the mount at the moment.
    let wanted = format!("sleep (pid {})", user.id());
    assert!(said.contains(&wanted) && said.contains("--lazy"), "{said}");
    let (code, said) = umount(&at, &["--lazy"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("still served"), "{said}");
    assert!(!at.is_mounted());
    assert!(!processes_with(&image.path()).is_empty());
    user.kill().unwrap();
    user.wait().unwrap();
    wait_for("the server's end", || {
        processes_with(&image.path()).is_empty()
    });
}

#[test]
fn a_mount_that_fails_says_why_and_leaves_nothing() {
    if can_mount().is_none() {
        return;
    }
    let (image, at) = (image(FIXTURE), Mountpoint::new());
    let try_mount = |image: &Path, at: &Path| {
        let output = diskfs(["mount".as_ref(), image.as_os_str(), at.as_os_str()]);
        (output.status.code(), stderr(&output))
    };
    let file = image.directory().join("file");
    File::create(&file).unwrap();
    for (image, mountpoint, code, words) in [
        (
            image.path(),
            at.join("none"),
            3,
            "mount point does not exist",
        ),
        (
            image.path(),
            file.clone(),
            1,
            "mount point is not a directory",
        ),
        (
            image.directory().join("none"),
            at.to_path_buf(),
            3,
            "no such file",
        ),
    ] {
        let (found, said) = try_mount(&image, &mountpoint);
        assert_eq!(found, Some(code), "{said}");
        assert!(said.to_lowercase().contains(words), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(!at.is_mounted());
    let (code, said) = umount(&at, &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("not a mount point"), "{said}");
}

/// Repeats the tests as an unprivileged user. In a separate mount namespace, `/dev/fuse` has the
/// mode that it has on any desktop, whatever it is on this machine.
#[test]
fn an_ordinary_user_mounts_and_unmounts() {
    if can_mount().is_none() || require("setpriv").is_none() || require("unshare").is_none() {
        return;
    }
    let image = image(FIXTURE);
    let at = image.directory().join("mnt");
    fs::create_dir(&at).unwrap();
    for path in [image.directory(), &image.path(), &at] {
        rustix::fs::chown(
            path,
            Some(rustix::fs::Uid::from_raw(65534)),
            Some(rustix::fs::Gid::from_raw(65534)),
        )
        .unwrap();
    }
    // The program may be in a directory that only root can access.
    let program = image.directory().join("diskfs");
    // Copied by another process: a child of another thread would inherit a descriptor that this
    // process writes, and the file could then not be executed.
    run("cp", &[OsStr::new(DISKFS), program.as_os_str()]);
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let script = r#"
        set -e
        mknod "$DIR/fuse" c 10 229; chmod 666 "$DIR/fuse"; mount --bind "$DIR/fuse" /dev/fuse
        # mountpoint(1) takes a dead mount for none.
        mounted() { grep -q " $DIR/mnt " /proc/self/mountinfo; }
        user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
        cd "$DIR"
        user ./diskfs mount "$IMG" mnt
        user ls mnt >/dev/null
        user ./diskfs umount mnt
        mounted && exit 7
        user ./diskfs mount "$IMG" mnt
        kill -9 $(pgrep -f "diskfs mount $IMG mnt")
        for n in $(seq 200); do mounted || break; sleep 0.05; done
        mounted && exit 8
        user ls -d mnt >/dev/null
        user ./diskfs mount "$IMG" /etc 2>denied && exit 9 || test $? = 6
        grep -q 'fusermount3 refused' denied
    "#;
    let output = Command::new("unshare")
        .args(["-m", "bash", "-c", script])
        .env("DIR", image.directory())
        .env("IMG", image.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{:?}: {}",
        output.status,
        stderr(&output)
    );
}
