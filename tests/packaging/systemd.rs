//! The units: systemd accepts them.

use std::fs;
use std::process::{Command, Output};

use diskfs_fixtures::require;

use crate::packaging;

fn verify(edit: impl Fn(String) -> String) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let units = ["diskfs-deploy.service", "diskfs-deploy.socket"];
    for unit in units {
        let text = fs::read_to_string(packaging("systemd").join(unit)).unwrap();
        let text = text.replace("/usr/bin/diskfs", env!("CARGO_BIN_EXE_diskfs"));
        fs::write(directory.path().join(unit), edit(text)).unwrap();
    }
    let mut verify = Command::new("systemd-analyze");
    let verify = verify.args(["verify", "--man=no", "--recursive-errors=no"]);
    verify
        .args(units.map(|unit| directory.path().join(unit)))
        .output()
        .unwrap()
}

#[test]
fn systemd_accepts_the_units() {
    if require("systemd-analyze").is_none() {
        return;
    }
    let told = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let output = verify(|text| text);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(told(&output), "");
    let wrong = verify(|text| text.replace("ProtectSystem", "ProtectSystems"));
    assert!(told(&wrong).contains("ProtectSystems"), "{wrong:?}");
}
