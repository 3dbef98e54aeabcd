//! Bad requests: a fitting status and a message for an operator, and the server lives on.

use std::fs;
use std::process::Command;

use diskfs_fixtures::require;
use serde_json::{Value, json};

use super::guest::debian;
use super::server::Server;
use super::word;

#[test]
#[expect(clippy::too_many_lines, reason = "a table of requests")]
fn bad_requests_are_answered() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    fs::write(server.path("text"), "not an image\n".repeat(100)).unwrap();
    let mut broken = b"QFI\xfb\0\0\0\x03".to_vec();
    broken.resize(1 << 16, 0xff);
    fs::write(server.path("broken.qcow2"), broken).unwrap();
    let at = |path: &str| json!({ "disk_info": { "path": path } });
    let file = |name: &str| json!({ "disk_info": server.image(name) });
    let deploy = |info: Value| json!({ "disk_info": server.image("a.img"), "guest_desc": { "name": "a" }, "deploy_info": info });
    let nic = |nic: Value| json!({ "disk_info": server.image("a.img"), "guest_desc": { "name": "a", "nics": [nic] } });
    let files = |path: &str| {
        deploy(json!({ "is_init": true, "deploys": [{ "path": path, "content": "x" }] }))
    };
    let cases: Vec<(&str, Value, &str, &str)> = vec![
        (
            "ProbeImageInfo",
            json!({}),
            "INVALID_ARGUMENT",
            "missing `disk_info`",
        ),
        ("ProbeImageInfo", at(""), "INVALID_ARGUMENT", "missing path"),
        (
            "ProbeImageInfo",
            at("a.img"),
            "INVALID_ARGUMENT",
            "absolute path",
        ),
        (
            "ProbeImageInfo",
            at("/none/x.img"),
            "NOT_FOUND",
            "/none/x.img",
        ),
        ("ProbeImageInfo", at("/etc"), "UNIMPLEMENTED", "/etc"),
        (
            "ProbeImageInfo",
            at("rbd:pool/image:mon_host=a"),
            "UNIMPLEMENTED",
            "Ceph RBD",
        ),
        (
            "ProbeImageInfo",
            at("nbd://127.0.0.1:10809/x"),
            "UNIMPLEMENTED",
            "NBD",
        ),
        (
            "ResizeFs",
            at("[datastore1] a/a.vmdk"),
            "UNIMPLEMENTED",
            "VMware",
        ),
        (
            "ProbeImageInfo",
            file("broken.qcow2"),
            "DATA_LOSS",
            "broken.qcow2",
        ),
        (
            "DeployGuestFs",
            file("text"),
            "NOT_FOUND",
            "no operating system",
        ),
        (
            "DeployGuestFs",
            files("/etc/../../x"),
            "INVALID_ARGUMENT",
            "..",
        ),
        ("DeployGuestFs", files(".."), "INVALID_ARGUMENT", ".."),
        (
            "DeployGuestFs",
            nic(json!({ "mac": "x" })),
            "INVALID_ARGUMENT",
            "hardware address",
        ),
        (
            "DeployGuestFs",
            nic(json!({ "mac": "00:24:c7:16:80:f2", "ip": "300.0.0.1" })),
            "INVALID_ARGUMENT",
            "300.0.0.1",
        ),
        (
            "DeployGuestFs",
            deploy(json!({ "password": "p", "public_key": { "public_key": "ssh-rsa x" } })),
            "INVALID_ARGUMENT",
            "key",
        ),
        (
            "FormatFs",
            json!({ "disk_info": server.image("a.img"), "fs_format": "zfs" }),
            "UNIMPLEMENTED",
            "zfs",
        ),
        (
            "FormatFs",
            json!({ "disk_info": server.image("a.img"), "fs_format": "ext4", "uuid": "x" }),
            "INVALID_ARGUMENT",
            "UUID",
        ),
        (
            "SetOvmfBootOrder",
            json!({ "OvmfVarsPath": server.path("text") }),
            "UNIMPLEMENTED",
            "text",
        ),
        (
            "ProbeImageInfo",
            json!({ "disk_info": { "path": server.path("a.img"), "encrypt_password": "?" } }),
            "INVALID_ARGUMENT",
            "base64",
        ),
    ];
    let before = fs::read(server.path("a.img")).unwrap();
    let calls: Vec<Value> = cases
        .iter()
        .map(|(method, request, ..)| json!({ "call": format!("apis.DeployAgent/{method}"), "request": request }))
        .collect();
    let results = server.calls(&Value::Array(calls));
    for ((method, request, code, message), result) in cases.iter().zip(results) {
        assert_eq!(result["code"], *code, "{method} {request}: {result}");
        assert!(
            word(&result, "message").contains(message),
            "{method} {request}: {result}"
        );
    }
    assert!(
        before == fs::read(server.path("a.img")).unwrap(),
        "nothing was written"
    );
    server.answer("ProbeImageInfo", &file("a.img"));
}

