//! Usual words of newcomers: options and arguments of other programs, and diskfs' answers.

use std::fs;
use std::path::Path;
use std::process::Command;

use diskfs_fixtures::image;

use crate::changing::Guest;
use crate::{DISKFS, Run, diskfs, diskfs_in};

/// Runs diskfs with a file as its standard input, and without a terminal.
fn with_input(directory: &Path, words: &[&str], input: &Path) -> Run {
    // A new session has no terminal.
    let mut program = Command::new("setsid");
    program.arg("-w").arg(DISKFS).args(words);
    program
        .current_dir(directory)
        .env("DISKFS_VM", "none")
        .stdin(fs::File::open(input).unwrap());
    Run {
        output: program.output().unwrap(),
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

#[test]
fn a_dash_is_standard_output_or_input() {
    let demo = image("demo.qcow2");
    let before = names(demo.directory());
    let archive = diskfs(&demo, &["tar", "-f", "-", "demo.qcow2:/etc"]);
    assert_eq!(archive.bytes()[257..262], *b"ustar");
    assert_eq!(
        archive.bytes(),
        diskfs(&demo, &["tar", "demo.qcow2:/etc"]).bytes()
    );
    let text = diskfs(&demo, &["cat", "-o", "-", "demo.qcow2:/etc/hostname"]).text();
    assert_eq!(text, "demo\n");
    let fleet = ["inspect", "--fleet", ".", "--output", "-"];
    let told = diskfs(&demo, &fleet).text();
    assert!(told.contains("demo.qcow2"), "{told}");
    let (code, _) = diskfs(&demo, &[&fleet[..], &["--resume"]].concat()).failure();
    assert_eq!(code, 2);
    assert_eq!(names(demo.directory()), before);
    let Some(guest) = Guest::new() else { return };
    fs::write(guest.at("etc.tar"), archive.bytes()).unwrap();
    let directory = guest.at("");
    let words = ["tar-in", "-f", "-", "disk.img:/"];
    with_input(&directory, &words, &guest.at("etc.tar")).text();
    assert_eq!(guest.cat("/hostname"), "demo\n");
}

#[test]
fn an_archive_appears_when_it_is_complete() {
    let demo = image("demo.qcow2");
    let at = |name: &str| demo.directory().join(name);
    diskfs(&demo, &["tar", "-f", "etc.tar", "demo.qcow2:/etc"]).bytes();
    let before = fs::read(at("etc.tar")).unwrap();
    let names_before = names(demo.directory());
    // No such member: nothing is packed, and the existing file is kept.
    let words = ["tar", "-f", "etc.tar", "demo.qcow2:/no/such"];
    assert_eq!(diskfs(&demo, &words).code(), Some(3));
    assert_eq!(fs::read(at("etc.tar")).unwrap(), before);
    diskfs(&demo, &["cp", "demo.qcow2:/etc/hostname", "etc.tar"]).bytes();
    assert_eq!(fs::read(at("etc.tar")).unwrap(), b"demo\n");
    assert_eq!(names(demo.directory()), names_before);
}

/// The program is killed while it writes: a FIFO that nobody reads blocks it.
#[test]
fn a_killed_copy_leaves_no_part_of_a_file() {
    let Some(guest) = Guest::new() else { return };
    fs::write(guest.at("large"), vec![7; 64 << 20]).unwrap();
    guest.all(&["cp large disk.img:/large"]);
    for words in [
        &["cp", "disk.img:/large", "out/large"][..],
        &["tar", "-f", "out/large.tar", "disk.img:/"],
        &["cat", "-o", "out/large", "disk.img:/large"],
    ] {
        fs::create_dir_all(guest.at("out")).unwrap();
        for milliseconds in [20, 50, 100] {
            let mut run = Command::new(DISKFS)
                .args(words)
                .current_dir(guest.at(""))
                .spawn()
                .unwrap();
            std::thread::sleep(std::time::Duration::from_millis(milliseconds));
            let ended = run.try_wait().unwrap();
            run.kill().unwrap();
            run.wait().unwrap();
            let left = names(&guest.at("out"));
            if ended.is_none() && !left.is_empty() {
                // The file has its final name, so it must be complete.
                let size = fs::metadata(guest.at("out").join(&left[0])).unwrap().len();
                assert!(size >= 64 << 20, "{words:?}: {left:?} of {size} bytes");
            }
            assert!(left.len() <= 1, "{words:?}: {left:?}");
            fs::remove_dir_all(guest.at("out")).unwrap();
            fs::create_dir_all(guest.at("out")).unwrap();
        }
    }
}

#[test]
fn a_path_may_lack_its_slash() {
    let demo = image("demo.qcow2");
    let text = diskfs(&demo, &["cat", "demo.qcow2:etc/hostname"]).text();
    assert_eq!(text, "demo\n");
    diskfs(&demo, &["cp", "demo.qcow2:etc/hostname", "name"]).bytes();
    assert_eq!(fs::read(demo.directory().join("name")).unwrap(), b"demo\n");
}

#[test]
fn images_on_other_machines_are_answered_with_the_way_to_them() {
    let directory = tempfile::tempdir().unwrap();
    for words in [
        &["ls", "ssh://example.org/disk.qcow2:/etc"][..],
        &["info", "rbd://pool/disk"],
        &["cp", "ftp://example.org/disk.qcow2:/etc/hosts", "."],
        &["cp", "hosts", "ssh://example.org/disk.qcow2:/etc/hosts"],
        &["snapshot", "list", "iscsi://example.org/disk.qcow2"],
        &["mv", "ssh://example.org/disk.qcow2:/a", "/b"],
    ] {
        let (code, stderr) = diskfs_in(directory.path(), words).failure();
        assert_eq!(code, 4, "{words:?}: {stderr}");
        assert!(stderr.contains("on other machines"), "{words:?}: {stderr}");
        assert!(stderr.contains("download it first"), "{words:?}: {stderr}");
    }
}

#[test]
fn a_key_that_cant_be_asked_for_says_why() {
    let demo = image("demo.qcow2");
    let words = ["ls", "--key", "p1:ask", "demo.qcow2"];
    let run = with_input(demo.directory(), &words, Path::new("/dev/null"));
    let (code, stderr) = run.failure();
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("no terminal is available"), "{stderr}");
    assert!(stderr.contains("--key p1:file:FILE"), "{stderr}");
}

#[test]
fn a_missing_parent_names_what_makes_it() {
    let Some(guest) = Guest::new() else { return };
    let stderr = |words: &[&str]| {
        let (code, stderr) = guest.diskfs(words).failure();
        assert_eq!(code, 3, "{words:?}: {stderr}");
        stderr
    };
    assert!(stderr(&["mkdir", "disk.img:/a/b"]).contains("give -p"));
    for words in [
        &["write", "disk.img:/a/b/c"][..],
        &["touch", "disk.img:/a/b/c"],
        &["cp", "disk.img", "disk.img:/a/b/c"],
        &["ln", "-s", "x", "disk.img:/a/b/c"],
        &["mv", "disk.img:/lost+found", "/a/b/c"],
    ] {
        let stderr = stderr(words);
        assert!(
            stderr.contains("diskfs mkdir -p disk.img:/a/b`"),
            "{stderr}"
        );
    }
}

#[test]
fn patterns_are_expanded_where_files_are_read() {
    let demo = image("demo.qcow2");
    let text = diskfs(&demo, &["cat", "demo.qcow2:/etc/host[mn]*", "/etc/timez*"]).text();
    assert_eq!(text, "demo\nEtc/UTC\n");
    fs::create_dir(demo.directory().join("out")).unwrap();
    diskfs(&demo, &["cp", "demo.qcow2:/etc/host*", "out"]).bytes();
    let out = names(&demo.directory().join("out"));
    assert!(out.contains(&"hostname".to_owned()), "{out:?}");
    let (code, stderr) = diskfs(&demo, &["ls", "demo.qcow2:/etc/*.none"]).failure();
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("no file matches the pattern"), "{stderr}");
    let Some(guest) = Guest::new() else { return };
    // In a command that changes files, a name is literal; the message shows the pipe that expands
    // patterns, and it works.
    guest.all(&["touch disk.img:/a1 /a2 /[a]1 /keep"]);
    guest.all(&["rm disk.img:/[a]1"]);
    assert_eq!(guest.names("/"), ["a1", "a2", "keep", "lost+found"]);
    let (code, stderr) = guest.diskfs(&["rm", "disk.img:/a*"]).failure();
    assert_eq!(code, 3, "{stderr}");
    assert!(
        stderr.contains("find disk.img -path '/a*' -print0"),
        "{stderr}"
    );
    let pipe = "find disk.img -path '/a*' -print0 | xargs -0 \"$0\" rm disk.img";
    let done = Command::new("sh")
        .args(["-c", &format!("\"$0\" {pipe}"), DISKFS])
        .current_dir(guest.at(""))
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(guest.names("/"), ["keep", "lost+found"]);
}

