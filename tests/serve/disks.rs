//! diskfs's own service.

use std::fs;

use serde_json::{Value, json};

use super::guest::{check, debian};
use super::server::Server;
use super::{text, word};

const PLAN: &str = "steps: [{hostname: web1}, {write: {path: /etc/motd, text: hi}}, \
                    {user: {name: ann, password: {random: true}}}]";

#[test]
fn plans_are_applied_once_for_each_key() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let deploy = |key: &str, dry_run: bool| {
        let request = json!({ "disk": server.image("a.img"), "plan": PLAN, "idempotency_key": key, "dry_run": dry_run });
        server.call("diskfs.v1.Disks/Deploy", &request)
    };
    let before = fs::read(server.path("a.img")).unwrap();
    let dry = deploy("", true);
    let last =
        |result: &Value| result["answer"].as_array().unwrap().last().unwrap()["result"].clone();
    assert!(!word(&last(&dry), "diff").is_empty(), "{dry}");
    assert!(before == fs::read(server.path("a.img")).unwrap());

    let first = deploy("k1", false);
    assert_eq!(first["code"], "OK", "{first}");
    let steps: Vec<&str> = first["answer"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| word(&it["progress"], "step"))
        .collect();
    for step in ["open", "prepare", "write"] {
        assert!(steps.contains(&step), "{steps:?}");
    }
    let secret = &last(&first)["steps"][2]["secrets"][0];
    assert_eq!(word(secret, "of"), "ann");
    assert_eq!(
        text(server.directory().path(), &["cat", "a.img:/etc/hostname"]).trim(),
        "web1"
    );
    // The repeated request has the same answer, with the same generated password.
    let after = fs::read(server.path("a.img")).unwrap();
    assert_eq!(last(&deploy("k1", false)), last(&first));
    assert!(after == fs::read(server.path("a.img")).unwrap());
    let other = deploy("k1", true);
    assert_eq!(other["code"], "INVALID_ARGUMENT", "{other}");
    check(&server.path("a.img"));
}

#[test]
fn plans_read_no_files_of_the_host() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    for step in [
        "upload: {from: /etc/shadow, to: /tmp}",
        "copy-in: {from: /etc, to: /tmp}",
        "tar: {from: /x.tar, to: /}",
        "root-password: {file: /etc/shadow}",
        "firstboot: {file: /etc/shadow}",
    ] {
        let request =
            json!({ "disk": server.image("a.img"), "plan": format!("steps: [{{{step}}}]") });
        let result = server.call("diskfs.v1.Disks/Deploy", &request);
        assert_eq!(result["code"], "INVALID_ARGUMENT", "{step}: {result}");
        assert!(
            word(&result, "message").contains("file of the host"),
            "{result}"
        );
    }
}

#[test]
fn guests_and_files_are_read() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "48M").is_none() {
        return;
    }
    let report = server.call(
        "diskfs.v1.Disks/Inspect",
        &json!({ "disk": server.image("a.img") }),
    );
    let report: Value = serde_json::from_str(word(&report["answer"], "report_json")).unwrap();
    assert_eq!(report["distribution"], "debian");
    let list = json!({ "disk": server.image("a.img"), "path": "/etc" });
    let files = server.call("diskfs.v1.Disks/ListFiles", &list);
    let files = files["answer"]["files"].as_array().unwrap();
    // Names are bytes, which JSON has in base64: `passwd`.
    let passwd = files
        .iter()
        .find(|file| word(file, "name") == "cGFzc3dk")
        .unwrap();
    assert_eq!(word(passwd, "type"), "FILE_TYPE_REGULAR");

    fs::write(server.path("large"), "0123456789".repeat(300_000)).unwrap();
    text(
        server.directory().path(),
        &["cp", "large", "a.img:/opt-large"],
    );
    let mut read = json!({ "disk": server.image("a.img"), "path": "/opt-large", "offset": 5, "limit": 2_500_000 });
    let pieces = server.call("diskfs.v1.Disks/ReadFile", &read);
    let len: usize = pieces["answer"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| word(it, "data").len() / 4 * 3)
        .sum();
    assert!((2_500_000..2_500_010).contains(&len), "{len}");
    read["path"] = "/none".into();
    assert_eq!(
        server.call("diskfs.v1.Disks/ReadFile", &read)["code"],
        "NOT_FOUND"
    );
}
