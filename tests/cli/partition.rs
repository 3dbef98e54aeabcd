//! partition: changes of tables, checked with sfdisk and sgdisk, and what is refused.

use std::fs;
use std::path::Path;

use diskfs_fixtures::{image, require};
use serde_json::Value;

use crate::{Run, diskfs, diskfs_in, text_of};

/// Runs a program on the disk, and returns its output.
fn judge(directory: &Path, program: &str, words: &[&str]) -> String {
    let mut command = diskfs_fixtures::command(program);
    let output = command.args(words).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the table as sfdisk reads it.
fn sfdisk(directory: &Path) -> Value {
    let json = judge(directory, "sfdisk", &["--json", "disk.raw"]);
    serde_json::from_str::<Value>(&json).unwrap()["partitiontable"].clone()
}

const GUID: &str = "11111111-2222-4333-8444-000000000001";

#[test]
fn a_gpt_is_made_and_grows_with_its_image() {
    if require("sfdisk").is_none() || require("sgdisk").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let run = |words: &str| -> Run {
        let words: Vec<&str> = words.split(' ').collect();
        diskfs_in(directory, &words)
    };
    run("create disk.raw 32M").bytes();
    assert_eq!(
        run("partition list disk.raw").text(),
        "no partition table\n"
    );
    let made = run(&format!("partition create-table disk.raw gpt --id {GUID}"));
    assert_eq!(made.text(), "");
    let added = run("partition add disk.raw --type esp --size 4M --name ESP --flag required");
    assert_eq!(
        added.text(),
        "partition 1: 4 MiB at 1 MiB, EFI System, name ESP\n"
    );
    run("partition add disk.raw -t root-x86-64").bytes();
    assert!(judge(directory, "sgdisk", &["--verify", "disk.raw"]).contains("No problems"));
    let table = sfdisk(directory);
    assert_eq!(text_of(&table["id"]).to_lowercase(), GUID);
    assert_eq!(table["partitions"][0]["attrs"], "RequiredPartition");
    assert_eq!(table["partitions"][1]["start"], 10240);

    // The image is enlarged, and the last partition with it.
    let file = fs::OpenOptions::new()
        .write(true)
        .open(directory.join("disk.raw"));
    file.unwrap().set_len(64 << 20).unwrap();
    let listed = diskfs_in(directory, &["partition", "list", "disk.raw"]);
    assert!(
        listed.stderr().contains("diskfs partition move-backup"),
        "{}",
        listed.stderr()
    );
    let grown = run("partition grow disk.raw 2").text();
    assert!(
        grown.starts_with("partition 2: 58.98 MiB at 5 MiB"),
        "{grown}"
    );
    assert!(judge(directory, "sgdisk", &["--verify", "disk.raw"]).contains("No problems"));
    assert_eq!(
        sfdisk(directory)["partitions"][1]["size"],
        131_072 - 33 - 10240
    );
    let again = run("partition grow disk.raw 2").text();
    assert_eq!(
        again,
        "nothing to change: the partition table is as requested\n"
    );

    let uuid = GUID.replace("001", "00a");
    run(&format!("partition set-uuid disk.raw p2 {uuid}")).bytes();
    run("partition set-name disk.raw 2 system").bytes();
    run("partition set-type disk.raw 2 0FC63DAF-8483-4772-8E79-3D69D8477DE4").bytes();
    run("partition set-flags disk.raw 2 no-auto 48 legacy-boot=off").bytes();
    let shown = run("partition list disk.raw --free").text();
    let expected = format!(
        "gpt, disk {GUID}, sectors of 512 bytes
NUMBER   START       SIZE  TYPE              NAME    FLAGS       UUID
        17 KiB   1007 KiB  free
"
    );
    assert!(shown.starts_with(&expected), "{shown}");
    let last = format!("     2   5 MiB  58.98 MiB  Linux filesystem  system  48,no-auto  {uuid}\n");
    assert!(shown.ends_with(&last), "{shown}");
    run("partition delete disk.raw 1").bytes();
    assert_eq!(sfdisk(directory)["partitions"].as_array().unwrap().len(), 1);
    run("partition set-uuid disk.raw disk").bytes();
    assert_ne!(text_of(&sfdisk(directory)["id"]).to_lowercase(), GUID);
}

#[test]
fn an_mbr_with_logical_partitions() {
    if require("sfdisk").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let run = |words: &str| -> Run {
        let words: Vec<&str> = words.split(' ').collect();
        diskfs_in(directory, &words)
    };
    run("create disk.raw 32M").bytes();
    run("partition create-table disk.raw mbr --id 1234abcd").bytes();
    run("partition add disk.raw --size 4M --flag active").bytes();
    run("partition add disk.raw --size 8M --type extended").bytes();
    let added = run("partition add disk.raw --size 3M --type 0x82 --role logical").text();
    assert_eq!(added, "partition 5: 3 MiB at 6 MiB, Linux swap / Solaris\n");
    // The extended partition grows with it.
    run("partition grow disk.raw 5 12M").bytes();
    let table = sfdisk(directory);
    assert_eq!(table["id"], "0x1234abcd");
    let sizes: Vec<u64> = table["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["size"].as_u64().unwrap() / 2048)
        .collect();
    assert_eq!(sizes, [4, 13, 12]);
    let json = run("partition list disk.raw --free --json").json();
    let table = &json["partition_table"];
    assert_eq!(table["partitions"][0]["flags"][0], "active");
    assert_eq!(table["partitions"][2]["size_bytes"], 12 << 20);
    let (code, error) = run("partition set-name disk.raw 1 x").failure();
    assert_eq!(
        (code, error.contains("have no names")),
        (2, true),
        "{error}"
    );
    let (code, error) = run("partition delete disk.raw 2").failure();
    assert_eq!((code, error.contains("logical")), (2, true), "{error}");
    let (code, error) = run("partition delete disk.raw 3").failure();
    assert_eq!(
        (code, error.contains("the partitions are 1, 2, 5")),
        (3, true),
        "{error}"
    );
}

#[test]
fn a_dry_run_and_an_overlay_leave_the_image_as_it_is() {
    let demo = image("demo.qcow2");
    let before = fs::read(demo.path()).unwrap();
    let json = diskfs(&demo, &["partition", "list", "demo.qcow2", "--json"]).json();
    let number = json["partition_table"]["partitions"][0]["number"].to_string();
    let words = ["partition", "delete", "demo.qcow2", &number, "--dry-run"];
    let text = diskfs(&demo, &words).text();
    assert!(
        text.ends_with(" bytes of the disk would change\n"),
        "{text}"
    );
    let json = diskfs(&demo, &[&words[..], &["--json"]].concat()).json();
    assert_eq!(
        (&json["dry_run"], &json["changed"]),
        (&true.into(), &true.into())
    );
    let words = [
        "partition",
        "delete",
        "demo.qcow2",
        &number,
        "--overlay",
        "o.qcow2",
    ];
    let json = diskfs(&demo, &[&words[..], &["--json"]].concat()).json();
    let left = json["partition_table"]["partitions"]
        .as_array()
        .unwrap()
        .len();
    let listed = diskfs(&demo, &["partition", "list", "o.qcow2", "--json"]).json();
    assert_eq!(
        listed["partition_table"]["partitions"]
            .as_array()
            .unwrap()
            .len(),
        left
    );
    assert_eq!(fs::read(demo.path()).unwrap(), before);
}

#[test]
fn what_would_be_lost_is_kept_unless_forced() {
    let demo = image("demo.qcow2");
    let before = fs::read(demo.path()).unwrap();
    for (words, code, part) in [
        (&["create-table", "demo.qcow2", "gpt"][..], 1, "--force"),
        (&["add", "demo.qcow2", "--size", "0"], 2, "size 0"),
        (
            &["add", "demo.qcow2", "--type", "xfs"],
            2,
            "unknown partition type",
        ),
        (&["add", "demo.qcow2", "--size", "900G"], 1, "list --free"),
        (&["grow", "demo.qcow2", "1", "1k"], 2, "more than"),
        (&["grow", "demo.qcow2", "77"], 3, "no partition 77"),
        (&["set-uuid", "demo.qcow2", "1", "x"], 2, "invalid GUID"),
        (&["delete", "demo.qcow2:/etc", "1"], 2, "not a path"),
        (&["list", "missing.img"], 3, "missing.img"),
    ] {
        let run = diskfs(&demo, &[&["partition"], words].concat());
        let (found, error) = run.failure();
        assert!(
            found == code && error.contains(part),
            "{words:?} {found}: {error}"
        );
    }
    // A new overlay of a failed command is removed.
    let words = [
        "partition",
        "delete",
        "demo.qcow2",
        "77",
        "--overlay",
        "o.qcow2",
    ];
    diskfs(&demo, &words).failure();
    assert!(!demo.directory().join("o.qcow2").exists());
    assert_eq!(fs::read(demo.path()).unwrap(), before);
}

#[test]
fn a_broken_copy_is_repaired() {
    if require("sgdisk").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let run = |words: &[&str]| diskfs_in(directory, words);
    run(&["create", "disk.raw", "8M"]).bytes();
    run(&["partition", "create-table", "disk.raw", "gpt"]).bytes();
    run(&["partition", "add", "disk.raw"]).bytes();
    let path = directory.join("disk.raw");
    let mut bytes = fs::read(&path).unwrap();
    bytes[512] = 0;
    fs::write(&path, bytes).unwrap();
    let listed = run(&["partition", "list", "disk.raw"]);
    assert!(
        listed.stderr().contains("the backup at LBA"),
        "{}",
        listed.stderr()
    );
    run(&["partition", "repair", "disk.raw"]).bytes();
    assert!(judge(directory, "sgdisk", &["--verify", "disk.raw"]).contains("No problems"));
}

#[test]
fn an_mbr_refuses_uuids_of_partitions() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let run = |words: &[&str]| diskfs_in(directory, words);
    run(&["create", "disk.raw", "8M"]).bytes();
    run(&["partition", "create-table", "disk.raw", "mbr"]).bytes();
    let before = fs::read(directory.join("disk.raw")).unwrap();
    let uuid = "11111111-2222-3333-4444-555555555555";
    let refused = run(&["partition", "add", "disk.raw", "--uuid", uuid]);
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr());
    assert!(refused.stderr().contains("--uuid"), "{}", refused.stderr());
    assert!(fs::read(directory.join("disk.raw")).unwrap() == before);
}
