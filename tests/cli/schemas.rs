//! The JSON output of every command conforms to `diskfs schema`, according to Python's
//! `jsonschema`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use diskfs_fixtures::{image, require, require_fuse};
use serde_json::{Value, json};

use crate::{DISKFS, diskfs_in};

/// Images with different results of `info`.
const IMAGES: &[&str] = &[
    "ext4-default",
    "fat32",
    "gpt-hybrid.raw",
    "guest.raw",
    "iso9660-rock-ridge.iso",
    "lvm-raid.raw",
    "lvm-thin.raw",
    "md.raw",
    "qcow2-luks.qcow2",
];

/// The command lines, in order. A word `:` ends the name of the schema if that is more than the
/// first word.
const RUNS: &[&str] = &[
    "info demo.qcow2",
    "info ext4-default",
    "info fat32",
    "info gpt-hybrid.raw",
    "info guest.raw",
    "info iso9660-rock-ridge.iso",
    "info lvm-raid.raw",
    "info lvm-thin.raw",
    "info md.raw",
    "info qcow2-luks.qcow2",
    "inspect demo.qcow2",
    "inspect --sources guest.img",
    "log guest.img",
    "log --list-boots guest.img",
    "df demo.qcow2 guest.img",
    "du -a demo.qcow2",
    "ls -la demo.qcow2:/",
    "ls -R demo.qcow2",
    "tree demo.qcow2",
    "find demo.qcow2",
    "stat demo.qcow2:/etc demo.qcow2:/etc/passwd",
    "stat --extents demo.qcow2:/etc/passwd",
    "stat ext4-default",
    "hash demo.qcow2",
    "hash ext4-default",
    "grep -n root demo.qcow2:/etc",
    "grep -c root demo.qcow2:/etc",
    "grep -l -C 1 root demo.qcow2:/etc",
    "diff demo.qcow2 guest.img",
    "diff demo.qcow2 changed.qcow2",
    "diff -u demo.qcow2 changed.qcow2",
    "deploy --list-steps",
    "deploy --list-operations",
    "deploy --describe network",
    "deploy guest.img --dry-run --hostname web1",
    "deploy guest.img --hostname web1",
    "deploy demo.qcow2 --root-password random",
    "deploy --fleet jobs.jsonl",
    "build --from-dir files --dry-run",
    "build --from-dir files -o built.qcow2",
    "build --describe",
    "build --describe partitions",
    "create new.qcow2 64M",
    "create new.raw 8M",
    "mkfs fat --label DATA --dry-run new.raw",
    "mkfs fat --label DATA new.raw",
    "create table.raw 8M",
    "partition create-table table.raw gpt",
    "partition add table.raw --dry-run",
    "partition add table.raw --size 1M --name first",
    "partition list table.raw --free",
    "partition grow table.raw 1",
    "seed nocloud --hostname web1 -o seed.iso",
    "seed configdrive -o config.iso",
    "partition delete table.raw 1",
    "create -b demo.qcow2 -F qcow2 top.qcow2",
    "amend -o lazy_refcounts=off top.qcow2",
    "bitmap add top.qcow2 monday",
    "bitmap list top.qcow2",
    "bitmap disable top.qcow2 monday",
    "bitmap enable top.qcow2 monday",
    "bitmap merge top.qcow2 monday monday",
    "bitmap clear top.qcow2 monday",
    "bitmap remove top.qcow2 monday",
    "bitmap checkpoint tuesday top.qcow2",
    "backup top.qcow2 -o full.qcow2",
    "backup top.qcow2 --since tuesday --backing full.qcow2 -o inc.qcow2",
    "bench -c 10 -d 2 top.qcow2",
    "bitmap remove top.qcow2 tuesday",
    "snapshot create top.qcow2 before",
    "snapshot list top.qcow2",
    "info top.qcow2",
    "snapshot apply top.qcow2 before",
    "snapshot delete top.qcow2 before",
    "rebase -b demo.qcow2 -F qcow2 top.qcow2",
    "commit top.qcow2",
    "cp demo.qcow2:/etc/passwd passwd",
    "create --encrypt file:passwd -o encrypt.iter-time=10 locked.qcow2 1M",
    "amend --key-remove file:passwd --key-add file:passwd -o encrypt.iter-time=10 locked.qcow2",
    "cp --dry-run passwd guest.img:/etc/passwd2",
    "cp passwd guest.img:/etc/passwd2",
    "tar -f etc.tar demo.qcow2:/etc",
    "tar demo.qcow2:/etc",
    "tar-in --dry-run -f etc.tar guest.img:/var",
    "tar-in -f etc.tar guest.img:/var",
    "write --dry-run guest.img:/etc/motd",
    "write guest.img:/etc/motd",
    "edit guest.img:/etc/motd",
    "mkdir --dry-run guest.img:/etc/new",
    "mkdir guest.img:/etc/new",
    "touch --dry-run guest.img:/etc/motd",
    "touch guest.img:/etc/motd",
    "chmod --dry-run 0600 guest.img:/etc/motd",
    "chmod 0600 guest.img:/etc/motd",
    "chown --dry-run 1:1 guest.img:/etc/motd",
    "chown 1:1 guest.img:/etc/motd",
    "truncate --dry-run -s 5 guest.img:/etc/motd",
    "truncate -s 5 guest.img:/etc/motd",
    "xattr set --dry-run user.x y guest.img:/etc/motd",
    "xattr set user.x y guest.img:/etc/motd",
    "xattr list guest.img:/etc/motd",
    "xattr get user.x guest.img:/etc/motd",
    "xattr remove user.x guest.img:/etc/motd",
    "ln --dry-run -s motd guest.img:/etc/link",
    "ln --dry-run guest.img:/etc/motd guest.img:/etc/hard",
    "ln -s motd guest.img:/etc/link",
    "mv --dry-run guest.img:/etc/link /etc/moved",
    "mv guest.img:/etc/link /etc/moved",
    "rm --dry-run guest.img:/etc/moved",
    "rm guest.img:/etc/moved",
    "check guest.img",
    "resize guest.img",
    "sparsify --dry-run guest.img",
    "sparsify guest.img",
    "convert -c guest.img guest-copy.qcow2",
    "compare guest.img guest-copy.qcow2",
    "compare guest.img demo.qcow2",
    "map guest-copy.qcow2",
    "measure -O qcow2 guest-copy.qcow2",
    "validate --policy kubevirt guest-copy.qcow2",
    "validate --policy kubevirt qcow2-luks.qcow2 iso9660-rock-ridge.iso fat32 top.qcow2",
    "oci build demo.qcow2 -o layout",
    "uefi list VARS.fd",
    "appliance show",
    "appliance path",
    "man pages",
    "schema",
    "wait demo.qcow2",
];

