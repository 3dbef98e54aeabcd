//! The command line of qemu-img: a table of calls that qemu-img and diskfs answer alike, in the
//! ways in which clouds and virtual-machine managers call it.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use diskfs_fixtures::{pattern, require};
use serde_json::Value;

use crate::DISKFS;

const VECTORS: &str = include_str!("qemu_img/vectors.txt");

/// Members of documents that depend on the host's filesystem, on the clock, or on the order in
/// which clusters are allocated.
const VARYING: [&str; 10] = [
    "actual-size",
    "children",
    "cid",
    "date-nsec",
    "date-sec",
    "extents",
    "fragmented-clusters",
    "icount",
    "image-end-offset",
    "parent-cid",
];

/// Lines of text that vary likewise.
const VARYING_LINES: [&str; 4] = [
    "disk size: ",
    "file length: ",
    "Image end offset: ",
    "Run completed in ",
];

/// A program in the directory in which it is called.
struct Caller {
    program: PathBuf,
    directory: PathBuf,
}

impl Caller {
    fn new(program: PathBuf, directory: &Path) -> Self {
        fs::create_dir_all(directory).unwrap();
        let seed = fs::File::create(directory.join("seed.raw")).unwrap();
        seed.set_len(32 << 20).unwrap();
        let data = pattern("seed", 3 << 20);
        seed.write_all_at(&data, 1 << 20).unwrap();
        seed.write_all_at(&data[..70_000], 9 << 20).unwrap();
        seed.write_all_at(&data[..4096], (32 << 20) - 4096).unwrap();
        Self {
            program,
            directory: directory.to_owned(),
        }
    }

    fn call(&self, words: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        let command = command.args(words).current_dir(&self.directory);
        command.env("TZ", "UTC").output().unwrap()
    }
}

fn without_varying(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !VARYING.contains(&name.as_str()));
            fields.values_mut().for_each(without_varying);
        }
        Value::Array(all) => all.iter_mut().for_each(without_varying),
        _ => {}
    }
}

fn document(output: &Output) -> Option<Value> {
    let mut document = serde_json::from_slice(&output.stdout).ok()?;
    without_varying(&mut document);
    Some(document)
}

fn text(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(|line| {
        let varying = VARYING_LINES
            .iter()
            .find(|start| line.trim_start().starts_with(**start));
        let line = varying.map_or(line, |start| start);
        match line.split_once(" allocated, ") {
            Some((share, _)) => share.to_owned(),
            None => line.to_owned(),
        }
    });
    lines.collect()
}

/// Returns what differs between both answers, if something does that should not.
fn difference(mode: &str, theirs: &Output, ours: &Output) -> Option<&'static str> {
    let says_why = || {
        let errors = String::from_utf8_lossy(&ours.stderr);
        // A check prints what it has found without its name.
        errors.starts_with("qemu-img") || errors.starts_with("ERROR: ")
    };
    if mode == "differs" {
        return None;
    }
    if theirs.status.code() != ours.status.code() {
        return Some("the exit code");
    }
    if !theirs.stderr.is_empty() && !theirs.status.success() && !says_why() {
        return Some("a message");
    }
    match mode {
        "code" => None,
        "text" => (text(theirs) != text(ours)).then_some("the text"),
        "json" => {
            let (theirs, ours) = (document(theirs), document(ours));
            (theirs.is_none() || theirs != ours).then_some("the document")
        }
        other => panic!("unknown mode {other}"),
    }
}

