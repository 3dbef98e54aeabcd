//! Many requests at once: for different disks, and for one.

use std::process::Command;

use diskfs_fixtures::require;
use serde_json::{Value, json};

use super::guest::{check, debian, debian_on_lvm};
use super::server::Server;
use super::{text, word};

/// The number of clones; a hundred with `DISKFS_CLONES=100`.
fn clones() -> usize {
    let number = std::env::var("DISKFS_CLONES").ok();
    number.and_then(|number| number.parse().ok()).unwrap_or(20)
}

#[test]
fn clones_are_deployed_side_by_side() {
    let Some(server) = Server::start(&["--concurrency", "16"]) else {
        return;
    };
    if require("qemu-img").is_none() {
        return;
    }
    debian_on_lvm(&server.path("base.img"));
    let mut calls = Vec::new();
    for number in 0..clones() {
        let name = format!("clone{number}.qcow2");
        let made = Command::new("qemu-img")
            .args([
                "create", "-q", "-f", "qcow2", "-F", "raw", "-b", "base.img", &name,
            ])
            .current_dir(server.directory().path())
            .status();
        assert!(made.unwrap().success());
        let nic = json!({ "mac": format!("00:24:c7:16:80:{number:02x}"), "ip": format!("10.0.0.{}", number + 1),
            "masklen": 24, "gateway": "10.0.0.254", "manual": true, "mtu": 1442, "dns": "8.8.8.8" });
        calls.push(json!({ "threads": 64, "call": "apis.DeployAgent/DeployGuestFs", "request": {
            "disk_info": server.image(&name),
            "guest_desc": { "name": format!("clone{number}"), "uuid": "u", "nics": [nic] },
            "deploy_info": { "is_init": true, "password": format!("p{number}"), "default_root_user": true },
        }}));
    }
    for result in server.calls(&Value::Array(calls)) {
        assert_eq!(result["code"], "OK", "{result}\n{}", server.log());
        assert_eq!(word(&result["answer"], "account"), "root");
    }
    for number in 0..clones() {
        let hostname = format!("clone{number}.qcow2:/etc/hostname");
        let hostname = text(server.directory().path(), &["cat", &hostname]);
        assert_eq!(hostname.trim(), format!("clone{number}"));
        let check = Command::new("qemu-img")
            .args(["check", "-q", &format!("clone{number}.qcow2")])
            .current_dir(server.directory().path())
            .status();
        assert!(check.unwrap().success());
    }
}

#[test]
fn requests_for_one_disk_wait_for_each_other() {
    let Some(server) = Server::start(&["--concurrency", "16"]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let call = |number: usize| {
        json!({ "threads": 16, "call": "apis.DeployAgent/DeployGuestFs", "request": {
            "disk_info": server.image("a.img"),
            "guest_desc": { "name": format!("name{number}") },
            "deploy_info": { "is_init": true, "deploys": [{ "path": format!("/opt/{number}"), "content": "x" }] },
        }})
    };
    let probe = json!({ "call": "apis.DeployAgent/ProbeImageInfo", "request": { "disk_info": server.image("a.img") } });
    let mut calls: Vec<Value> = (0..12).map(call).collect();
    calls.extend(std::iter::repeat_n(probe, 12));
    for result in server.calls(&Value::Array(calls)) {
        assert_eq!(result["code"], "OK", "{result}");
    }
    let files = text(server.directory().path(), &["ls", "a.img:/opt"]);
    let numbers = files
        .split_whitespace()
        .filter(|name| name.parse::<u32>().is_ok());
    assert_eq!(numbers.count(), 12, "{files}");
    check(&server.path("a.img"));
}
