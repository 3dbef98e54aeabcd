//! Tests against other programs: hivex (libguestfs) and Samba read hives built here, and hives that
//! hivex writes are read here.

mod common;

use std::path::Path;
use std::process::Command;

use common::{all_sorts, export, exported, open};
use diskfs_fixtures::require;
use diskfs_registry::DataType;
use diskfs_registry::testing::{HiveBuilder, Leaf};

const WRITTEN: &str = include_str!("hives/written.reg");
const PREFIX: &str = r"HKEY_LOCAL_MACHINE\SYSTEM";

/// Runs a program on a hive, and returns its output.
fn run(hive: &Path, words: &[&str]) -> String {
    let words = words.iter().map(|word| {
        if *word == "HIVE" {
            hive.to_str().unwrap()
        } else {
            word
        }
    });
    let mut words = words.collect::<Vec<_>>().into_iter();
    let mut command = Command::new(words.next().unwrap());
    // Perl writes Latin-1 unless it is told otherwise.
    let output = command
        .args(words)
        .env("PERL_UNICODE", "S")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn written(builder: &HiveBuilder) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, builder.build()).unwrap();
    file
}

fn of_written() -> String {
    let mut builder = HiveBuilder::new();
    builder.reg_text(WRITTEN, PREFIX).unwrap();
    let hive = open(&builder.build(), &[]).unwrap();
    export(&hive.root().unwrap()).unwrap()
}

#[test]
fn hivex_reads_the_same() {
    if require("hivexregedit").is_none() {
        return;
    }
    for (leaf, leaf_len) in [
        (Leaf::Index, 500),
        (Leaf::Fast, 500),
        (Leaf::Hash, 7),
        (Leaf::Hash, 1012),
    ] {
        let builder = all_sorts(leaf, leaf_len, 3000);
        let file = written(&builder);
        let words = ["hivexregedit", "--export", "--prefix", "R", "HIVE", r"\"];
        let theirs = exported(&run(file.path(), &words));
        let hive = open(&builder.build(), &[]).unwrap();
        let ours = export(&hive.root().unwrap()).unwrap();
        assert!(ours.lines().count() > 6000);
        for (ours, theirs) in ours.lines().zip(theirs.lines()) {
            let at = ours.bytes().zip(theirs.bytes()).position(|(a, b)| a != b);
            let lens = (ours.len(), theirs.len());
            assert!(ours == theirs, "{leaf:?}: {ours:.60}, {lens:?}, {at:?}");
        }
        assert_eq!(ours.len(), theirs.len());
    }
}

#[test]
fn what_hivex_writes_is_read() {
    if require("hivexregedit").is_none() {
        return;
    }
    let file = written(&HiveBuilder::new());
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&text, WRITTEN).unwrap();
    let text = text.path().to_str().unwrap();
    run(
        file.path(),
        &["hivexregedit", "--merge", "--prefix", PREFIX, "HIVE", text],
    );
    let hive = open(&std::fs::read(&file).unwrap(), &[]).unwrap();
    let root = hive.root().unwrap();
    assert_eq!(export(&root).unwrap(), of_written());
    assert!(
        root.subkey(r"CONTROLSET001\services\D E")
            .unwrap()
            .is_some()
    );
}

/// A stored hive of hivex, for machines where hivex is not installed.
#[test]
fn what_hivex_has_written_is_read() {
    let bytes = zstd::decode_all(&include_bytes!("hives/hivex.hive.zst")[..]).unwrap();
    let hive = open(&bytes, &[]).unwrap();
    let root = hive.root().unwrap();
    assert_eq!(export(&root).unwrap(), of_written());
    for path in [
        r"Select",
        r"controlset001\SERVICES\tcpip\parameters",
        r"ControlSet001\services\ZZ",
    ] {
        assert!(root.subkey(path).unwrap().is_some(), "{path}");
    }
    assert!(root.subkey(r"ControlSet001\Services\z").unwrap().is_none());
}

#[test]
fn samba_reads_the_same_keys() {
    if require("regtree").is_none() {
        return;
    }
    for leaf in [Leaf::Index, Leaf::Fast, Leaf::Hash] {
        let mut builder = HiveBuilder::new();
        builder.leaf = leaf;
        for number in 0..200 {
            builder.string(
                &format!(r"A\key {number}"),
                "Name",
                &format!("text {number}"),
            );
        }
        builder.value(r"A\key 7", "bytes", DataType::BINARY, &[1, 2, 3, 4, 5, 6]);
        let listing = run(written(&builder).path(), &["regtree", "-F", "HIVE"]);
        let named = |line: &&str| line.contains("key ");
        assert_eq!(listing.lines().filter(named).count(), 200, "{listing}");
        assert!(listing.contains("text 199"), "{listing}");
    }
}

/// The case table is that of `$UpCase`, except for letters that are newer than it.
#[test]
fn upper_case_is_that_of_ntfs() {
    if require("mkntfs").is_none() || require("ntfscat").is_none() {
        return;
    }
    let disk = tempfile::NamedTempFile::new().unwrap();
    disk.as_file().set_len(8 << 20).unwrap();
    run(disk.path(), &["mkntfs", "-q", "-F", "HIVE"]);
    let path = disk.path().to_str().unwrap();
    let table = Command::new("ntfscat")
        .args(["-f", "-i", "10", path])
        .output()
        .unwrap()
        .stdout;
    assert_eq!(table.len(), 131_072);
    let mut other = Vec::new();
    for (unit, capital) in (0_u16..=u16::MAX).zip(table.as_chunks::<2>().0) {
        let capital = u16::from_le_bytes(*capital);
        let (Some(small), Some(capital)) =
            (char::from_u32(unit.into()), char::from_u32(capital.into()))
        else {
            continue;
        };
        let mut builder = HiveBuilder::new();
        builder.key(&small.to_string());
        if matches!(small, '\0' | '\\') {
            continue;
        }
        let hive = open(&builder.build(), &[]).unwrap();
        if hive
            .root()
            .unwrap()
            .subkey(&capital.to_string())
            .unwrap()
            .is_none()
        {
            other.push(unit);
        }
    }
    let young = |unit: &u16| {
        matches!(unit, 0x0220..=0x02af | 0x0370..=0x03ff | 0x0500..=0x052f | 0x10a0..=0x10ff
            | 0x13a0..=0x13ff | 0x1c80..=0x1cbf | 0x1d00..=0x1eff | 0x2c00..=0x2d2f
            | 0xa640..=0xa7ff | 0xab30..=0xabbf)
    };
    assert!(other.iter().all(young), "{other:x?}");
}
