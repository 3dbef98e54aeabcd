//! diff, compared with the recorded trees of the fixtures, with rsync on mounts, and with patch(1).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use diskfs_fixtures::{Mount, expected_tree, image, pattern, require, require_root, run};
use serde_json::{Value, json};

use crate::{diskfs_in, text_of};

/// The differing paths, each with its letter and the properties that differ.
type Differences = BTreeMap<String, String>;

/// Parses `diff --json` to entries such as `M mode,content`; the exit code must say whether there
/// are any.
fn differences(dir: &Path, words: &[&str]) -> (Differences, Value) {
    let run = diskfs_in(dir, &[&["diff", "--json"], words].concat());
    assert_eq!(run.stderr(), "", "{words:?}");
    let report: Value = serde_json::from_slice(&run.output.stdout).unwrap();
    let mut found = Differences::new();
    for entry in report["differences"].as_array().unwrap() {
        let what = entry["what"].as_array();
        let what: Vec<&str> = what.into_iter().flatten().map(text_of).collect();
        let letter = match text_of(&entry["change"]) {
            "added" => "A",
            "removed" => "D",
            _ => "M",
        };
        let text = format!("{letter} {}", what.join(","));
        let path = match entry.get("path_base64") {
            Some(bytes) => format!("base64:{}", text_of(bytes)),
            None => text_of(&entry["path"]).to_owned(),
        };
        let twice = found.insert(path, text.trim_end().to_owned());
        assert!(twice.is_none());
    }
    let expected = i32::from(!found.is_empty());
    assert_eq!(run.code(), Some(expected), "{words:?}");
    (found, report["counts"].clone())
}

/// Computes the same from the recorded trees of both fixtures.
fn recorded(a: &str, b: &str) -> Differences {
    let (a, b) = (expected_tree(a), expected_tree(b));
    let mut found = Differences::new();
    let path = |escaped: &str| {
        let bytes = diskfs_fixtures::unescape(escaped);
        let bytes = if bytes == b"." { Vec::new() } else { bytes };
        match String::from_utf8(bytes) {
            Ok(text) => format!("/{text}"),
            Err(bytes) => format!("bytes:{:?}", bytes.into_bytes()),
        }
    };
    for old in &a.entries {
        let Some(new) = b.entry(&old.path) else {
            found.insert(path(&old.path), "D".to_owned());
            continue;
        };
        let mut what = Vec::new();
        if old.kind == new.kind {
            let mut note = |differs: bool, word: &'static str| {
                if differs {
                    what.push(word);
                }
            };
            note(old.mode != new.mode, "mode");
            note((old.uid, old.gid) != (new.uid, new.gid), "owner");
            note(old.kind == '-' && old.size != new.size, "size");
            note(old.content != new.content, "content");
            note(old.xattrs != new.xattrs, "xattrs");
            note(old.target != new.target, "target");
            note(old.device != new.device, "device");
        } else {
            what.push("type");
        }
        if !what.is_empty() {
            found.insert(path(&old.path), format!("M {}", what.join(",")));
        }
    }
    for new in &b.entries {
        if a.entry(&new.path).is_none() {
            found.insert(path(&new.path), "A".to_owned());
        }
    }
    found
}

/// For any two filesystems, every difference is found, and no other.
#[test]
fn diff_tells_how_recorded_trees_differ() {
    let names = [
        "ext4-default",
        "ext4-xattr",
        "ext4-inline-data",
        "ext3",
        "ext4-sparse",
        "ext2",
    ];
    let mut total = 0;
    for a in names {
        for b in names {
            let (of_a, of_b) = (image(a), image(b));
            let dir = of_a.directory();
            let there = dir.join("b.img");
            fs::copy(of_b.path(), &there).unwrap();
            let (mut found, _) = differences(dir, &[a, "b.img"]);
            let mut expected = recorded(a, b);
            // Paths that are not UTF-8 are printed in two ways; their numbers must be equal.
            let odd = |all: &mut Differences| {
                let count = all.len();
                all.retain(|path, _| path.starts_with('/'));
                count - all.len()
            };
            assert_eq!(odd(&mut found), odd(&mut expected), "{a} {b}");
            assert_eq!(found, expected, "{a} {b}");
            assert!(a != b || found.is_empty());
            total += found.len();
        }
    }
    assert!(total > 100, "{total}");
}

