//! The log of a mount in the background: in the system's log, or in a file.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use diskfs_fixtures::have;
use tempfile::TempDir;

use super::{DISKFS, can_mount, stderr};

/// Makes `disk.img` with the file `fine`, and the directory `broken`, of which a byte is wrong.
const MAKE: &str = r#"
    mkdir -p tree/broken mnt; echo fine > tree/fine; echo x > tree/broken/file
    "$DISKFS" mkfs ext4 --size 8M --from-dir tree disk.img
    size=$(dumpe2fs -h disk.img 2>/dev/null | sed -n 's/^Block size: *//p')
    block=$(debugfs -R 'bmap /broken 0' disk.img 2>/dev/null)
    printf X | dd of=disk.img bs=1 seek=$((block * size + 40)) conv=notrunc status=none
"#;

/// Gives the script a `/dev` with the devices that a mount takes, where a log can be added.
const PRIVATE_DEV: &str = r#"
    mkdir old; mount --rbind /dev old; mount -t tmpfs dev /dev
    for name in null zero random urandom fuse; do
        touch /dev/$name; mount --bind old/$name /dev/$name
    done
    ln -s "$PWD/log" /dev/log
"#;

/// Runs a script in its own directory and mount namespace, with a broken image. The log is a socket
/// in that directory.
fn script(text: &str) -> Option<(TempDir, UnixDatagram)> {
    can_mount()?;
    if !have(&["unshare", "debugfs", "dumpe2fs", "qemu-img"]) {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let log = UnixDatagram::bind(directory.path().join("log")).unwrap();
    log.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let output = Command::new("unshare")
        .args(["-m", "sh", "-ec", &format!("{PRIVATE_DEV}{MAKE}{text}")])
        .current_dir(&directory)
        .env("DISKFS", DISKFS)
        .env("DISKFS_VM", "none")
        .env_remove("RUST_LOG")
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
    Some((directory, log))
}

/// Returns the next message of the system's log, without the ID of the process.
fn next(log: &UnixDatagram) -> String {
    let mut datagram = vec![0; 64 << 10];
    let len = log.recv(&mut datagram).expect("a message");
    let text = String::from_utf8(datagram[..len].to_vec()).unwrap();
    let (start, rest) = text.split_once('[').expect(&text);
    let (process, rest) = rest.split_once(']').expect(&text);
    assert!(process.parse::<u32>().is_ok(), "{text}");
    format!("{start}{rest}")
}

fn tag(directory: &Path, priority: u8) -> String {
    format!("<{priority}>diskfs: {}/mnt: ", directory.display())
}

#[test]
fn a_mount_logs_why_reads_fail() {
    for option in ["", "--no-sandbox", "--rw"] {
        let text = format!(
            r#""$DISKFS" mount {option} disk.img mnt; cat mnt/fine
            ls mnt/broken 2>/dev/null && exit 9
            "$DISKFS" umount mnt 2>/dev/null || test "$?" = 1"#
        );
        let Some((directory, log)) = script(&text) else {
            return;
        };
        let message = next(&log);
        assert!(
            message.starts_with(&tag(directory.path(), 28)),
            "{option}: {message}"
        );
        assert!(message.contains("checksum"), "{option}: {message}");
    }
}

#[test]
fn a_killed_server_is_logged() {
    let text = r#"pid=$("$DISKFS" mount --json disk.img mnt | sed -n 's/^ *"pid": *\([0-9]*\).*/\1/p')
        kill -9 $pid
        for n in $(seq 200); do grep -q " $PWD/mnt " /proc/self/mountinfo || break; sleep 0.05; done"#;
    let Some((directory, log)) = script(text) else {
        return;
    };
    let message = next(&log);
    let expected = "the server was killed: unmounting";
    let start = format!("{}{expected}", tag(directory.path(), 27));
    assert!(message.starts_with(&start), "{message}");
}

/// The file has the times of its messages, and the copy of a background copy.
#[test]
fn a_log_is_a_file_if_the_user_wants_one() {
    let text = r#"echo before > mount.log
        "$DISKFS" mount --log mount.log --overlay top.qcow2 --background-copy disk.img mnt
        ls mnt/broken 2>/dev/null && exit 9
        for n in $(seq 200); do grep -q "is complete" mount.log && break; sleep 0.05; done
        "$DISKFS" qemu-img info -U top.qcow2 | grep backing && exit 8
        "$DISKFS" umount mnt 2>/dev/null || test "$?" = 1"#;
    let Some((directory, log)) = script(text) else {
        return;
    };
    let lines = fs::read_to_string(directory.path().join("mount.log")).unwrap();
    let expected = [
        "before\n",
        " WARN diskfs_export",
        "checksum",
        "the copy is complete",
        "20",
    ];
    for words in expected {
        assert!(lines.contains(words), "{words}: {lines}");
    }
    assert!(!lines.contains('\x1b'), "{lines}");
    log.set_nonblocking(true).unwrap();
    assert!(log.recv(&mut [0; 10]).is_err());
}
