//! Files that an image names are not opened unless the user allows it; neither are files that
//! aren't regular.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::program::{CORRUPT, DENIED, UNSUPPORTED, diskfs};
use super::qcow2::Header;

/// Makes a qcow2 in `directory` that names a backing file.
fn naming(directory: &Path, name: &str, backing: &str, format: &str) -> std::path::PathBuf {
    let path = directory.join(name);
    let header = Header {
        backing: Some((backing, format)),
        ..Header::default()
    };
    fs::write(&path, header.image()).expect("write the file");
    path
}

#[test]
fn files_out_of_the_images_directory_are_not_opened() {
    let directory = tempfile::tempdir().expect("create the directory");
    let inner = directory.path().join("inner");
    fs::create_dir(&inner).expect("create the directory");
    fs::write(directory.path().join("outside"), vec![0; 65_536]).expect("write the file");
    symlink("../outside", inner.join("link")).expect("create the link");
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
    let directory = tempfile::tempdir().expect("create the directory");
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
    let directory = tempfile::tempdir().expect("create the directory");
    let image = naming(directory.path(), "image.qcow2", "/etc/shadow", "raw");
    diskfs(["info".as_ref(), image.as_os_str()])
        .expect(DENIED, &["/etc/shadow", "--allow-backing"]);
    fs::write(directory.path().join("beside"), vec![0; 65_536]).expect("write the file");
    let image = naming(directory.path(), "image.qcow2", "beside", "raw");
    diskfs(["info".as_ref(), image.as_os_str()]).expect(0, &[]);
    diskfs(["info".as_ref(), "--no-backing".as_ref(), image.as_os_str()])
        .expect(DENIED, &["beside", "--no-backing"]);
}

#[test]
fn data_files_go_through_the_gate() {
    let directory = tempfile::tempdir().expect("create the directory");
    let path = directory.path().join("image.qcow2");
    let header = Header {
        data_file: Some("/etc/shadow"),
        ..Header::default()
    };
    fs::write(&path, header.image()).expect("write the file");
    diskfs(["info".as_ref(), path.as_os_str()]).expect(DENIED, &["/etc/shadow"]);
}

/// Runs a tool of QEMU or of e2fsprogs; returns `false` if it is missing.
fn tool(directory: &Path, program: &str, arguments: &[&str]) -> bool {
    let output = diskfs_fixtures::command(program)
        .current_dir(directory)
        .args(arguments)
        .output();
    let Ok(output) = output else {
        let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!is_ci, "{program} is not installed");
        return false;
    };
    assert!(output.status.success(), "{program}: {output:?}");
    true
}

/// Makes `tenantA.raw`, whose guest wrote the header of an image that has its data in
/// `tenantB.raw`, a filesystem.
fn neighbours(directory: &Path) -> bool {
    let options = "data_file=tenantB.raw,data_file_raw=on,preallocation=metadata";
    let words = [
        "create", "-q", "-f", "qcow2", "-o", options, "a.qcow2", "8M",
    ];
    let made = tool(directory, "qemu-img", &words)
        && tool(directory, "mke2fs", &["-q", "-t", "ext4", "tenantB.raw"]);
    if made {
        fs::copy(directory.join("a.qcow2"), directory.join("tenantA.raw")).expect("copy the file");
    }
    made
}

fn at(directory: &Path, name: &str) -> String {
    directory.join(name).display().to_string()
}

#[test]
fn an_image_does_not_write_its_neighbour() {
    let directory = tempfile::tempdir().expect("create the directory");
    let directory = directory.path();
    if !neighbours(directory) {
        return;
    }
    let neighbour = fs::read(directory.join("tenantB.raw")).expect("readable");
    let unchanged = || {
        let now = fs::read(directory.join("tenantB.raw")).expect("readable");
        assert!(now == neighbour, "the neighbour was written to");
    };
    let (a, file) = (
        at(directory, "tenantA.raw"),
        at(directory, "tenantA.raw:/x"),
    );
    let ways = [",format=raw", ",format=qcow2"];
    for words in [
        &["touch", &file][..],
        &["mkdir", &file],
        &["deploy", "--volume", "disk", &a, "--write", "/x:y"],
        &["ls", &a],
        &["info", &a],
        &["touch", "--overlay", &at(directory, "o.qcow2"), &file],
    ] {
        diskfs(words).expect(DENIED, &ways);
        unchanged();
    }
    // Under the name of its format, it is read, and not written.
    let (q, file) = (at(directory, "a.qcow2"), at(directory, "a.qcow2:/x"));
    diskfs(["ls", &q]).expect(0, &[]);
    for words in [
        &["touch", &file][..],
        &["deploy", "--volume", "disk", &q, "--write", "/x:y"],
        &["mkfs", "--type", "ext4", "--force", &q],
    ] {
        let outcome = diskfs(words);
        assert_ne!(outcome.code, 0, "{outcome:?}");
        unchanged();
    }
    diskfs(["touch", &file]).expect(DENIED, &["tenantB.raw", "--data-file"]);
    // The user can allow it.
    let data = at(directory, "tenantB.raw");
    diskfs(["touch", "--data-file", &data, &file]).expect(0, &[]);
    diskfs(["stat", &file]).expect(0, &[]);
    let dir = directory.display().to_string();
    diskfs(["rm", "--allow-backing", &dir, &file]).expect(0, &[]);
}