/// Makes a tree of some thousand files in a qcow2 image, with a snapshot of it.
fn workshop() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    for n in 0..40 {
        let sub = tree.join(format!("usr/share/{n}"));
        fs::create_dir_all(&sub).unwrap();
        for m in 0..25 {
            fs::write(
                sub.join(format!("file-{m}")),
                pattern(&format!("{n}-{m}"), n * 700 + m),
            )
            .unwrap();
        }
    }
    fs::create_dir_all(tree.join("etc/old.d/below")).unwrap();
    fs::write(tree.join("etc/old.d/below/file"), "gone soon\n").unwrap();
    for (name, text) in [
        ("hosts", "one\ntwo\nthree\n"),
        ("same-size", "before\n"),
        ("cr", "a\r\nb\r\nc"),
    ] {
        fs::write(tree.join("etc").join(name), text).unwrap();
    }
    fs::write(tree.join("etc/binary"), [0, 1, 2, 3]).unwrap();
    symlink("hosts", tree.join("etc/link")).unwrap();
    symlink("hosts", tree.join("etc/becomes-file")).unwrap();
    let raw = dir.path().join("disk.raw");
    fs::File::create(&raw).unwrap().set_len(96 << 20).unwrap();
    let words = [
        "-q",
        "-F",
        "-t",
        "ext4",
        "-d",
        tree.to_str().unwrap(),
        raw.to_str().unwrap(),
    ];
    run("mke2fs", words).unwrap();
    let qcow2 = dir.path().join("disk.qcow2");
    run(
        "qemu-img",
        [
            "convert",
            "-O",
            "qcow2",
            raw.to_str().unwrap(),
            qcow2.to_str().unwrap(),
        ],
    )
    .unwrap();
    fs::remove_file(raw).unwrap();
    ours(dir.path(), &["snapshot", "create", "disk.qcow2", "before"]);
    dir
}

fn ours(dir: &Path, words: &[&str]) {
    diskfs_in(dir, words).bytes();
}

fn write(dir: &Path, at: &str, text: &[u8]) {
    fs::write(dir.join("new"), text).unwrap();
    ours(dir, &["cp", "new", at]);
}

/// Makes ten changes of all kinds to `image`.
fn change(dir: &Path, image: &str) -> Differences {
    let at = |path: &str| format!("{image}:{path}");
    write(dir, &at("/etc/hosts"), b"one\n2\nthree\nfour\n");
    write(dir, &at("/etc/same-size"), b"behind\n");
    write(dir, &at("/etc/cr"), b"a\r\nb\rx\r\nc");
    write(dir, &at("/etc/binary"), &[0, 1, 2, 4]);
    write(dir, &at("/etc/new"), b"new\n");
    write(dir, &at("/etc/empty"), b"");
    ours(dir, &["rm", "-r", &at("/etc/old.d")]);
    ours(dir, &["rm", &at("/etc/link"), "/etc/becomes-file"]);
    ours(dir, &["ln", "-s", "new", &at("/etc/link")]);
    ours(dir, &["mkdir", &at("/etc/becomes-file")]);
    ours(dir, &["chmod", "4711", &at("/usr/share/1/file-1")]);
    ours(dir, &["chown", "33:44", &at("/usr/share/2/file-2")]);
    ours(
        dir,
        &["xattr", "set", "user.x", "y", &at("/usr/share/3/file-3")],
    );
    ours(
        dir,
        &[
            "mv",
            &at("/usr/share/4/file-4"),
            &at("/usr/share/4/renamed"),
        ],
    );
    ours(dir, &["touch", &at("/usr/share/5/file-5")]);
    let expected = [
        ("/etc/hosts", "M size,content"),
        ("/etc/same-size", "M content"),
        ("/etc/cr", "M size,content"),
        ("/etc/binary", "M content"),
        ("/etc/new", "A"),
        ("/etc/empty", "A"),
        ("/etc/old.d", "D"),
        ("/etc/old.d/below", "D"),
        ("/etc/old.d/below/file", "D"),
        ("/etc/link", "M target"),
        ("/etc/becomes-file", "M type"),
        ("/usr/share/1/file-1", "M mode"),
        ("/usr/share/2/file-2", "M owner"),
        ("/usr/share/3/file-3", "M xattrs"),
        ("/usr/share/4/file-4", "D"),
        ("/usr/share/4/renamed", "A"),
    ];
    expected
        .map(|(path, what)| (path.to_owned(), what.to_owned()))
        .into()
}