/// Commands that print no document, and commands that print one only with a microVM, with FUSE, with
/// a virtual machine or with a server.
const WITHOUT: &[&str] = &[
    "cat",
    "completions",
    "demo",
    "fetch",
    "hotplug",
    "import",
    "run",
    "serve",
    "shell",
];

fn run(directory: &Path, words: &[&str]) -> Output {
    Command::new(DISKFS)
        .args(words)
        .current_dir(directory)
        .env("DISKFS_VM", "none")
        .env("EDITOR", "true")
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

/// Makes the files that the runs name.
fn scene() -> Option<tempfile::TempDir> {
    let guest = crate::log::guest()?;
    let at = guest.path();
    for name in IMAGES {
        fs::copy(image(name).path(), at.join(name)).unwrap();
    }
    for name in ["demo.qcow2", "changed.qcow2"] {
        fs::copy(image("demo.qcow2").path(), at.join(name)).unwrap();
    }
    let words = ["write", "changed.qcow2:/etc/motd", "--mode", "0600"];
    assert!(run(at, &words).status.success());
    let store = "files/varstore/tests/stores/mixed.fd.zst";
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join(store);
    let bytes = zstd::decode_all(fs::File::open(store).unwrap()).unwrap();
    fs::write(at.join("VARS.fd"), bytes).unwrap();
    fs::create_dir(at.join("files")).unwrap();
    fs::write(at.join("files/file"), "contents").unwrap();
    let jobs = [
        json!({ "image": "guest.img", "plan": { "steps": [{ "hostname": "web2" }] } }),
        json!({ "image": "gone.img", "plan": { "steps": [{ "hostname": "web2" }] } }),
    ];
    let lines = jobs.map(|job| job.to_string());
    fs::write(at.join("jobs.jsonl"), lines.join("\n")).unwrap();
    Some(guest)
}

/// Documents by the name of their schema, with the command line that printed each.
type Documents = BTreeMap<String, Vec<(String, Value)>>;

/// Parses the documents in an output: one, or one per line.
fn documents(output: &[u8]) -> Vec<Value> {
    let stream = serde_json::Deserializer::from_slice(output).into_iter::<Value>();
    stream.map(|value| value.expect("JSON")).collect()
}

fn collect(directory: &Path, line: &str, found: &mut Documents) {
    let words: Vec<&str> = line.split(' ').collect();
    let told = run(directory, &[&words, &["--json"][..]].concat());
    // If the archive is on standard output, its document is on standard error.
    let is_stream = line.starts_with("tar ") && !line.contains("-f ");
    let output = if is_stream {
        &told.stderr
    } else {
        &told.stdout
    };
    let fails = line.contains("--fleet")
        || line.starts_with("diff ")
        || line.ends_with("fat32 top.qcow2")
        || line == "compare guest.img demo.qcow2";
    let stderr = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success() || fails, "{line}: {stderr}");
    let documents = documents(output);
    assert!(!documents.is_empty(), "{line} prints nothing: {stderr}");
    let of_command = found.entry(words[0].to_owned()).or_default();
    of_command.extend(
        documents
            .into_iter()
            .map(|document| (line.to_owned(), document)),
    );
}

