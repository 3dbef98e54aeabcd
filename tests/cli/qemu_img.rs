//! The command line of qemu-img: a table of calls that qemu-img and diskfs answer alike, in the
//! ways in which clouds and virtual-machine managers call it.

mod encrypted;

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
        let starts = ["qemu-img", "ERROR: ", "Leaked cluster: "];
        starts.iter().any(|start| errors.starts_with(start))
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

/// Changes of a file: the name of the damaged copy, and what is put where.
type Damage = (&'static str, &'static [(usize, u32)]);

/// Damages of a VDI of which the block map is at this byte, and that has so many blocks.
fn write_damaged_vdis(dir: &Path) -> Vec<String> {
    let vdi = fs::read(dir.join("a.vdi")).unwrap();
    let map = usize::try_from(number_at(&vdi, 0x154)).unwrap();
    let allocated = number_at(&vdi, 0x184);
    let damages = [
        ("same", map + 8, 0),
        ("far", map + 8, 1000),
        ("discarded", map + 8, 0xffff_fffe),
        ("more", map, allocated),
        ("count", 0x184, 99),
    ];
    let write = |(name, at, entry): (&str, usize, u32)| {
        let mut bytes = vdi.clone();
        put(&mut bytes, at, entry);
        let name = format!("{name}.vdi");
        fs::write(dir.join(&name), bytes).unwrap();
        name
    };
    damages.map(write).into()
}

/// Writes damaged copies of an image, and one with space at its end.
fn write_damaged(dir: &Path, format: &str, damages: &[Damage]) -> Vec<String> {
    let image = fs::read(dir.join(format!("a.{format}"))).unwrap();
    let mut names = Vec::new();
    let mut write = |name: &str, bytes: &[u8]| {
        let name = format!("{name}.{format}");
        fs::write(dir.join(&name), bytes).unwrap();
        names.push(name);
    };
    for (name, changes) in damages {
        let mut bytes = image.clone();
        for (at, number) in *changes {
            put(&mut bytes, *at, *number);
        }
        write(name, &bytes);
    }
    write("long", &[&image[..], &vec![0; 1_600_000]].concat());
    names
}

/// The header is one cluster, the L1 table the four after it, and the first L2 table the next four.
const QED_DAMAGES: [Damage; 9] = [
    ("needs-check", &[(16, 2)]),
    ("l1-unaligned", &[(0x1_0000, 0x5_1000)]),
    ("l1-far", &[(0x1_0008, 0x7fff_0000)]),
    ("l1-header", &[(0x1_0000, 0x1_0000)]),
    ("l1-same", &[(0x1_0008, 0x5_0000)]),
    ("l2-same", &[(0x5_0080, 0xa_0000), (0x5_0088, 0xa_0000)]),
    ("l2-unaligned", &[(0x5_0080, 0xa_0200)]),
    ("l2-far", &[(0x5_0084, 1), (0x5_0090, 0x6fff_0000)]),
    ("l2-header", &[(0x5_0080, 0x2_0000), (0x5_0098, 1)]),
];

/// The table begins at byte 64, and the data at 1 MiB.
const PARALLELS_DAMAGES: [Damage; 8] = [
    ("in-use", &[(44, 0x746f_6e59)]),
    ("no-start", &[(48, 0)]),
    ("far-start", &[(48, 1 << 30)]),
    ("late-start", &[(48, 4096)]),
    ("same", &[(64, 2)]),
    ("far", &[(68, 1000), (72, 1001)]),
    (
        "free",
        &[(68, 0), (72, 0), (76, 0), (80, 0), (100, 0), (188, 0)],
    ),
    ("small", &[(36, 100)]),
];

/// The tables of other formats than qcow2.
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
    let mut names = Vec::new();
    for (format, options) in [
        ("vdi", "static=off"),
        ("vmdk", "subformat=monolithicSparse"),
        ("vhdx", "block_size=1M"),
        ("qed", "cluster_size=64k"),
        ("parallels", "cluster_size=1M"),
    ] {
        let name = format!("a.{format}");
        let words = ["convert", "-O", format, "-o", options, "seed.raw", &name];
        assert!(theirs.call(&words).status.success());
        let whole = fs::read(dir.join(&name)).unwrap();
        names.push(name);
        for cut in [500, 900_000, 1_500_000, 2_500_000] {
            let name = format!("cut{cut}.{format}");
            fs::write(dir.join(&name), &whole[..whole.len() - cut]).unwrap();
            names.push(name);
        }
    }
    names.extend(write_damaged_vdis(&dir));
    names.extend(write_damaged(&dir, "qed", &QED_DAMAGES));
    names.extend(write_damaged(&dir, "parallels", &PARALLELS_DAMAGES));
    let mut found = 0;
    for name in &names {
        let code = theirs.call(&["check", name]).status.code();
        for (mode, words) in [
            ("text", &["check"][..]),
            ("text", &["check", "-q"]),
            ("json", &["check", "--output=json"]),
            ("code", &["check", "-r", "leaks"]),
        ] {
            let is_repaired = ["qed", "parallels"].contains(&name.rsplit('.').next().unwrap());
            if words.contains(&"-r") && is_repaired && code != Some(0) {
                continue; // Diskfs repairs only qcow2 images.
            }
            let words = [words, &[name]].concat();
            let (theirs, ours) = (theirs.call(&words), ours.call(&words));
            if theirs.status.code().is_none() {
                // An assertion of qemu-img 10.0 fails on clusters past the end of the file.
                assert_eq!(ours.status.code(), Some(2), "{words:?} {ours:?}");
                continue;
            }
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
        // Leaks are no damage.
        let expected = matches!(code, Some(0 | 3));
        let is_sound = check.unwrap().status.code() != Some(5);
        assert!(expected || !is_sound, "{name}");
    }
    assert!(found > 60, "{found}");
}