/// The most that is read of more than 24 MiB on both sides: the changed data, and the data in the
/// same clusters of 64 KiB as changed data.
const READ_AT_MOST_BYTES: u64 = 1 << 20;

#[test]
fn states_of_one_image_are_compared_without_reading_what_they_share() {
    if require("qemu-img").is_none() || require("mke2fs").is_none() {
        return;
    }
    let dir = workshop();
    let dir = dir.path();
    let expected = change(dir, "disk.qcow2");
    let (found, counts) = differences(dir, &["disk.qcow2", "--from-snapshot", "before"]);
    assert_eq!(found, expected);
    let read = counts["read_bytes"].as_u64().unwrap();
    assert!((1..=READ_AT_MOST_BYTES).contains(&read), "{counts}");
    assert!(counts["same"].as_u64().unwrap() > 1000, "{counts}");

    ours(dir, &["snapshot", "create", "disk.qcow2", "after"]);
    let words = [
        "disk.qcow2:/etc",
        "--from-snapshot",
        "after",
        "--to-snapshot",
        "before",
    ];
    let (back, _) = differences(dir, &words);
    assert_eq!(back["/etc/new"], "D");
    assert_eq!(back["/etc/old.d/below/file"], "A");
    let (same, counts) = differences(dir, &["disk.qcow2", "--to-snapshot", "after", "--times"]);
    assert_eq!((same.len(), &counts["read_bytes"]), (0, &json!(0)));
    let words = [
        "disk.qcow2,snapshot=before:/usr",
        "disk.qcow2:/usr",
        "--times",
    ];
    let (touched, _) = differences(dir, &words);
    assert_eq!(touched["/usr/share/5/file-5"], "M modified");

    // A copy shares no clusters: all of it is read, with the same result.
    run(
        "qemu-img",
        [
            "convert",
            "-O",
            "raw",
            "-l",
            "snapshot.name=before",
            dir.join("disk.qcow2").to_str().unwrap(),
            dir.join("before.raw").to_str().unwrap(),
        ],
    )
    .unwrap();
    let (found, counts) = differences(dir, &["before.raw", "disk.qcow2"]);
    assert_eq!(found, expected);
    assert!(
        counts["read_bytes"].as_u64().unwrap() > 20 << 20,
        "{counts}"
    );
    let words = ["before.raw", "disk.qcow2", "--trust-times"];
    assert!(differences(dir, &words).1["read_bytes"].as_u64().unwrap() <= READ_AT_MOST_BYTES);
    judged_by_rsync(dir, &expected);
}

/// Checks with rsync on the kernel's mounts of both states.
fn judged_by_rsync(dir: &Path, expected: &Differences) {
    if require_root().is_none() || require("rsync").is_none() {
        return;
    }
    let after = dir.join("after.raw");
    let qcow2 = dir.join("disk.qcow2");
    run(
        "qemu-img",
        [
            "convert",
            "-O",
            "raw",
            qcow2.to_str().unwrap(),
            after.to_str().unwrap(),
        ],
    )
    .unwrap();
    let before = Mount::of_image(&dir.join("before.raw"), "ro").unwrap();
    let after = Mount::of_image(&after, "ro").unwrap();
    let place = |mount: &Mount| format!("{}/", mount.path().display());
    let words = [
        "-nrlpgoDHAX",
        "--checksum",
        "--delete",
        "--out-format=%i %n",
    ];
    let report = run(
        "rsync",
        words.into_iter().chain([&*place(&after), &*place(&before)]),
    )
    .unwrap();
    let mut found = Differences::new();
    for line in report.lines() {
        let (what, path) = line.split_once(' ').unwrap();
        let path = format!("/{}", path.trim_start().trim_end_matches('/'));
        // `*deleting`, `>f+++++++++`, `cLc........`, `.f...p.....`; `T` is a time that was not
        // requested.
        let letter = match (what, what.get(2..).unwrap_or_default()) {
            ("*deleting", _) => "D",
            (_, flags) if flags.starts_with('+') => "A",
            (_, flags) if flags.contains(['c', 's', 'p', 'o', 'g', 'a', 'x']) => "M",
            _ => continue,
        };
        // A file whose type changes is first deleted.
        let letter = if found.contains_key(&path) {
            "M"
        } else {
            letter
        };
        found.insert(path, letter.to_owned());
    }
    let letters = |(path, what): (&String, &String)| (path.clone(), what[..1].to_owned());
    let mut expected: Differences = expected.iter().map(letters).collect();
    // Which of its two words rsync uses for a new type depends on the types.
    expected.insert(
        "/etc/becomes-file".to_owned(),
        found["/etc/becomes-file"].clone(),
    );
    assert_eq!(found, expected, "{report}");
}