/// Lists the violations of the schemas in the documents.
fn judge(directory: &Path, schemas: &BTreeMap<String, Value>, found: &Documents) -> String {
    const JUDGE: &str = "
import json, sys
from jsonschema import Draft202012Validator
schemas, found = json.load(open('schemas.json')), json.load(open('found.json'))
for schema in schemas.values():
    Draft202012Validator.check_schema(schema)
for name, documents in found.items():
    validator = Draft202012Validator(schemas[name])
    for line, document in documents:
        for error in list(validator.iter_errors(document))[:3]:
            about = list(error.context or [])[:6]
            print(line, error.json_path, error.message[:600], [e.json_path + ' ' + e.message[:200] for e in about])
";
    let write = |name: &str, value: Value| {
        fs::write(directory.join(name), value.to_string()).unwrap();
    };
    write("schemas.json", json!(schemas));
    write("found.json", json!(found));
    let judged = Command::new("python3")
        .args(["-c", JUDGE])
        .current_dir(directory)
        .output()
        .unwrap();
    String::from_utf8_lossy(&[judged.stdout, judged.stderr].concat()).into_owned()
}

fn schemas(directory: &Path) -> BTreeMap<String, Value> {
    let names = diskfs_in(directory, &["schema"]).text();
    let schema = |name: &str| {
        let text = diskfs_in(directory, &["schema", name]).text();
        (name.to_owned(), serde_json::from_str(&text).unwrap())
    };
    names.lines().map(schema).collect()
}