#[test]
fn dot_files_are_no_data_files() {
    let directory = tempfile::tempdir().expect("create the directory");
    let directory = directory.path();
    fs::write(directory.join("base.raw"), vec![0; 1 << 20]).expect("write the file");
    fs::write(directory.join(".bashrc"), "# mine\n").expect("write the file");
    let path = directory.join("hostile.qcow2");
    let header = Header {
        data_file: Some(".bashrc"),
        backing: Some(("base.raw", "raw")),
        ..Header::default()
    };
    fs::write(&path, header.image()).expect("write the file");
    let (image, dir) = (path.display().to_string(), directory.display().to_string());
    let dot_file = at(directory, ".bashrc");
    for words in [
        &["info", &image][..],
        &["deploy", "--volume", "disk", &image, "--hostname", "x"],
        &[
            "deploy",
            "--volume",
            "disk",
            "--allow-backing",
            &dir,
            &image,
            "--hostname",
            "x",
        ],
        &["touch", "--data-file", &dot_file, &format!("{image}:/x")],
    ] {
        diskfs(words).expect(DENIED, &[".bashrc"]);
    }
    let kept = fs::read(directory.join(".bashrc")).expect("readable");
    assert_eq!(kept, b"# mine\n");
}

/// The default works with the usual ways of making overlays.
#[test]
fn what_images_may_name_is_configured() {
    let directory = tempfile::tempdir().expect("create the directory");
    let directory = directory.path();
    let (own, templates) = (directory.join("own"), directory.join("templates"));
    for place in [&own, &templates] {
        fs::create_dir(place).expect("create the directory");
        fs::write(place.join("base.raw"), vec![0; 1 << 20]).expect("write the file");
    }
    let beside = naming(&own, "beside.qcow2", "base.raw", "raw");
    let template = templates.join("base.raw").display().to_string();
    let derived = naming(&own, "derived.qcow2", &template, "raw");
    let config = directory.join("config.toml");
    let info = |backing: &str, image: &Path, more: &[&str]| {
        fs::write(&config, format!("backing = {backing}\n")).expect("write the file");
        let output = Command::new(env!("CARGO_BIN_EXE_diskfs"))
            .env("DISKFS_CONFIG", &config)
            .arg("info")
            .args(more)
            .arg(image)
            .output();
        output.expect("run it").status.code()
    };
    let list = format!("[\"{}\"]", templates.display());
    let (open, denied) = (Some(0), Some(DENIED));
    for (backing, of_beside, of_derived) in [
        ("\"none\"", denied, denied),
        ("\"chain-owner\"", open, denied),
        (list.as_str(), denied, open),
        ("\"all\"", Some(2), Some(2)),
    ] {
        assert_eq!(info(backing, &beside, &[]), of_beside, "{backing}");
        assert_eq!(info(backing, &derived, &[]), of_derived, "{backing}");
    }
    // The command line is about one image, and overrides the configuration.
    let allow = ["--allow-backing", templates.to_str().expect("UTF-8")];
    assert_eq!(info("\"none\"", &derived, &allow), open);
    assert_eq!(info(&list, &derived, &["--no-backing"]), denied);
}

/// Opening doesn't block until a FIFO has a writer.
#[test]
fn what_is_no_file_is_no_image() {
    let directory = tempfile::tempdir().expect("create the directory");
    let fifo = directory.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
        .expect("create the FIFO");
    for path in [fifo.as_path(), directory.path(), Path::new("/dev/zero")] {
        diskfs(["info".as_ref(), path.as_os_str()]).expect(UNSUPPORTED, &[]);
    }
    let image = naming(directory.path(), "image.qcow2", "fifo", "raw");
    diskfs(["info".as_ref(), image.as_os_str()]).expect(DENIED, &["fifo"]);
}

#[test]
fn chains_end() {
    let directory = tempfile::tempdir().expect("create the directory");
    let itself = naming(directory.path(), "itself.qcow2", "itself.qcow2", "qcow2");
    let one = naming(directory.path(), "one.qcow2", "two.qcow2", "qcow2");
    naming(directory.path(), "two.qcow2", "one.qcow2", "qcow2");
    symlink("link.qcow2", directory.path().join("link.qcow2")).expect("create the link");
    for image in [itself, one] {
        diskfs(["info".as_ref(), image.as_os_str()]).expect(CORRUPT, &["loop"]);
    }
    // 64 is the maximum depth of a chain.
    fs::write(directory.path().join("0.qcow2"), Header::default().image()).expect("write the file");
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

/// A guest can write a qcow2 header to the start of its raw disk. If the user states that the image
/// is raw, it is opened as raw; the same holds if an image states that its backing file is raw.
#[test]
fn a_raw_disk_is_not_taken_for_what_its_guest_wrote() {
    let directory = tempfile::tempdir().expect("create the directory");
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