#[test]
fn an_overlay_is_compared_with_what_is_behind_it() {
    if require("qemu-img").is_none() || require("mke2fs").is_none() {
        return;
    }
    let dir = workshop();
    let dir = dir.path();
    ours(
        dir,
        &["create", "-b", "disk.qcow2", "-F", "qcow2", "over.qcow2"],
    );
    let (none, _) = differences(dir, &["--backing", "over.qcow2"]);
    assert!(none.is_empty());
    let expected = change(dir, "over.qcow2");
    let (found, counts) = differences(dir, &["--backing", "over.qcow2"]);
    assert_eq!(found, expected);
    assert!(
        counts["read_bytes"].as_u64().unwrap() <= READ_AT_MOST_BYTES,
        "{counts}"
    );
    let (found, counts) = differences(dir, &["disk.qcow2", "over.qcow2", "--exclude", "/usr"]);
    assert!(
        counts["read_bytes"].as_u64().unwrap() <= READ_AT_MOST_BYTES,
        "{counts}"
    );
    assert!(
        found.keys().all(|path| path.starts_with("/etc")),
        "{found:?}"
    );
    // The image names a file, which `--no-backing` forbids.
    let denied = diskfs_in(dir, &["diff", "--backing", "--no-backing", "over.qcow2"]);
    let (code, error) = denied.failure();
    assert_eq!(code, 2);
    assert!(error.contains("backing file"), "{error}");
    let (code, error) = diskfs_in(dir, &["diff", "--backing", "disk.qcow2"]).failure();
    assert_eq!(code, 2);
    assert!(error.contains("not an overlay"), "{error}");
}