#[test]
fn an_image_is_not_made_under_another_formats_name() {
    let directory = tempfile::tempdir().unwrap();
    for (name, theirs) in [("disk.qed", "qed"), ("disk.QCOW", "qcow")] {
        let (code, stderr) = diskfs_in(directory.path(), &["create", name, "1M"]).failure();
        assert_eq!(code, 4, "{stderr}");
        let hint = format!("qemu-img create -f {theirs}");
        assert!(stderr.contains(&hint), "{stderr}");
    }
    let words = ["create", "-f", "parallels", "disk", "1M"];
    let (code, stderr) = diskfs_in(directory.path(), &words).failure();
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("qemu-img create -f parallels"), "{stderr}");
    assert!(names(directory.path()).is_empty());
    diskfs_in(
        directory.path(),
        &["create", "-f", "raw", "disk.vmdk", "1M"],
    )
    .bytes();
    for (name, format) in [
        ("new.vmdk", "vmdk"),
        ("new.VDI", "vdi"),
        ("new.vhd", "vhd"),
        ("new.vhdx", "vhdx"),
    ] {
        let words = ["create", "--json", name, "1M"];
        let created = diskfs_in(directory.path(), &words).json();
        assert_eq!(created["format"], format);
        let info = diskfs_in(directory.path(), &["info", "--json", name]).json();
        assert_eq!(info["image"]["format"], format, "{info}");
    }
}
