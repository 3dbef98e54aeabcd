//! `diskfs uefi`, compared with virt-firmware.

use std::fs;
use std::path::Path;
use std::process::Command;

use diskfs_fixtures::require;
use serde_json::Value;

use crate::{Run, diskfs_in, text_of};

/// Makes a flash file that OVMF has written.
fn flash() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = "files/varstore/tests/stores/mixed.fd.zst";
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join(store);
    let bytes = zstd::decode_all(fs::File::open(store).unwrap()).unwrap();
    fs::write(dir.path().join("VARS.fd"), bytes).unwrap();
    dir
}

fn order(run: &Run) -> Vec<String> {
    let json = run.json();
    let order = json["boot_order"].as_array().unwrap().iter();
    order.map(|number| text_of(number).to_owned()).collect()
}

#[test]
fn the_boot_order_is_set_as_the_firmware_reads_it() {
    let dir = flash();
    let uefi = |words: &[&str]| diskfs_in(dir.path(), &[&["uefi", "--json"], words].concat());
    let before = order(&uefi(&["list", "VARS.fd"]));
    assert!(before.len() > 2, "{before:?}");
    let last = before.last().unwrap().clone();
    let after = order(&uefi(&["boot-order", "VARS.fd", &last]));
    let mut expected = vec![last.clone()];
    expected.extend(before.iter().filter(|number| **number != last).cloned());
    assert_eq!(after, expected);
    let next = uefi(&["boot-next", "VARS.fd", &before[0]]).json();
    assert_eq!(text_of(&next["boot_next"]), before[0]);
    let text = diskfs_in(dir.path(), &["uefi", "list", "VARS.fd"]).text();
    assert!(text.starts_with(&format!("Boot{last}  ")), "{text}");
    if require("virt-fw-vars").is_none() {
        return;
    }
    let json = dir.path().join("vars.json");
    let judge = Command::new("virt-fw-vars")
        .args(["-i", "VARS.fd", "--output-json"])
        .arg(&json)
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(judge.status.success(), "{judge:?}");
    let told: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let variables = told["variables"].as_array().unwrap();
    let data = |name: &str| {
        let variable = variables.iter().find(|it| it["name"] == name).unwrap();
        text_of(&variable["data"]).to_owned()
    };
    let little_endian =
        |number: &String| format!("{}{}", &number[2..], &number[..2]).to_lowercase();
    let expected: String = expected.iter().map(little_endian).collect();
    assert_eq!(data("BootOrder"), expected);
    assert_eq!(data("BootNext"), little_endian(&before[0]));
}

#[test]
fn what_is_not_there_is_told() {
    let dir = flash();
    let bytes = fs::read(dir.path().join("VARS.fd")).unwrap();
    let words = ["uefi", "boot-order", "VARS.fd", "UEFI Nothing"];
    let (code, stderr) = diskfs_in(dir.path(), &words).failure();
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("diskfs uefi list"), "{stderr}");
    fs::write(dir.path().join("none.fd"), [0; 4096]).unwrap();
    let (code, stderr) = diskfs_in(dir.path(), &["uefi", "list", "none.fd"]).failure();
    assert_ne!(code, 0, "{stderr}");
    assert!(fs::read(dir.path().join("VARS.fd")).unwrap() == bytes);
}