#[test]
fn texts_are_shown_so_that_patch_takes_them() {
    if require("qemu-img").is_none() || require("mke2fs").is_none() || require("patch").is_none() {
        return;
    }
    let dir = workshop();
    let dir = dir.path();
    ours(dir, &["cp", "-r", "disk.qcow2:/etc", "patched"]);
    change(dir, "disk.qcow2");
    let run = diskfs_in(
        dir,
        &["diff", "-u", "disk.qcow2:/etc", "--from-snapshot", "before"],
    );
    assert_eq!((run.code(), run.stderr()), (Some(1), String::new()));
    let text = String::from_utf8(run.output.stdout.clone()).unwrap();
    for part in [
        "M /etc/hosts\tsize 14 -> 17, content\n--- a/hosts\t",
        "@@ -1,3 +1,4 @@\n one\n-two\n+2\n three\n+four\n",
        " a\r\n-b\r\n+b\rx\r\n c\n\\ No newline at end of file\n",
        "Binary files a/binary and b/binary differ\n",
        "A /etc/new\n--- /dev/null\t",
        "M /etc/link\ttarget hosts -> new\n",
        "M /etc/becomes-file\ttype symlink -> directory\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    fs::write(dir.join("patch"), &run.output.stdout).unwrap();
    let words = ["--binary", "-s", "-p1", "-d", "patched", "-i", "../patch"];
    let patched = std::process::Command::new("patch")
        .args(words)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(patched.status.success(), "{patched:?}");
    for name in ["hosts", "same-size", "cr", "new"] {
        let now = diskfs_in(dir, &["cat", &format!("disk.qcow2:/etc/{name}")]);
        assert_eq!(
            fs::read(dir.join("patched").join(name)).unwrap(),
            now.bytes(),
            "{name}"
        );
    }
    assert!(!dir.join("patched/old.d/below/file").exists());
    let names = diskfs_in(
        dir,
        &[
            "diff",
            "--name-only",
            "disk.qcow2:/etc",
            "--from-snapshot",
            "before",
        ],
    );
    assert!(
        String::from_utf8(names.output.stdout)
            .unwrap()
            .starts_with("/etc/becomes-file\n/etc/binary\n")
    );
    let context = [
        "diff",
        "--unified=0",
        "disk.qcow2:/etc",
        "--from-snapshot",
        "before",
    ];
    let context = String::from_utf8(diskfs_in(dir, &context).output.stdout).unwrap();
    assert!(
        context.contains("@@ -2 +2 @@\n-two\n+2\n@@ -3,0 +4 @@\n+four\n"),
        "{context}"
    );
}

/// Counts the lines that diff(1) shows as added and as removed.
fn counted(old: &Path, new: &Path) -> (usize, usize) {
    let output = std::process::Command::new("diff")
        .args(["-N", "-U0", "--text"])
        .args([old, new])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let lines: Vec<&[u8]> = output.stdout.split(|byte| *byte == b'\n').skip(2).collect();
    let count = |sign| {
        lines
            .iter()
            .filter(|line| line.first() == Some(&sign))
            .count()
    };
    (count(b'+'), count(b'-'))
}

#[test]
fn a_histogram_counts_the_lines_that_diff_counts() {
    if require("qemu-img").is_none() || require("mke2fs").is_none() || require("diff").is_none() {
        return;
    }
    let dir = workshop();
    let dir = dir.path();
    ours(dir, &["cp", "-r", "disk.qcow2:/etc", "old"]);
    change(dir, "disk.qcow2");
    ours(dir, &["cp", "-r", "disk.qcow2:/etc", "changed"]);
    let words = [
        "diff",
        "--stat",
        "disk.qcow2:/etc",
        "--from-snapshot",
        "before",
    ];
    let run = diskfs_in(dir, &words);
    assert_eq!((run.code(), run.stderr()), (Some(1), String::new()));
    let text = String::from_utf8(run.output.stdout.clone()).unwrap();
    let line = |name: &str| {
        let start = format!(" /etc/{name} ");
        let found = text.lines().find(|line| line.starts_with(&start));
        found
            .unwrap_or_else(|| panic!("{name}: {text}"))
            .split(" | ")
            .nth(1)
            .unwrap()
    };
    for name in ["hosts", "same-size", "cr", "new"] {
        let (added, removed) =
            counted(&dir.join("old").join(name), &dir.join("changed").join(name));
        let words: Vec<&str> = line(name).split_whitespace().collect();
        assert_eq!(words[0], (added + removed).to_string(), "{name}: {text}");
        let bar = format!("{}{}", "+".repeat(added), "-".repeat(removed));
        assert_eq!(words[1], bar, "{name}: {text}");
    }
    assert!(line("new").ends_with(" (new)"), "{text}");
    assert!(line("binary").contains("Bin "), "{text}");
    assert_eq!(line("link"), "target hosts -> new");
    assert!(!text.contains('\u{1b}'), "{text}");
    let total = text.lines().last().unwrap();
    assert!(
        total.contains(" differ, ") && total.contains("insertion"),
        "{total}"
    );
}

#[test]
fn trouble_is_told_apart_from_a_difference() {
    let demo = image("demo.qcow2");
    for (words, part) in [
        (&["demo.qcow2"][..], "--from-snapshot"),
        (&["demo.qcow2", "nowhere.img"], "nowhere.img"),
        (&["demo.qcow2:/etc", "/nowhere"], "/nowhere"),
        (&["demo.qcow2", "--from-snapshot", "none"], "none"),
    ] {
        let run = diskfs_in(demo.directory(), &[&["diff"], words].concat());
        let (code, error) = run.failure();
        assert_eq!(code, 2, "{words:?}: {error}");
        assert!(error.contains(part), "{words:?}: {error}");
        let run = diskfs_in(demo.directory(), &[&["diff", "--json"], words].concat());
        let error: Value = serde_json::from_str(&run.failure().1).unwrap();
        assert_eq!(error["error"]["exit_code"], 2);
    }
    let same = diskfs_in(demo.directory(), &["diff", "demo.qcow2:/etc", "/etc"]);
    assert_eq!(same.text(), "");
}
