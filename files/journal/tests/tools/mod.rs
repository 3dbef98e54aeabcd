//! Journals written by systemd, and the output of journalctl for them.

#![allow(dead_code, reason = "each test uses some")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use diskfs_block::Memory;
use diskfs_fixtures::{pattern, require, skip};
use diskfs_journal::{DATA_SIZE_MAX, Entry, Journal};

/// The program that writes journals from text.
const REMOTE: &str = "/lib/systemd/systemd-journal-remote";

/// Returns true if systemd's programs are installed.
pub(crate) fn have_systemd() -> bool {
    if require("journalctl").is_none() {
        return false;
    }
    let found = Path::new(REMOTE).exists();
    if !found {
        skip("systemd-journal-remote is not installed");
    }
    found
}

/// The options for writing a journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriterOptions {
    pub(crate) compress: bool,
    pub(crate) compact: bool,
    pub(crate) keyed_hash: bool,
}

/// Returns all combinations that systemd-journal-remote supports.
pub(crate) fn kinds() -> impl Iterator<Item = WriterOptions> {
    (0..8).map(|bits| WriterOptions {
        compress: bits & 1 != 0,
        compact: bits & 2 != 0,
        keyed_hash: bits & 4 != 0,
    })
}

/// Appends a field in the export format (<https://systemd.io/JOURNAL_EXPORT_FORMATS/>).
pub(crate) fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    if is_printable(value) {
        out.push(b'=');
    } else {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    }
    out.extend_from_slice(value);
    out.push(b'\n');
}

fn is_printable(value: &[u8]) -> bool {
    let text = std::str::from_utf8(value);
    text.is_ok_and(|text| text.chars().all(|c| c == '\t' || !c.is_control()))
}

pub(crate) fn boot_id(number: usize) -> String {
    format!("{:032x}", 0xb007_0000_usize + number)
}

/// Returns `count` entries of three boots: texts of many lengths, binary values, and two of 1 MiB.
pub(crate) fn entries(count: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for n in 0..count {
        let time = 1_700_000_000_000_000 + n * 1_234_567;
        let text = format!("entry {n} {}", "text ".repeat([0, 2, 20, 200, 1000][n % 5]));
        let fields: [(&str, Vec<u8>); 8] = [
            ("__REALTIME_TIMESTAMP", time.to_string().into()),
            ("__MONOTONIC_TIMESTAMP", (1000 + n).to_string().into()),
            ("_BOOT_ID", boot_id(n * 3 / count).into()),
            ("_MACHINE_ID", "a".repeat(32).into()),
            ("MESSAGE", text.into()),
            ("PRIORITY", (n % 8).to_string().into()),
            ("_PID", (n % 300).to_string().into()),
            ("SYSLOG_IDENTIFIER", ["sshd", "cron"][n % 2].into()),
        ];
        for (name, value) in &fields {
            field(&mut out, name, value);
        }
        match n {
            _ if n % 50 == 7 => field(&mut out, "BINARY", &pattern(&n.to_string(), 3000)),
            100 => field(&mut out, "LARGE", "0123456".repeat(150_000).as_bytes()),
            101 => field(&mut out, "LARGE_BINARY", &pattern("large", 1 << 20)),
            _ => {}
        }
        out.push(b'\n');
    }
    out
}

/// Makes a journal file from `text`.
pub(crate) fn make(directory: &Path, kind: WriterOptions, text: &[u8]) -> PathBuf {
    let input = directory.join("input");
    std::fs::write(&input, text).unwrap();
    let name = format!("{}-{}-{}", kind.compress, kind.compact, kind.keyed_hash);
    let path = directory.join(format!("{name}.journal"));
    let yes = |yes: bool| if yes { "1" } else { "0" };
    let output = Command::new(REMOTE)
        .arg(format!("--compress={}", yes(kind.compress)))
        .arg("-o")
        .args([&path, &input])
        .env("SYSTEMD_JOURNAL_COMPACT", yes(kind.compact))
        .env("SYSTEMD_JOURNAL_KEYED_HASH", yes(kind.keyed_hash))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    path
}

/// Returns the output of journalctl for a file.
pub(crate) fn journalctl(path: &Path, words: &[&str]) -> Vec<u8> {
    let output = Command::new("journalctl")
        .args(["--utc", "--no-pager", "-q", "--file"])
        .arg(path)
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

pub(crate) fn open(bytes: Vec<u8>) -> diskfs_block::Result<Journal> {
    Journal::open(Arc::new(Memory::new(bytes)))
}

/// Formats an entry in the export format, as journalctl does.
pub(crate) fn export(entry: &Entry) -> Vec<u8> {
    let mut head = String::new();
    writeln!(head, "__CURSOR={}", entry.cursor()).unwrap();
    writeln!(head, "__REALTIME_TIMESTAMP={}", entry.realtime_us).unwrap();
    writeln!(head, "__MONOTONIC_TIMESTAMP={}", entry.monotonic_us).unwrap();
    writeln!(head, "_BOOT_ID={}", entry.boot_id.simple()).unwrap();
    let mut out = head.into_bytes();
    for read in entry.fields(DATA_SIZE_MAX) {
        let read = read.unwrap();
        if read.name() != b"_BOOT_ID" {
            field(
                &mut out,
                std::str::from_utf8(read.name()).unwrap(),
                read.value(),
            );
        }
    }
    out.write_all(b"\n").unwrap();
    out
}

/// Returns the decompressed fixture.
pub(crate) fn fixture() -> Vec<u8> {
    let packed = &include_bytes!("../fixtures/three-boots.journal.zst")[..];
    zstd::stream::decode_all(packed).unwrap()
}
