//! `diskfs log`, compared with journalctl.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use diskfs_fixtures::require;
use serde_json::Value;
use tempfile::TempDir;

use crate::{Run, diskfs_in};

const JOURNAL: &str = "var/log/journal/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/system.journal";

fn fixture() -> Vec<u8> {
    let path = "files/journal/tests/fixtures/three-boots.journal.zst";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    zstd::stream::decode_all(fs::File::open(path).unwrap()).unwrap()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    writer.write_all(text.as_bytes()).unwrap();
    writer.finish().unwrap()
}

fn run(directory: &Path, program: &str, words: &[&str]) -> Vec<u8> {
    let output = diskfs_fixtures::command(program)
        .args(words)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
    output.stdout
}

/// Makes a guest in `guest.img`, with the fixture's journal and text logs.
pub(crate) fn guest() -> Option<TempDir> {
    require("mke2fs")?;
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    for (path, text, written) in [
        ("etc/os-release", b"ID=debian\n".to_vec(), "2023-11-17 04:00:00"),
        ("bin/true", Vec::new(), "2023-11-17 04:00:00"),
        (JOURNAL, fixture(), "2023-11-17 04:00:00"),
        (
            "var/log/syslog",
            b"Nov 14 22:13:30 host-1 su[7]: text one\n\tat line 2\nNov 17 03:12:30 host-1 kernel: \x1b[31mtwo\n".to_vec(),
            "2023-11-17 04:00:00",
        ),
        ("var/log/syslog.1.gz", gzip("Dec 31 23:59:59 host-1 su[6]: text of last year\n"), "2023-01-01 06:00:00"),
        (
            "var/log/dpkg.log",
            b"2023-11-15 12:00:00 status installed base:amd64 1\n".to_vec(),
            "2023-11-15 12:00:00",
        ),
        ("var/log/wtmp", b"Nov 14 22:13:30 nothing that is read\n".to_vec(), "2023-11-17 04:00:00"),
        ("var/log/other", b"2023-11-14T00:00:00Z h p: named\n".to_vec(), "2023-11-17 04:00:00"),
    ] {
        let at = tree.join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(&at, text).unwrap();
        let written = format!("{written} UTC");
        run(&tree, "touch", &["-d", &written, path]);
    }
    let words = ["-q", "-t", "ext4", "-d", "tree", "guest.img", "32M"];
    run(directory.path(), "mke2fs", &words);
    Some(directory)
}

