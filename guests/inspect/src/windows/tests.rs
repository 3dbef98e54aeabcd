//! Reports of systems whose hives are built from the texts in `tests/windows`, compared with the
//! expected ones.

use std::fs;
use std::path::{Path, PathBuf};

use diskfs_registry::testing::{HiveBuilder, logs};
use diskfs_vfs::testing::MemoryFs;
use serde_json::Value;

use crate::{Depth, Report, testing};

const SYSTEMS: [&str; 4] = [
    "windows-10",
    "windows-11",
    "windows-server-2019",
    "windows-7",
];

fn directory(system: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/windows")
        .join(system)
}

fn builder(system: &str, hive: &str) -> HiveBuilder {
    let path = directory(system).join(format!("{}.reg", hive.to_lowercase()));
    let text = fs::read_to_string(path).unwrap();
    let mut builder = HiveBuilder::new();
    let prefix = format!(r"HKEY_LOCAL_MACHINE\{hive}");
    builder.reg_text(&text, &prefix).unwrap();
    builder
}

/// Returns the header of a program for a machine type.
fn program(machine: u16) -> Vec<u8> {
    let mut program = b"MZ".to_vec();
    program.resize(0x100, 0);
    program[0x3c] = 0x80;
    program[0x80..0x84].copy_from_slice(b"PE\0\0");
    program[0x84..0x86].copy_from_slice(&machine.to_le_bytes());
    program
}

/// Returns the tree of a system, with other contents for some hives. The case of names differs from
/// that of Windows.
fn tree(system: &str, other: &[(&str, &[u8])]) -> MemoryFs {
    let mut tree = MemoryFs::new();
    tree.dir("/WINDOWS/system32/Config");
    for hive in ["SOFTWARE", "SYSTEM", "SAM"] {
        let path = format!("/WINDOWS/system32/Config/{}", hive.to_lowercase());
        match other.iter().find(|(name, _)| *name == hive) {
            Some((_, contents)) => tree.file(&path, contents),
            None => tree.file(&path, &builder(system, hive).build()),
        };
    }
    tree.file("/WINDOWS/explorer.exe", &program(0x014c));
    tree
}

fn report(tree: MemoryFs) -> Value {
    serde_json::to_value(Report::of(&testing::of(tree), Depth::Files)).unwrap()
}

/// `DISKFS_BLESS=1` stores the reports as the expected ones.
#[test]
fn each_windows_is_reported() {
    for system in SYSTEMS {
        let mut tree = tree(system, &[]);
        tree.file("/hiberfil.sys", &[0; 4096]);
        let told = serde_json::to_string_pretty(&report(tree)).unwrap() + "\n";
        let path = directory(system).join("expected.json");
        if std::env::var_os("DISKFS_BLESS").is_some() {
            fs::write(&path, &told).unwrap();
        }
        assert_eq!(told, fs::read_to_string(&path).unwrap(), "{system}");
    }
}

#[test]
fn changes_that_are_in_the_logs_count() {
    let before = builder("windows-10", "SYSTEM").build();
    let after = builder("windows-10", "SYSTEM")
        .string(
            r"ControlSet001\Services\Tcpip\Parameters",
            "Hostname",
            "renamed",
        )
        .build();
    let mut dirty = before.clone();
    logs::set_sequence_numbers(&mut dirty, 2, 1);
    let mut tree = tree("windows-10", &[("SYSTEM", &dirty)]);
    tree.file("/WINDOWS/system32/Config/SYSTEM.log1", &[]);
    tree.file(
        "/WINDOWS/system32/Config/system.LOG2",
        &logs::new(1, &[&before, &after]),
    );
    tree.file("/HIBERFIL.SYS", b"HIBR and more");
    let told = report(tree);
    assert_eq!(told["hostname"], "renamed");
    assert_eq!(told["windows"]["hibernation"], "hibernated");
    assert_eq!(told["problems"].as_array().map(Vec::len), Some(0), "{told}");
}

#[test]
fn a_broken_hive_costs_its_own_answers() {
    let sam = builder("windows-10", "SAM").build();
    let other = [("SYSTEM", &b"no hive"[..]), ("SAM", &sam[..5000])];
    let tree = tree("windows-10", &other);
    let told = report(tree);
    assert_eq!(told["version"], "10.0.19045.3803");
    assert_eq!(told["hostname"], Value::Null);
    assert_eq!(told["architecture"], "i386");
    let problems = told["problems"].as_array().unwrap();
    let files: Vec<&str> = problems
        .iter()
        .filter_map(|it| it["file"].as_str())
        .collect();
    assert!(
        files.iter().any(|file| file.ends_with("/system")),
        "{files:?}"
    );
    assert!(files.iter().any(|file| file.ends_with("/sam")), "{files:?}");
}
