//! grep, compared with grep(1) on the tree from which the image was made.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use diskfs_fixtures::{image, require, run};
use serde_json::json;

use crate::{Run, diskfs_in, text_of};

/// A tree and an image of it.
struct Workshop {
    dir: tempfile::TempDir,
}

impl Workshop {
    /// Returns `None`, with a message, if the image can't be made.
    fn new() -> Option<Self> {
        require("mke2fs")?;
        require("grep")?;
        let dir = tempfile::tempdir().unwrap();
        let this = Self { dir };
        let tree = this.tree();
        fs::create_dir_all(tree.join("etc/ssh")).unwrap();
        fs::create_dir_all(tree.join("var/cache/deep")).unwrap();
        let line = |n: u32| format!("line {n} of {}\n", n * 37 % 11);
        let large = (0..30_000).map(line).collect::<Vec<_>>().concat();
        let long = format!(
            "{}needle{}\nshort needle\n",
            "x".repeat(100_000),
            "y".repeat(200_000)
        );
        for (name, text) in [
            (
                "etc/hosts",
                "127.0.0.1 localhost\n::1 ip6-localhost\n\n# Foo foo_bar barfoo\n".as_bytes(),
            ),
            ("etc/no-end", b"foo\nlast foo"),
            (
                "etc/ssh/config",
                b"Host *\n  Port 22\nport 23\n\xff\xfe bytes foo\n",
            ),
            ("etc/empty", b""),
            ("etc/blank", b"\n\n\n"),
            ("etc/crlf", b"foo\r\nbar\r\n"),
            ("var/binary", b"foo\0bar\nline 1 of it\nfoo\n"),
            ("var/binary-end", b"foo\nbar\n\0"),
            ("var/cache/deep/large.log", large.as_bytes()),
            ("var/cache/deep/long.txt", long.as_bytes()),
            ("var/names with spaces", b"foo in here\n"),
            ("-dash", b"foo -v\n"),
        ] {
            fs::write(tree.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("etc/hosts", tree.join("link")).unwrap();
        std::os::unix::fs::symlink("/nowhere", tree.join("dangling")).unwrap();
        run("mkfifo", [tree.join("fifo")]).unwrap();
        this.pack();
        let disk = this.dir.path().join("disk.img");
        fs::File::create(&disk).unwrap().set_len(32 << 20).unwrap();
        let words = [
            "-q",
            "-F",
            "-t",
            "ext4",
            "-d",
            tree.to_str().unwrap(),
            disk.to_str().unwrap(),
        ];
        run("mke2fs", words).unwrap();
        Some(this)
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Writes the same text, compressed in all three formats; for gzip, two members.
    fn pack(&self) {
        let logs = self.tree().join("logs");
        fs::create_dir(&logs).unwrap();
        let text = b"packed needle\nanother line\n";
        fs::write(logs.join("plain"), text).unwrap();
        for (program, name) in [("gzip", "a.gz"), ("zstd", "a.zst"), ("xz", "a.xz")] {
            let out = fs::File::create(logs.join(name)).unwrap();
            let mut child = Command::new(program)
                .arg("-c")
                .stdin(std::process::Stdio::piped())
                .stdout(out)
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(text).unwrap();
            assert!(child.wait().unwrap().success());
        }
        let twice = fs::read(logs.join("a.gz")).unwrap().repeat(2);
        fs::write(logs.join("twice.gz"), twice).unwrap();
    }

    fn ours(&self, words: &[&str]) -> Run {
        diskfs_in(self.dir.path(), &[&["grep"], words].concat())
    }

    /// Compares both programs with these options below `place`: lines, sorted because directories
    /// are not, and exit codes.
    fn compare(&self, options: &[&str], place: &str) {
        let at = format!("disk.img:{place}");
        let ours = self.ours(&[options, &[&*at]].concat());
        let theirs = Command::new("grep")
            .arg("-r")
            .args(options)
            .arg(format!(".{place}").trim_end_matches('/'))
            .current_dir(self.tree())
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        assert_eq!(
            ours.code(),
            theirs.status.code(),
            "{options:?}: {}",
            ours.stderr()
        );
        // A match in a binary file is reported on standard error.
        let all =
            |output: &std::process::Output| lines(&[&output.stdout[..], &output.stderr].concat());
        let (ours, theirs) = (all(&ours.output), all(&theirs));
        assert_eq!(show(&ours), show(&theirs), "{options:?} {place}");
    }
}

/// Returns the lines, without the dot before paths.
fn lines(output: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = output
        .split(|byte| *byte == b'\n')
        .map(|line| match line.strip_prefix(b"grep: ./") {
            Some(rest) => [b"grep: /", rest].concat(),
            None => line.strip_prefix(b".").unwrap_or(line).to_vec(),
        })
        .collect();
    lines.sort();
    lines
}

fn show(lines: &[Vec<u8>]) -> Vec<String> {
    let cut = |line: &Vec<u8>| {
        let text = line.escape_ascii().to_string();
        format!(
            "{} {}",
            text.len(),
            text.chars().take(120).collect::<String>()
        )
    };
    lines.iter().map(cut).collect()
}

#[test]
fn grep_prints_what_grep_prints() {
    let Some(workshop) = Workshop::new() else {
        return;
    };
    for options in [
        &["foo"][..],
        &["-n", "foo"],
        &["-i", "FOO"],
        &["-w", "foo"],
        &["-wn", "line 1"],
        &["-x", "foo"],
        &["-v", "line"],
        &["-c", "foo"],
        &["-vc", "foo"],
        &["-l", "foo"],
        &["-L", "foo"],
        &["-o", "[a-z]*oo"],
        &["-on", "-E", "line [0-9]+|f(o)+"],
        &["-F", "."],
        &["-F", "-e", "*", "-e", "127.0"],
        &["-e", "-v"],
        &["-h", "foo"],
        &["-m", "1", "-n", "o"],
        &["-m", "2", "-c", "o"],
        &["-m", "0", "o"],
        &["-n", "-A", "1", "foo"],
        &["-n", "-B", "2", "-m", "1", "of 10"],
        &["-C", "1", "29999"],
        &["-n", "-C", "2", "-E", "line (7|9|13|40)0? "],
        &["-v", "-A", "1", "-m", "3", "zzz"],
        &["-a", "foo"],
        &["-I", "foo"],
        &["-c", "-a", "foo"],
        &["-c", "-I", "foo"],
        &["-q", "foo"],
        &["-q", "no such thing"],
        &["no such thing"],
        &["^$"],
        &["-c", ""],
        &["-E", "^(Host|  Port)"],
        &["needle$"],
        &["-o", "needle"],
        &["-E", "x{20}needle"],
        &["-l", "--include", "*.log", "line"],
        &["-l", "--include", "*.log", "--include", "host*", "l"],
        &["-l", "--exclude", "*.log", "--exclude-dir", "etc", "o"],
        &["-l", "--exclude-dir", "cache", "."],
    ] {
        workshop.compare(options, "/");
        workshop.compare(options, "/etc");
    }
}

#[test]
fn files_by_name_have_no_name_before_their_lines() {
    let Some(workshop) = Workshop::new() else {
        return;
    };
    let text = |words: &[&str]| {
        let run = workshop.ours(words);
        String::from_utf8(run.output.stdout).unwrap()
    };
    assert_eq!(text(&["^::", "disk.img:/etc/hosts"]), "::1 ip6-localhost\n");
    assert_eq!(text(&["^::", "disk.img:/link"]), "::1 ip6-localhost\n");
    assert_eq!(
        text(&["-Hc", "^::", "disk.img:/etc/hosts"]),
        "/etc/hosts:1\n"
    );
    let two = text(&["-n", "last", "disk.img:/etc/hosts", "/etc/no-end"]);
    assert_eq!(two, "/etc/no-end:2:last foo\n");
    fs::copy(
        workshop.dir.path().join("disk.img"),
        workshop.dir.path().join("b.img"),
    )
    .unwrap();
    let images = text(&["-l", "^::", "disk.img:/etc", "b.img:/etc"]);
    assert_eq!(images, "disk.img:/etc/hosts\nb.img:/etc/hosts\n");
    let json = workshop
        .ours(&["--json", "-o", "foo", "disk.img:/etc", "/var/binary"])
        .json();
    let matches = json["matches"].as_array().unwrap();
    let of = |path: &str| -> Vec<_> {
        matches
            .iter()
            .filter(|found| text_of(&found["path"]) == path)
            .collect()
    };
    let line = of("/etc/no-end")[1];
    assert_eq!(
        (&line["line_number"], &line["line"]),
        (&json!(2), &json!("last foo"))
    );
    assert_eq!(line["spans"], json!([{ "start": 5, "end": 8 }]));
    assert_eq!(of("/etc/ssh/config")[0]["line_base64"], "//4gYnl0ZXMgZm9v");
    assert_eq!(of("/var/binary")[0]["binary"], true);
}

#[test]
fn packed_files_are_searched_when_asked_for() {
    let Some(workshop) = Workshop::new() else {
        return;
    };
    let run = workshop.ours(&["--search-zip", "-c", "needle", "disk.img:/logs"]);
    let expected = "/logs/a.gz:1\n/logs/a.xz:1\n/logs/a.zst:1\n/logs/plain:1\n/logs/twice.gz:2\n";
    assert_eq!(run.text(), expected);
    let not_asked = workshop.ours(&["-l", "needle", "disk.img:/logs"]).text();
    assert!(!not_asked.contains(".gz"), "{not_asked}");
    // A file that claims to be compressed and is not is reported, and the others are searched.
    let broken = workshop.dir.path().join("broken");
    fs::write(&broken, b"\x1f\x8bnothing of the kind").unwrap();
    crate::diskfs_in(
        workshop.dir.path(),
        &["cp", "broken", "disk.img:/logs/broken"],
    )
    .bytes();
    let run = workshop.ours(&["--search-zip", "-l", "needle", "disk.img:/logs"]);
    let (code, error) = run.failure();
    assert_eq!(code, 2);
    assert!(
        error.contains("/logs/broken") && error.contains("cannot decompress"),
        "{error}"
    );
    assert_eq!(run.output.stdout.split(|byte| *byte == b'\n').count(), 6);
    let quiet = workshop.ours(&["-s", "--search-zip", "-l", "needle", "disk.img:/logs"]);
    assert_eq!((quiet.code(), quiet.stderr()), (Some(2), String::new()));
}

/// A line without end takes no more memory than documented, and matches in it are found.
#[test]
fn endless_lines_are_searched_in_pieces() {
    let Some(workshop) = Workshop::new() else {
        return;
    };
    let dir: &Path = workshop.dir.path();
    let text = [&vec![b'x'; 20 << 20][..], b"needle"].concat();
    fs::write(dir.join("long"), text).unwrap();
    crate::diskfs_in(dir, &["cp", "long", "disk.img:/long"]).bytes();
    let run = workshop.ours(&["-o", "needle", "disk.img:/long"]);
    assert_eq!(run.text(), "needle\n");
    // 5 pieces of 4 MiB, and the rest.
    assert_eq!(workshop.ours(&["-c", "x*", "disk.img:/long"]).text(), "6\n");
}

#[test]
fn trouble_is_told_apart_from_nothing_found() {
    let demo = image("demo.qcow2");
    let grep = |words: &[&str]| diskfs_in(demo.directory(), &[&["grep"], words].concat());
    for (words, part) in [
        (&["x"][..], "missing image"),
        (&["(", "demo.qcow2"], "unclosed group"),
        (&[r"(a)\1", "demo.qcow2"], "-F"),
        (&["x", "demo.qcow2:/nowhere"], "/nowhere"),
        (&["x", "nowhere.img"], "nowhere.img"),
    ] {
        let (code, error) = grep(words).failure();
        assert_eq!(code, 2, "{words:?}: {error}");
        assert!(error.contains(part), "{words:?}: {error}");
    }
    assert_eq!(
        grep(&["-q", "no such thing", "demo.qcow2:/etc"]).failure(),
        (1, String::new())
    );
    let both = grep(&["-q", "demo", "demo.qcow2:/nowhere", "/etc/hostname"]);
    assert_eq!(both.code(), Some(0), "as grep -q has it");
    let both = grep(&["demo", "demo.qcow2:/nowhere", "/etc/hostname"]);
    assert_eq!(
        (both.code(), &*both.output.stdout),
        (Some(2), &b"/etc/hostname:demo\n"[..])
    );
}