#[test]
fn a_table_of_calls_has_the_same_answers() {
    if require("qemu-img").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("qemu-img");
    symlink(DISKFS, &link).unwrap();
    let theirs = Caller::new("qemu-img".into(), &directory.path().join("theirs"));
    let ours = Caller::new(link, &directory.path().join("ours"));
    let mut calls = 0;
    let mut wrong = Vec::new();
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let Some(mode) = words.next() else {
            continue;
        };
        let words: Vec<&str> = words
            .map(|word| if word == "''" { "" } else { word })
            .collect();
        calls += 1;
        let (theirs, ours) = (theirs.call(&words), ours.call(&words));
        if let Some(what) = difference(mode, &theirs, &ours) {
            wrong.push(format!("{line}: {what}\n{theirs:?}\n{ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(calls >= 300, "{calls} calls");
}

/// Returns a little-endian number of 4 bytes.
fn number_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// The block map of a VDI, and the tables of a truncated VMDK and VHDX.
#[test]
fn checks_of_damaged_tables_have_the_same_answers() {
    if require("qemu-img").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("qemu-img");
    symlink(DISKFS, &link).unwrap();
    let dir = directory.path().join("images");
    let theirs = Caller::new("qemu-img".into(), &dir);
    let ours = Caller::new(link, &dir);
    for (name, format, options) in [
        ("a.vdi", "vdi", "static=off"),
        ("a.vmdk", "vmdk", "subformat=monolithicSparse"),
        ("a.vhdx", "vhdx", "block_size=1M"),
    ] {
        let words = ["convert", "-O", format, "-o", options, "seed.raw", name];
        assert!(theirs.call(&words).status.success());
    }
    let mut names = vec!["a.vdi".to_owned(), "a.vmdk".to_owned(), "a.vhdx".to_owned()];
    let vdi = fs::read(dir.join("a.vdi")).unwrap();
    let map = usize::try_from(number_at(&vdi, 0x154)).unwrap();
    let allocated = number_at(&vdi, 0x184);
    for (name, at, entry) in [
        ("same.vdi", map + 8, 0),
        ("far.vdi", map + 8, 1000),
        ("discarded.vdi", map + 8, 0xffff_fffe),
        ("more.vdi", map, allocated),
        ("count.vdi", 0x184, 99),
    ] {
        let mut bytes = vdi.clone();
        put(&mut bytes, at, entry);
        fs::write(dir.join(name), bytes).unwrap();
        names.push(name.to_owned());
    }
    for format in ["vdi", "vmdk", "vhdx"] {
        let whole = fs::read(dir.join(format!("a.{format}"))).unwrap();
        for cut in [500, 900_000, 1_500_000, 2_500_000] {
            let name = format!("cut{cut}.{format}");
            fs::write(dir.join(&name), &whole[..whole.len() - cut]).unwrap();
            names.push(name);
        }
    }
    let mut found = 0;
    for name in &names {
        for (mode, words) in [
            ("text", &["check"][..]),
            ("text", &["check", "-q"]),
            ("json", &["check", "--output=json"]),
            ("code", &["check", "-r", "leaks"]),
        ] {
            let words = [words, &[name]].concat();
            let (theirs, ours) = (theirs.call(&words), ours.call(&words));
            let is_cut = theirs.status.code() == Some(1);
            let mode = if is_cut { "code" } else { mode };
            let difference = difference(mode, &theirs, &ours);
            assert_eq!(
                difference, None,
                "{words:?}
{theirs:?}
{ours:?}"
            );
            found += usize::from(!theirs.status.success());
        }
        let check = Command::new(DISKFS)
            .args(["check", name])
            .current_dir(&dir)
            .output();
        let expected = theirs.call(&["check", name]).status.success();
        let is_sound = check.unwrap().status.code() != Some(5);
        assert!(expected || !is_sound, "{name}");
    }
    assert!(found > 20, "{found}");
}

/// Calls that are not offered say so, and change nothing.
#[test]
fn what_is_not_offered_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    for words in [
        &["convert", "--object", "secret,id=a", "a", "b"][..],
        &["convert", "a", "b", "c"],
    ] {
        let mut command = Command::new(DISKFS);
        let command = command.arg("qemu-img").args(words);
        let output = command.current_dir(directory.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.starts_with("qemu-img: "), "{errors}");
        assert!(errors.contains("not supported by diskfs"), "{errors}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
