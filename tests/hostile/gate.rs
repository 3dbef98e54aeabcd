//! What an image names is not opened, unless the user says so; nor is what is no file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::program::{CORRUPT, DENIED, UNSUPPORTED, diskfs};
use super::qcow2::Header;

/// A qcow2 in `directory` that names a backing file.
fn naming(directory: &Path, name: &str, backing: &str, format: &str) -> std::path::PathBuf {
    let path = directory.join(name);
    let header = Header {
        backing: Some((backing, format)),
        ..Header::default()
    };
    fs::write(&path, header.image()).expect("writable");
    path
}

#[test]
fn files_out_of_the_images_directory_are_not_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    let inner = directory.path().join("inner");
    fs::create_dir(&inner).expect("a directory");
    fs::write(directory.path().join("outside"), vec![0; 65_536]).expect("writable");
    symlink("../outside", inner.join("link")).expect("a link");
    for backing in [
        "/etc/shadow",
        "../outside",
        "link",
        "./../outside",
        "/dev/zero",
    ] {
        let image = naming(&inner, "image.qcow2", backing, "raw");
        for command in ["info", "ls", "hash"] {
            diskfs([command.as_ref(), image.as_os_str()]).expect(DENIED, &[backing]);
        }
    }
    let image = naming(&inner, "image.qcow2", "../outside", "raw");
    let allow = [
        "info".as_ref(),
        "--allow-backing".as_ref(),
        directory.path().as_os_str(),
    ];
    diskfs(allow.into_iter().chain([image.as_os_str()])).expect(0, &[]);
}

#[test]
fn descriptions_and_protocols_are_no_files() {
    let directory = tempfile::tempdir().expect("a directory");
    for backing in [
        r#"json:{"driver":"file","filename":"/etc/shadow"}"#,
        "nbd://localhost/export",
        "nbd:unix:/run/socket",
        "file:/etc/shadow",
        "fat:/etc",
        "ssh://root@localhost/etc/shadow",
    ] {
        let image = naming(directory.path(), "image.qcow2", backing, "raw");
        diskfs(["info".as_ref(), image.as_os_str()]).expect(DENIED, &["backing file"]);
    }
}

#[test]
fn the_refusal_says_which_option_allows_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let image = naming(directory.path(), "image.qcow2", "/etc/shadow", "raw");
    diskfs(["info".as_ref(), image.as_os_str()])
        .expect(DENIED, &["/etc/shadow", "--allow-backing"]);
    fs::write(directory.path().join("beside"), vec![0; 65_536]).expect("writable");
    let image = naming(directory.path(), "image.qcow2", "beside", "raw");
    diskfs(["info".as_ref(), image.as_os_str()]).expect(0, &[]);
    diskfs(["info".as_ref(), "--no-backing".as_ref(), image.as_os_str()])
        .expect(DENIED, &["beside", "--no-backing"]);
}

#[test]
fn data_files_go_through_the_gate() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("image.qcow2");
    let header = Header {
        data_file: Some("/etc/shadow"),
        ..Header::default()
    };
    fs::write(&path, header.image()).expect("writable");
    diskfs(["info".as_ref(), path.as_os_str()]).expect(DENIED, &["/etc/shadow"]);
}

/// Nothing waits for a writer of a FIFO.
#[test]
fn what_is_no_file_is_no_image() {
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a FIFO");
    for path in [fifo.as_path(), directory.path(), Path::new("/dev/zero")] {
        diskfs(["info".as_ref(), path.as_os_str()]).expect(UNSUPPORTED, &[]);
    }
    let image = naming(directory.path(), "image.qcow2", "fifo", "raw");
    diskfs(["info".as_ref(), image.as_os_str()]).expect(DENIED, &["fifo"]);
}

#[test]
fn chains_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let itself = naming(directory.path(), "itself.qcow2", "itself.qcow2", "qcow2");
    let one = naming(directory.path(), "one.qcow2", "two.qcow2", "qcow2");
    naming(directory.path(), "two.qcow2", "one.qcow2", "qcow2");
    symlink("link.qcow2", directory.path().join("link.qcow2")).expect("a link");
    for image in [itself, one] {
        diskfs(["info".as_ref(), image.as_os_str()]).expect(CORRUPT, &["loop"]);
    }
    // 64 is how deep a chain may be.
    fs::write(directory.path().join("0.qcow2"), Header::default().image()).expect("writable");
    for n in 1..80 {
        let backing = format!("{}.qcow2", n - 1);
        naming(directory.path(), &format!("{n}.qcow2"), &backing, "qcow2");
    }
    let deepest = directory.path().join("79.qcow2");
    let outcome = diskfs(["info".as_ref(), deepest.as_os_str()]);
    assert!(
        outcome.code != 0 && outcome.stderr.contains("64"),
        "{outcome:?}"
    );
    let deep = directory.path().join("40.qcow2");
    diskfs(["info".as_ref(), deep.as_os_str()]).expect(0, &[]);
}

/// A guest can write a qcow2 header to the start of its raw disk. Who says that the image is raw
/// gets it as raw; and so does an image that says that its backing file is raw.
#[test]
fn a_raw_disk_is_not_taken_for_what_its_guest_wrote() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = naming(directory.path(), "disk.raw", "/etc/shadow", "raw");
    let as_raw = format!("{},format=raw", disk.display());
    let outcome = diskfs(["info", "--json", &as_raw]);
    outcome.expect(0, &[]);
    assert!(!outcome.stdout.contains("shadow"), "{}", outcome.stdout);
    diskfs(["info", "--format", "raw", &disk.display().to_string()]).expect(0, &[]);
    let over = naming(directory.path(), "over.qcow2", "disk.raw", "raw");
    let outcome = diskfs(["info", "--json", &over.display().to_string()]);
    outcome.expect(0, &[]);
    assert!(!outcome.stdout.contains("shadow"), "{}", outcome.stdout);
}