#[test]
fn large_messages_and_unknown_fields_are_taken() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "64M").is_none() {
        return;
    }
    let content = "x".repeat(12 << 20);
    let request = json!({
        "disk_info": server.image("a.img"),
        "guest_desc": { "name": "a" },
        "deploy_info": { "is_init": true, "deploys": [{ "path": "/opt/large", "content": content }] },
    });
    server.answer("DeployGuestFs", &request);
    let large = super::text(server.directory().path(), &["cat", "a.img:/opt/large"]);
    assert_eq!(large.len(), 12 << 20);
    // Field 1000, a string.
    let probe = json!([{ "call": "apis.DeployAgent/ProbeImageInfo", "unknown": "wj4BeA==",
        "request": { "disk_info": server.image("a.img") } }]);
    assert_eq!(server.calls(&probe)[0]["code"], "OK");
    // More than the server takes.
    let content = "x".repeat(65 << 20);
    let mut request = request;
    request["deploy_info"]["deploys"][0]["content"] = content.into();
    let result = server.call("apis.DeployAgent/DeployGuestFs", &request);
    assert_eq!(result["code"], "OUT_OF_RANGE", "{result}");
    // More than the guest takes.
    let many: Vec<Value> = (0..3)
        .map(|n| json!({ "path": format!("/opt/{n}"), "content": "y".repeat(10 << 20) }))
        .collect();
    request["deploy_info"]["deploys"] = many.into();
    debian(&server.path("a.img"), "32M");
    let before = fs::read(server.path("a.img")).unwrap();
    let result = server.call("apis.DeployAgent/DeployGuestFs", &request);
    assert_eq!(result["code"], "RESOURCE_EXHAUSTED", "{result}");
    assert!(before == fs::read(server.path("a.img")).unwrap());
}

/// 60 MB in one file. There is no space for as much again.
#[test]
fn sixty_megabytes_are_deployed() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "112M").is_none() {
        return;
    }
    let content = "0123456789abcde\n".repeat(3_750_000);
    let call = |path: &str| {
        json!({ "call": "apis.DeployAgent/DeployGuestFs", "request": {
            "disk_info": server.image("a.img"),
            "guest_desc": { "name": "a" },
            "deploy_info": { "is_init": true, "deploys": [{ "path": path, "content": content }] },
        }})
    };
    let results = server.calls(&json!([call("/opt/large"), call("/opt/again")]));
    assert_eq!(results[0]["code"], "OK", "{}", results[0]);
    assert_eq!(results[1]["code"], "RESOURCE_EXHAUSTED", "{}", results[1]);
    let directory = server.directory();
    let large = super::text(directory.path(), &["cat", "a.img:/opt/large"]);
    assert!(large == content);
    let files = super::text(directory.path(), &["ls", "a.img:/opt"]);
    assert!(!files.contains("again"), "{files}");
    super::guest::check(&server.path("a.img"));
    let peak = peak_mib(&server);
    assert!(peak < 400, "{peak} MiB");
}

/// Returns the largest memory that the server had.
fn peak_mib(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib >> 10
}

#[test]
fn a_disk_in_use_and_an_encrypted_disk() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if require("qemu-img").is_none() || debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let qemu_img = |words: &[&str]| {
        let mut command = Command::new("qemu-img");
        let status = command
            .args(words)
            .current_dir(server.directory().path())
            .status();
        assert!(status.unwrap().success(), "{words:?}");
    };
    qemu_img(&[
        "convert",
        "-f",
        "raw",
        "-O",
        "qcow2",
        "--object",
        "secret,id=s,data=passphrase",
        "-o",
        "encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10",
        "a.img",
        "luks.qcow2",
    ]);
    let deploy = |password: &str| {
        let mut disk = json!({ "path": server.path("luks.qcow2"), "encrypt_format": "luks", "encrypt_alg": "aes-256" });
        if !password.is_empty() {
            disk["encrypt_password"] = password.into();
        }
        let request = json!({ "disk_info": disk, "guest_desc": { "name": "secret1" } });
        server.call("apis.DeployAgent/DeployGuestFs", &request)
    };
    for password in ["", "d3Jvbmc="] {
        let result = deploy(password);
        assert_eq!(result["code"], "PERMISSION_DENIED", "{result}");
    }
    let result = deploy("cGFzc3BocmFzZQ==");
    assert_eq!(result["code"], "OK", "{result}");
    assert_eq!(result["answer"]["distro"], "Debian");

    if require("qemu-io").is_none() {
        return;
    }
    qemu_img(&["convert", "-f", "raw", "-O", "qcow2", "a.img", "used.qcow2"]);
    let mut user = Command::new("qemu-io")
        .arg(server.path("used.qcow2"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut start = [0; 8];
    std::io::Read::read_exact(user.stdout.as_mut().unwrap(), &mut start).unwrap();
    let request = json!({ "disk_info": server.image("used.qcow2"), "guest_desc": { "name": "a" } });
    let result = server.call("apis.DeployAgent/DeployGuestFs", &request);
    drop(user.stdin.take());
    user.wait().unwrap();
    assert_eq!(result["code"], "FAILED_PRECONDITION", "{result}");
    let result = server.call("apis.DeployAgent/DeployGuestFs", &request);
    assert_eq!(result["code"], "OK", "{result}");
}