#[test]
fn what_every_command_prints_is_what_its_schema_says() {
    if require("jsonschema").and(require("python3")).is_none() {
        return;
    }
    let Some(scene) = scene() else { return };
    let at = scene.path();
    let mut found = Documents::new();
    // A program may be built without some of them.
    let help = diskfs_in(at, &["--help"]).text();
    let is_there = |name: &str| help.contains(&format!("\n  {name} "));
    for line in RUNS {
        if is_there(line.split(' ').next().unwrap_or_default()) {
            collect(at, line, &mut found);
        }
    }
    if require_fuse().is_some() {
        fs::create_dir(at.join("mnt")).unwrap();
        for line in [
            "mount --explain demo.qcow2",
            "mount demo.qcow2 mnt",
            "umount mnt",
        ] {
            collect(at, line, &mut found);
        }
    }
    #[cfg(feature = "export")]
    {
        let words = ["export", "demo.qcow2", "--vhost-user-blk", "socket"];
        found.insert("export".to_owned(), vec![served(at, &words)]);
    }
    #[cfg(feature = "browse")]
    {
        let words = ["browse", "--no-open", "demo.qcow2"];
        found.insert("browse".to_owned(), vec![served(at, &words)]);
    }
    let schemas = schemas(at);
    let missing: BTreeSet<&str> = schemas
        .keys()
        .map(String::as_str)
        .filter(|name| !found.contains_key(*name) && is_there(name))
        .collect();
    let fuse = ["mount", "umount"];
    let known = |name: &&&str| WITHOUT.contains(*name) || fuse.contains(*name);
    let unknown: Vec<_> = missing.iter().filter(|name| !known(name)).collect();
    assert!(
        unknown.is_empty(),
        "commands without a run in this test: {unknown:?}"
    );
    for line in [
        "ls gone.img",
        "cat demo.qcow2:/gone",
        "ls",
        "check demo.qcow2",
    ] {
        let words: Vec<&str> = line.split(' ').chain(["--json"]).collect();
        let told = documents(&run(at, &words).stderr);
        assert!(!told.is_empty(), "{line}");
        let of_error = found.entry("error".to_owned()).or_default();
        of_error.extend(told.into_iter().map(|document| (line.to_owned(), document)));
    }
    let wrong = judge(at, &schemas, &found);
    assert!(wrong.is_empty(), "{wrong}");
    // A key that no schema has is reported.
    for documents in found.values_mut() {
        documents.truncate(1);
        documents[0].1["unknown"] = 1.into();
    }
    found.remove("log");
    let wrong = judge(at, &schemas, &found);
    assert_eq!(wrong.lines().count(), found.len(), "{wrong}");
}

/// Returns the document of a server that is ended at once.
#[cfg(any(feature = "browse", feature = "export"))]
fn served(directory: &Path, words: &[&str]) -> (String, Value) {
    use std::io::Read as _;
    let mut server = Command::new(DISKFS)
        .args(words)
        .arg("--json")
        .current_dir(directory)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut text, mut document) = (Vec::new(), None);
    let mut out = server.stdout.take().unwrap();
    let mut byte = [0];
    while document.is_none() && out.read(&mut byte).unwrap() == 1 {
        text.extend_from_slice(&byte);
        document = serde_json::from_slice(&text).ok();
    }
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    server.wait().unwrap();
    (
        words.join(" "),
        document.expect("the server prints a document"),
    )
}

#[test]
fn usage_errors_are_json_too() {
    let directory = tempfile::tempdir().unwrap();
    for (words, command, message) in [
        (&["--json", "ls"][..], "ls", "required arguments"),
        (
            &["ls", "--json", "--frob", "x"],
            "ls",
            "unexpected argument '--frob'",
        ),
        (
            &["--json", "frobnicate"],
            "diskfs",
            "unrecognized subcommand 'frobnicate'",
        ),
        (&["--json"], "diskfs", "missing command"),
        (&["cp", "--json", "a"], "cp", "missing DEST"),
        (
            &["find", "--json", "x.img", "-nmae", "y"],
            "find",
            "`-nmae`",
        ),
        (
            &["schema", "--json", "frobnicate"],
            "schema",
            "`frobnicate`",
        ),
    ] {
        let (code, stderr) = diskfs_in(directory.path(), words).failure();
        let told: Value = serde_json::from_str(&stderr).expect(&stderr);
        assert_eq!(told["diskfs"]["command"], command, "{stderr}");
        assert_eq!(told["error"]["exit_code"], code, "{stderr}");
        assert!(told["error"]["hint"].is_string(), "{stderr}");
        let text = told["error"]["message"].as_str().unwrap();
        assert!(text.contains(message), "{stderr}");
    }
    // Help is text, not JSON.
    let help = diskfs_in(directory.path(), &["ls", "--json", "--help"]).text();
    assert!(help.contains("Usage: diskfs ls"), "{help}");
}
