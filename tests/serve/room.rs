//! Requests that find no space left on the host: the disk is as before, the error says so, and the
//! server goes on.

use std::path::Path;
use std::process::Command;

use diskfs_fixtures::{Tmpfs, require};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::guest::{check, debian};
use super::server::Server;
use super::{text, word};

/// Makes a sparse image of a guest.
fn make(image: &Path, format: &str) -> Option<()> {
    let directory = TempDir::new().unwrap();
    let raw = directory.path().join("raw");
    debian(&raw, "32M")?;
    let converted = Command::new("qemu-img")
        .args(["convert", "-f", "raw", "-O", format])
        .args([&raw, image])
        .status();
    assert!(converted.unwrap().success());
    Some(())
}

/// Returns true if the guest has the changes of [`request`], all of them. Also checks the image.
fn is_deployed(tmpfs: &Tmpfs, image: &Path) -> bool {
    let place = |path: &str| format!("{}:{path}", image.display());
    let hostname = text(tmpfs.path(), &["cat", &place("/etc/hostname")]);
    let files = text(tmpfs.path(), &["find", &place("/")]);
    let is_new = hostname.trim() == "after";
    assert_eq!(files.contains("/opt/large"), is_new, "{hostname} {files}");
    let raw = TempDir::new().unwrap();
    let raw = raw.path().join("raw");
    let converted = Command::new("qemu-img")
        .args(["convert", "-O", "raw"])
        .args([image, &*raw])
        .status();
    assert!(converted.unwrap().success());
    // The journal is replayed first, as by the guest's kernel.
    let replayed = diskfs_fixtures::command("e2fsck")
        .args(["-p"])
        .arg(&raw)
        .output();
    assert!(replayed.is_ok());
    check(&raw);
    is_new
}

fn request(image: &Path) -> Value {
    json!({
        "disk_info": { "path": image },
        "guest_desc": { "name": "after" },
        "deploy_info": { "is_init": true, "deploys": [
            { "path": "/opt/large", "content": "x".repeat(1 << 20) },
        ] },
    })
}

#[test]
fn a_full_host_leaves_the_disk_as_it_was() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let Some(tmpfs) = Tmpfs::new("16M") else {
        return;
    };
    if require("qemu-img").is_none() || require("e2fsck").is_none() {
        return;
    }
    for (format, free_kib, is_refused) in [
        ("raw", 64, true),
        ("raw", 900, true),
        ("raw", 3072, false),
        ("qcow2", 0, true),
        ("qcow2", 700, true),
    ] {
        let image = tmpfs.path().join("a.img");
        if make(&image, format).is_none() {
            return;
        }
        tmpfs.fill(free_kib << 10);
        let probe = json!({ "call": "apis.DeployAgent/ProbeImageInfo", "request": { "disk_info": { "path": &image } } });
        let deploy =
            json!({ "call": "apis.DeployAgent/DeployGuestFs", "request": request(&image) });
        let results = server.calls(&json!([deploy, probe]));
        let result = &results[0];
        let is_new = is_deployed(&tmpfs, &image);
        assert_eq!(is_new, !is_refused, "{format}, {free_kib} KiB: {result}");
        if is_refused {
            assert_eq!(result["code"], "RESOURCE_EXHAUSTED", "{result}");
            let message = word(result, "message");
            assert!(message.contains("no space left on the host"), "{message}");
            assert!(message.contains("nothing was changed"), "{message}");
        } else {
            assert_eq!(result["code"], "OK", "{result}");
        }
        assert_eq!(word(&results[1]["answer"], "os_type"), "Linux");
        tmpfs.free();
    }
    // With space, the same request succeeds.
    let image = tmpfs.path().join("a.img");
    server.answer("DeployGuestFs", &request(&image));
    assert!(is_deployed(&tmpfs, &image));
}