/// A server of NBD, which ends with this value.
struct Server(std::process::Child);

impl Server {
    fn start(dir: &Path, words: &[&str], socket: &str) -> Self {
        let mut command = Command::new("qemu-nbd");
        let command = command.args(["-t", "-e", "5"]).args(words);
        let child = command.current_dir(dir).spawn().unwrap();
        for _ in 0..500 {
            if std::os::unix::net::UnixStream::connect(dir.join(socket)).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Names of exports, and images in them, in the ways in which QEMU spells them.
#[test]
fn images_on_other_machines_have_the_same_answers() {
    if require("qemu-img").is_none() || require("qemu-nbd").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("qemu-img");
    symlink(DISKFS, &link).unwrap();
    let dir = directory.path().join("images");
    let theirs = Caller::new("qemu-img".into(), &dir);
    let ours = Caller::new(link, &dir);
    let make = ["convert", "-O", "qcow2", "seed.raw", "a.qcow2"];
    assert!(theirs.call(&make).status.success());
    let target = fs::File::create(dir.join("target.raw")).unwrap();
    target.set_len(32 << 20).unwrap();
    let at = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let socket = |name: &str| ["-k".to_owned(), at(name), "-f".to_owned(), "raw".to_owned()];
    let start = |name: &str, words: &[&str]| {
        let socket = socket(name);
        let words = [&socket.each_ref().map(String::as_str)[..], words].concat();
        Server::start(&dir, &words, name)
    };
    let _servers = [
        start("raw.sock", &["-r", "-x", "exp/ort", "seed.raw"]),
        start("qcow2.sock", &["-r", "a.qcow2"]),
        start("target.sock", &["target.raw"]),
    ];
    let (raw, qcow2) = (at("raw.sock"), at("qcow2.sock"));
    let images = [
        format!("nbd+unix:///exp/ort?socket={raw}"),
        format!("nbd:unix:{raw}:exportname=exp/ort"),
        format!("nbd:unix:{qcow2}"),
        format!("nbd+unix://?socket={qcow2}"),
        format!(
            r#"json:{{"driver":"qcow2","file":{{"driver":"nbd","server":{{"type":"unix","path":"{qcow2}"}}}}}}"#
        ),
        format!(r#"json:{{"file.driver":"nbd","file.path":"{raw}","file.export":"exp/ort"}}"#),
        r#"json:{"driver":"qcow2","file":{"driver":"file","filename":"a.qcow2"}}"#.to_owned(),
        r#"json:{"file.filename":"a.qcow2"}"#.to_owned(),
    ];
    let lists = [
        format!("driver=qcow2,file.driver=nbd,file.server.type=unix,file.server.path={qcow2}"),
        format!("driver=raw,file.driver=nbd,file.path={raw},file.export=exp/ort"),
        "driver=qcow2,file.driver=file,file.filename=a.qcow2".to_owned(),
        "driver=qcow2,file.filename=seed.raw".to_owned(),
    ];
    let wrong = [
        format!("nbd:unix:{raw}:exportname=other"),
        "nbd:unix:/missing".to_owned(),
        "nbd:host".to_owned(),
        "json:{".to_owned(),
        "json:[1]".to_owned(),
        r#"json:{"driver":"qcow2","file":"node"}"#.to_owned(),
        r#"json:{"driver":"free","filename":"a.qcow2"}"#.to_owned(),
        r#"json:{"driver":"qcow2","file":{"driver":"file","path":"a.qcow2"}}"#.to_owned(),
    ];
    let names = images.iter().chain(&wrong).map(|name| (name, &[][..]));
    let lists = lists.iter().map(|list| (list, &["--image-opts"][..]));
    for (name, flags) in names.chain(lists) {
        for (mode, words) in [
            ("text", &["info"][..]),
            ("json", &["info", "--output=json"]),
            ("json", &["map", "--output=json"]),
            ("json", &["measure", "-O", "qcow2", "--output=json"]),
            ("text", &["check"]),
        ] {
            let words = [words, flags, &[name]].concat();
            let (theirs, ours) = (theirs.call(&words), ours.call(&words));
            let mode = if theirs.status.success() {
                mode
            } else {
                "code"
            };
            let difference = difference(mode, &theirs, &ours);
            assert_eq!(difference, None, "{words:?}\n{theirs:?}\n{ours:?}");
        }
    }
    for name in &images {
        for words in [
            &["compare", name, "seed.raw"][..],
            &["convert", "-O", "qcow2", name, "new.qcow2"],
            &["compare", "new.qcow2", "seed.raw"],
            &["dd", "-O", "raw", &format!("if={name}"), "of=new.raw"],
            &["compare", "-f", "raw", "new.raw", "seed.raw"],
        ] {
            let output = ours.call(words);
            assert!(output.status.success(), "{words:?}\n{output:?}");
        }
    }
    let target = format!("nbd:unix:{}", at("target.sock"));
    for words in [
        &["convert", "-n", "-O", "raw", "a.qcow2", &target][..],
        &["compare", "-f", "raw", &target, "seed.raw"],
    ] {
        let output = ours.call(words);
        assert!(output.status.success(), "{words:?}\n{output:?}");
    }
    assert!(fs::read(dir.join("target.raw")).unwrap() == fs::read(dir.join("seed.raw")).unwrap());
    let refused = ours.call(&["convert", "-O", "qcow2", "seed.raw", &target]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

/// Calls that are not offered say so, and change nothing.
#[test]
fn what_is_not_offered_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    for words in [
        &["convert", "a", "b", "c"][..],
        &["info", "--object", "secret,id=a,data=x,keyid=b", "a"],
        &["info", "--object", "tls-creds-x509,id=a,dir=x", "a"],
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