fn log(directory: &TempDir, words: &[&str]) -> Run {
    diskfs_in(directory.path(), &[&["log", "guest.img"], words].concat())
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn the_journal_is_shown_as_journalctl_shows_it() {
    let Some(directory) = guest() else { return };
    if require("journalctl").is_none() {
        return;
    }
    let journalctl = |words: &[&str]| {
        let file = format!("tree/{JOURNAL}");
        let common = ["--utc", "--no-pager", "-q", "--file", &file];
        run(directory.path(), "journalctl", &[&common, words].concat())
    };
    let file = format!("/{JOURNAL}");
    for words in [
        &["-o", "export"][..],
        &["-o", "export", "-r"],
        &["-o", "export", "-n", "7"],
        &["-o", "export", "-n", "7", "-r"],
        &["-o", "short"],
        &["-o", "short-precise", "-n", "20"],
        &["-o", "cat"],
        &["-o", "short", "-u", "ssh", "-p", "err"],
        &["-o", "short", "-u", "cron.service", "-p", "2..4"],
        &["-o", "short", "-t", "kernel"],
        &["-o", "short", "-b", "-1"],
        &["-o", "short", "-b", "b0b0b0b0b0b0b0b0b0b0b0b0b0b0b001"],
        &[
            "-o",
            "short",
            "-S",
            "2023-11-15 23:55",
            "-U",
            "2023-11-16 00:10:30",
        ],
    ] {
        let ours = log(&directory, &[&["--file", &file], words].concat());
        assert_eq!(ours.bytes(), journalctl(words), "{words:?}");
    }
    let theirs = String::from_utf8(journalctl(&["-o", "short-iso"])).unwrap();
    let ours = log(&directory, &["--file", &file, "-o", "short-iso"]).text();
    // From systemd 255 on, it has the colon itself.
    assert_eq!(
        ours.replace("+00:00 ", "+0000 "),
        theirs.replace("+00:00 ", "+0000 ")
    );
    let objects = |bytes: &[u8]| -> Vec<Value> {
        let text = std::str::from_utf8(bytes).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let theirs = objects(&journalctl(&["-o", "json", "--all"]));
    let ours = log(&directory, &["--file", &file, "--json"]);
    let ours = objects(ours.bytes());
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let (ours, theirs) = (ours.as_object().unwrap(), theirs.as_object().unwrap());
        for (name, value) in ours {
            // Newer releases of journalctl know more addresses.
            assert_eq!(Some(value), theirs.get(name), "{name}");
        }
    }
    // With --quiet, journalctl omits the heading.
    let path = format!("--file=tree/{JOURNAL}");
    let words = ["--utc", "--no-pager", "--list-boots", &path];
    let list = run(directory.path(), "journalctl", &words);
    assert_eq!(log(&directory, &["--list-boots"]).bytes(), list);
}

#[test]
fn all_logs_are_one_in_the_order_of_time() {
    let Some(directory) = guest() else { return };
    let text = log(&directory, &[]).text();
    let all = lines(&text);
    assert_eq!(all.len(), 300 + 5);
    assert_eq!(all[0], "Dec 31 23:59:59 host-1 su[6]: text of last year");
    assert_eq!(
        all[1],
        "Nov 14 22:13:20 host-1 kernel[100]: entry 0 of the fixture"
    );
    assert_eq!(all[2], "Nov 14 22:13:30 host-1 su[7]: text one");
    assert_eq!(all[3], "                                      at line 2");
    assert!(all[4].ends_with("entry 1 of the fixture"));
    assert_eq!(all[304], "Nov 17 03:12:30 host-1 kernel: \\u{1b}[31mtwo");
    let dpkg = all
        .iter()
        .position(|line| line.contains("dpkg: status installed"))
        .unwrap();
    assert!(
        all[dpkg - 1].ends_with("entry 99 of the fixture"),
        "{}",
        all[dpkg - 1]
    );
    // Reversed, the output is the same, except for lines of one record.
    let reversed = log(&directory, &["-r", "-o", "json"]).text();
    let mut reversed = lines(&reversed);
    reversed.reverse();
    let forward = log(&directory, &["--json"]).text();
    assert_eq!(lines(&forward), reversed);
    let last = log(&directory, &["-n", "2"]).text();
    assert_eq!(lines(&last), all[303..]);
    assert_eq!(log(&directory, &["-n", "0"]).text(), "");
}

/// The place where a guest states its time zone.
#[derive(Debug, Clone, Copy)]
enum Says {
    /// A copy of the database's file.
    Copy,
    /// A link into the guest's own database.
    Link,
    /// The zone's name, in a guest without the database.
    Name,
}

/// Makes a guest with a journal and a syslog whose first line has a local time, and whose second
/// has an offset.
fn guest_in(zone: &str, says: Says, local: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    let write = |path: &str, bytes: &[u8]| {
        let at = tree.join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(&at, bytes).unwrap();
    };
    write("etc/os-release", b"ID=debian\n");
    write("bin/true", b"");
    write(JOURNAL, &fixture());
    let offset = "2023-11-14T22:13:30.500000+00:00 host-1 su[7]: with an offset\n";
    let text = format!("{local} host-1 su[7]: in local time\n{offset}");
    write("var/log/syslog", text.as_bytes());
    run(
        &tree,
        "touch",
        &["-d", "2023-11-17 04:00:00 UTC", "var/log/syslog"],
    );
    let database = format!("usr/share/zoneinfo/{zone}");
    let file = fs::read(format!("/{database}")).unwrap();
    match says {
        Says::Copy => write("etc/localtime", &file),
        Says::Link => {
            write(&database, &file);
            let target = format!("../{database}");
            std::os::unix::fs::symlink(target, tree.join("etc/localtime")).unwrap();
        }
        Says::Name => write("etc/timezone", format!("{zone}\n").as_bytes()),
    }
    let words = ["-q", "-t", "ext4", "-d", "tree", "guest.img", "32M"];
    run(directory.path(), "mke2fs", &words);
    directory
}

#[test]
fn local_times_are_in_the_guests_zone() {
    let has_database = Path::new("/usr/share/zoneinfo/Asia/Shanghai").exists();
    if require("mke2fs").is_none() || (!has_database && require("tzdata").is_none()) {
        return;
    }
    for (zone, local) in [
        ("Asia/Shanghai", "Nov 15 06:13:30"),
        ("America/New_York", "Nov 14 17:13:30"),
        ("America/New_York", "2023-11-14 17:13:30"),
    ] {
        for says in [Says::Copy, Says::Link, Says::Name] {
            let directory = guest_in(zone, says, local);
            let expected = [
                "Nov 14 22:13:20 host-1 kernel[100]: entry 0 of the fixture",
                "Nov 14 22:13:30 host-1 su[7]: in local time",
                "Nov 14 22:13:30 host-1 su[7]: with an offset",
            ];
            let text = log(&directory, &[]).text();
            assert_eq!(lines(&text)[..3], expected, "{zone} {says:?}");
            let until = ["-r", "-U", "2023-11-14 22:13:31"];
            let text = log(&directory, &until).text();
            let mut newest_first = lines(&text);
            newest_first.reverse();
            assert_eq!(newest_first, expected, "{zone} {says:?}");
        }
    }
}

#[test]
fn a_broken_zone_is_told_and_taken_for_utc() {
    if require("mke2fs").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    for (path, text) in [
        ("etc/os-release", "ID=debian\n"),
        ("etc/localtime", "TZif2 and no more"),
        ("bin/true", ""),
        (
            "var/log/dpkg.log",
            "2023-11-15 12:00:00 status installed a\n",
        ),
    ] {
        let at = tree.join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(&at, text).unwrap();
    }
    let words = ["-q", "-t", "ext4", "-d", "tree", "guest.img", "32M"];
    run(directory.path(), "mke2fs", &words);
    let told = log(&directory, &[]);
    assert_eq!(told.code(), Some(0));
    let shown = String::from_utf8_lossy(&told.output.stdout).into_owned();
    assert!(shown.starts_with("Nov 15 12:00:00 dpkg: "), "{shown}");
    let warning = "/etc/localtime: invalid file of the time zone database; local times";
    assert!(told.stderr().contains(warning), "{}", told.stderr());
}

#[test]
fn what_is_wanted_is_shown() {
    let Some(directory) = guest() else { return };
    let count = |words: &[&str]| log(&directory, words).text().lines().count();
    assert_eq!(count(&["-g", "TEXT"]), 0);
    assert_eq!(count(&["-g", "^text", "-o", "cat"]), 3);
    assert_eq!(count(&["-t", "su", "-o", "json"]), 2);
    assert_eq!(count(&["-k"]), 30 + 1);
    assert_eq!(count(&["-b"]), 100);
    assert_eq!(
        count(&["-S", "2023-11-15 06:00", "-U", "2023-11-15 18:00"]),
        1
    );
    assert_eq!(count(&["-U", "2023-06-01"]), 1);
    assert_eq!(
        log(&directory, &["--file", "/var/log/other", "-o", "cat"]).text(),
        "named\n"
    );
    let json = log(&directory, &["--json", "-g", "last year"]).text();
    let line: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(line["__REALTIME_TIMESTAMP"], "1672531199000000");
    assert_eq!(line["LOG_FILE"], "/var/log/syslog.1.gz");
    for (words, code) in [
        (&["-g", "("][..], 2),
        (&["-p", "loud"], 2),
        (&["-S", "soon"], 2),
        (&["-b", "7"], 3),
        (&["--file", "/var/log/gone"], 3),
    ] {
        assert_eq!(log(&directory, words).failure().0, code, "{words:?}");
    }
}

#[test]
fn what_is_broken_is_told_and_the_rest_shown() {
    let Some(directory) = guest() else { return };
    let logs = directory.path().join("tree/var/log");
    fs::write(logs.join("messages.1.gz"), b"\x1f\x8b\x08no gzip at all").unwrap();
    fs::write(logs.join("secure.1.bz2"), b"BZh").unwrap();
    fs::write(
        logs.join("journal/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/x.journal~"),
        b"LPKSHHRH",
    )
    .unwrap();
    let path = directory.path().join("tree").join(JOURNAL);
    let mut journal = fs::read(&path).unwrap();
    // The size of the first entry.
    let word = |bytes: &[u8], at: usize| {
        usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
    };
    let array = word(&journal, 176);
    let entry = word(&journal, array + 24);
    journal[entry + 8..entry + 16].fill(0xff);
    fs::write(&path, journal).unwrap();
    fs::remove_file(directory.path().join("guest.img")).unwrap();
    let words = ["-q", "-t", "ext4", "-d", "tree", "guest.img", "32M"];
    run(directory.path(), "mke2fs", &words);
    for words in [&[][..], &["-r"]] {
        let run = log(&directory, words);
        assert_eq!(run.code(), Some(0));
        let shown = String::from_utf8(run.output.stdout.clone()).unwrap();
        assert_eq!(
            shown
                .lines()
                .filter(|line| line.contains("of the fixture"))
                .count(),
            299
        );
        assert!(shown.contains("text of last year"));
        let told = run.stderr();
        for name in [
            "messages.1.gz",
            "secure.1.bz2",
            "x.journal~",
            "system.journal: cannot read an entry",
        ] {
            assert!(told.contains(name), "{name}: {told}");
        }
    }
}
