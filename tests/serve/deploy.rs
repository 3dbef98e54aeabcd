//! The other methods of the host-deployer's service.

use std::fs;
use std::process::Command;

use diskfs_fixtures::{command, image, require};
use serde_json::json;

use super::guest::{check, debian};
use super::server::Server;
use super::{text, word};

#[test]
fn an_image_is_probed_without_a_write() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let before = fs::read(server.path("a.img")).unwrap();
    let answer = server.answer(
        "ProbeImageInfo",
        &json!({ "disk_info": server.image("a.img") }),
    );
    let expected = json!({
        "os_info": { "distro": "Debian", "version": "12.15", "arch": "x86_64" },
        "os_type": "Linux",
    });
    assert_eq!(answer, expected);
    // On a partition table, with an ESP and LVM.
    let guest = image("guest.raw");
    let answer = server.answer(
        "ProbeImageInfo",
        &json!({ "disk_info": { "path": guest.path() } }),
    );
    assert_eq!(word(&answer, "physical_partition_type"), "gpt", "{answer}");
    assert!(before == fs::read(server.path("a.img")).unwrap());
    fs::write(server.path("blank.img"), vec![0; 1 << 20]).unwrap();
    let blank = json!({ "disk_info": server.image("blank.img") });
    assert_eq!(server.answer("ProbeImageInfo", &blank), json!({}));
}

#[test]
fn a_disk_without_a_system_is_a_success_at_first() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    fs::write(server.path("blank.img"), vec![0; 1 << 20]).unwrap();
    let mut request = json!({
        "disk_info": server.image("blank.img"),
        "guest_desc": { "name": "a" },
        "deploy_info": { "is_init": true },
    });
    assert_eq!(server.answer("DeployGuestFs", &request), json!({}));
    request["deploy_info"] = json!({});
    let result = server.call("apis.DeployAgent/DeployGuestFs", &request);
    assert_eq!(result["code"], "NOT_FOUND", "{result}");
    assert!(
        word(&result, "message").contains("no operating system"),
        "{result}"
    );
}

#[test]
fn disks_are_formatted_and_grown() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let uuid = "aaaabbbb-1111-2222-3333-444455556666";
    for (kind, blkid) in [
        ("ext4", "ext4"),
        ("ext3", "ext3"),
        ("ext2", "ext2"),
        ("swap", "swap"),
        ("vfat", "vfat"),
        ("exfat", "exfat"),
    ] {
        let path = server.path(kind);
        fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
        let request = json!({ "disk_info": server.image(kind), "fs_format": kind, "uuid": uuid });
        server.answer("FormatFs", &request);
        let info = text(server.directory().path(), &["info", "--json", kind]);
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        assert_eq!(word(&info["volumes"][0], "content"), blkid, "{info}");
        let expected = if kind.ends_with("fat") {
            "AAAA-BBBB"
        } else {
            uuid
        };
        let info = text(server.directory().path(), &["info", kind]);
        assert!(info.contains(expected), "{info}");

        // Nothing to grow, then something.
        let disk = json!({ "disk_info": server.image(kind) });
        server.answer("ResizeFs", &disk);
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(128 << 20)
            .unwrap();
        server.answer("ResizeFs", &disk);
        let info = text(server.directory().path(), &["info", "--json", kind]);
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        let size = info["volumes"][0]["size_bytes"].as_u64().unwrap();
        assert!(size > 120 << 20, "{kind}: {size}");
        if kind.starts_with("ext") && require("e2fsck").is_some() {
            check_partition(&server, kind);
        }
    }
    let loop_device = json!({ "disk_info": { "path": "/dev/loop7" } });
    server.answer("ResizeFs", &loop_device);
}

/// Checks the filesystem on the first partition, which begins at 1 MiB, with e2fsck.
fn check_partition(server: &Server, name: &str) {
    let copy = server.path("partition");
    let copied = Command::new("dd")
        .arg(format!("if={}", server.path(name).display()))
        .arg(format!("of={}", copy.display()))
        .args(["bs=1M", "skip=1", "status=none"])
        .status();
    assert!(copied.unwrap().success());
    check(&copy);
    let output = command("dumpe2fs").arg("-h").arg(&copy).output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let blocks = output
        .lines()
        .find_map(|line| line.strip_prefix("Block count:"));
    let bytes = output
        .lines()
        .find_map(|line| line.strip_prefix("Block size:"));
    let number = |text: Option<&str>| text.unwrap().trim().parse::<u64>().unwrap();
    assert!(number(blocks) * number(bytes) > 120 << 20, "{output}");
}

#[test]
fn features_of_ext4_are_set() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    fs::File::create(server.path("a"))
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    let request = json!({
        "disk_info": server.image("a"),
        "fs_format": "ext4",
        "fs_features": { "ext4": { "CaseInsensitive": true, "ReservedBlocksPercentage": 1 } },
    });
    server.answer("FormatFs", &request);
    let copy = server.path("p1");
    let bytes = fs::read(server.path("a")).unwrap();
    fs::write(&copy, &bytes[1 << 20..]).unwrap();
    if require("dumpe2fs").is_none() {
        return;
    }
    let output = command("dumpe2fs").arg("-h").arg(&copy).output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.contains("casefold"), "{output}");
    let xfs = json!({ "disk_info": server.image("a"), "fs_format": "xfs" });
    let result = server.call("apis.DeployAgent/FormatFs", &xfs);
    assert_eq!(result["code"], "UNIMPLEMENTED", "{result}");
    // A refused request writes nothing.
    assert!(fs::read(server.path("a")).unwrap() == bytes);
}

#[test]
fn a_template_has_no_identity() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let directory = server.directory();
    for (path, contents) in [
        ("/etc/ssh/ssh_host_rsa_key", "key"),
        ("/var/log/syslog", "line"),
        ("/var/log/journal/1/system.journal", "line"),
        ("/tmp/x", "x"),
        ("/etc/netplan/config.yaml", "x"),
    ] {
        let operand = format!("a.img:{path}");
        let parent = operand.rsplit_once('/').unwrap().0;
        text(directory.path(), &["mkdir", "-p", parent]);
        fs::write(server.path("contents"), contents).unwrap();
        text(directory.path(), &["cp", "contents", &operand]);
    }
    let request = json!({ "disk_info": server.image("a.img"), "compress": true });
    let answer = server.answer("SaveToGlance", &request);
    assert_eq!(word(&answer, "os_info"), "Linux");
    assert_eq!(word(&answer["release_info"], "distro"), "Debian");
    let files = text(directory.path(), &["find", "a.img:/"]);
    for gone in ["ssh_host_rsa_key", "/tmp/x", "config.yaml"] {
        assert!(!files.contains(gone), "{gone}");
    }
    assert_eq!(
        text(directory.path(), &["cat", "a.img:/var/log/syslog"]),
        ""
    );
    assert!(!text(directory.path(), &["cat", "a.img:/etc/fstab"]).contains("/dev/vd"));
    check(&server.path("a.img"));
}

#[test]
fn disks_of_vmware_are_refused_with_the_reason() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    for (method, request) in [
        (
            "ConnectEsxiDisks",
            json!({ "vddk_info": { "host": "esxi" } }),
        ),
        ("DisconnectEsxiDisks", json!({})),
    ] {
        let result = server.call(&format!("apis.DeployAgent/{method}"), &request);
        assert_eq!(result["code"], "UNIMPLEMENTED");
        assert!(word(&result, "message").contains("VDDK"), "{result}");
    }
}

/// The variables of OVMF, as Debian has them: without boot entries.
const OVMF_VARS: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

#[test]
fn the_boot_order_is_set() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if !std::path::Path::new(OVMF_VARS).exists() {
        diskfs_fixtures::skip("no OVMF variables");
        return;
    }
    fs::copy(OVMF_VARS, server.path("vars.fd")).unwrap();
    let request = json!({
        "OvmfVarsPath": server.path("vars.fd"),
        "devs": [{ "BootOrder": 1, "DevType": "PCI", "AttachOrder": 0 }],
    });
    server.answer("SetOvmfBootOrder", &request);
    text(server.directory().path(), &["uefi", "list", "vars.fd"]);
    let request = json!({ "OvmfVarsPath": server.path("none.fd"), "devs": [] });
    let result = server.call("apis.DeployAgent/SetOvmfBootOrder", &request);
    assert_eq!(result["code"], "NOT_FOUND", "{result}");
}

/// The partition, the physical volume, the logical volume and the filesystem grow; the other logical
/// volume stays.
#[test]
fn a_logical_volume_grows() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if require("e2fsck").is_none() {
        return;
    }
    let directory = server.directory();
    fs::create_dir_all(directory.path().join("tree/etc")).unwrap();
    fs::write(
        directory.path().join("tree/etc/os-release"),
        "ID=debian\nVERSION_ID=\"12\"\n",
    )
    .unwrap();
    fs::write(directory.path().join("plan.yaml"), LVM_PLAN).unwrap();
    text(directory.path(), &["build", "plan.yaml", "-o", "lvm.raw"]);
    let disk = json!({ "disk_info": server.image("lvm.raw") });
    let sizes = || {
        let info = text(directory.path(), &["info", "--json", "lvm.raw"]);
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        let volumes = info["volumes"].as_array().unwrap();
        let size = |name: &str| {
            let found = volumes.iter().find(|volume| volume["volume"] == name);
            found.unwrap()["size_bytes"].as_u64().unwrap()
        };
        ["p1", "vg0/root", "vg0/data"].map(size)
    };
    server.answer("ResizeFs", &disk);
    let before = sizes();
    server.answer("ResizeFs", &disk);
    assert_eq!(sizes(), before, "nothing to grow is a success");
    let file = fs::File::options();
    let file = file.clone().write(true).open(server.path("lvm.raw"));
    file.unwrap().set_len(256 << 20).unwrap();
    server.answer("ResizeFs", &disk);
    let after = sizes();
    assert!(after[0] > 250 << 20 && after[1] > 200 << 20, "{after:?}");
    assert_eq!(after[2], before[2]);
    let root = text(directory.path(), &["df", "--json", "lvm.raw"]);
    let root: serde_json::Value = serde_json::from_str(&root).unwrap();
    let largest = root["filesystems"].as_array().and_then(|volumes| {
        volumes
            .iter()
            .filter_map(|it| it["size_bytes"].as_u64())
            .max()
    });
    assert!(largest > Some(180 << 20), "{root}");
    let release = text(directory.path(), &["cat", "lvm.raw:/etc/os-release"]);
    assert!(release.starts_with("ID=debian"), "{release}");
}

const LVM_PLAN: &str = "disk: {size: 96M}
partitions:
  - lvm:
      group: vg0
      volumes:
        - {name: data, size: 16M, filesystem: {type: ext4, mount: /data}}
        - {name: root, size: 40M, filesystem: {type: ext4, mount: /}}
sources: [{directory: tree}]
";
