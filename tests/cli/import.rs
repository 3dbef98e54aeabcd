//! `diskfs import`: images that nginx serves, validated and converted.

use std::fs;
use std::path::Path;
use std::process::Command;

use diskfs_fixtures::{TcpServer, free_port, image, require};

use crate::diskfs_in;
use crate::resize_stacks::shell;

/// Serves a directory, and returns the URL of it.
fn serve(directory: &Path) -> (TcpServer, String) {
    let port = free_port();
    let lines = format!("listen 127.0.0.1:{port};");
    let server = TcpServer::nginx(directory, directory, port, &lines);
    (server, format!("http://127.0.0.1:{port}"))
}

fn sum(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    format!("sha256:{}", text.split(' ').next().unwrap())
}

/// Returns the number of bytes that nginx has sent for a file.
fn sent(directory: &Path, name: &str) -> u64 {
    let log = fs::read_to_string(directory.join("nginx.log")).unwrap();
    let lines = log.lines().filter(|line| line.contains(name));
    let bytes = lines.map(|line| line.split('"').nth(2).unwrap().split(' ').nth(2).unwrap());
    bytes.map(|bytes| bytes.parse::<u64>().unwrap()).sum()
}

#[test]
fn an_image_is_validated_converted_and_checked() {
    if require("nginx").is_none() || require("qemu-img").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    let dir = demo.directory();
    shell(
        dir,
        "qemu-img convert -O raw demo.qcow2 whole.raw
         head -c 3000000 /dev/urandom > random.raw && truncate -s +1M random.raw
         head -c 300 /dev/urandom >> random.raw
         sha256sum random.raw demo.qcow2 > SHA256SUMS",
    );
    let (_server, at) = serve(dir);
    let run = |words: &[&str]| diskfs_in(dir, &[&["import"], words].concat());
    let url = format!("{at}/demo.qcow2?a=b,c");
    let checksum = sum(&dir.join("demo.qcow2"));
    let document = run(&[&url, "-o", "a.raw", "--checksum", &checksum, "--json"]).json();
    assert_eq!(document["source_format"], "qcow2", "{document}");
    assert_eq!(document["format"], "raw");
    assert_eq!(document["checksum"], checksum.as_str());
    assert_eq!(document["policy"], "cdi");
    shell(dir, "cmp a.raw whole.raw");
    run(&[&url, "-O", "qcow2", "-o", "a.img", "--policy", "kubevirt"]).text();
    shell(dir, "qemu-img compare -f qcow2 -F raw a.img whole.raw");
    // A raw image is checked in the same pass; its size is no multiple of a sector.
    let list = format!("{at}/SHA256SUMS");
    let url = format!("{at}/random.raw");
    run(&[&url, "-o", "b.raw", "--checksum", &list]).text();
    shell(dir, "cmp -n $(stat -c %s random.raw) b.raw random.raw");
    let size = dir.join("random.raw").metadata().unwrap().len();
    let sent = sent(dir, "random.raw");
    assert!(sent < size + size / 4, "{sent} of {size}");
    let words = [&url, "-o", "c.raw", "--checksum", &list, "--no-sandbox"];
    run(&words).text();
    shell(dir, "cmp b.raw c.raw");
}

#[test]
fn what_is_refused_leaves_nothing() {
    if require("nginx").is_none() || require("qemu-img").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    let dir = demo.directory();
    shell(
        dir,
        "qemu-img convert -O raw demo.qcow2 whole.raw
         qemu-img create -q -f qcow2 -b /etc/passwd -F raw overlay.qcow2 1M
         mkdir copies && echo old > copies/there.raw",
    );
    let (_server, at) = serve(dir);
    let url = |name: &str| format!("{at}/{name}");
    let (demo, raw) = (url("demo.qcow2"), url("whole.raw"));
    let (overlay, missing) = (url("overlay.qcow2"), url("missing"));
    let zeroes = format!("sha256:{}", "0".repeat(64));
    for (words, code, said) in [
        (&[&overlay, "-o", "new.raw"][..], 6, "backing-file"),
        (
            &[&raw, "-o", "new.raw", "--checksum", &zeroes],
            5,
            "checksum",
        ),
        (
            &[&demo, "-o", "new.raw", "--checksum", &zeroes],
            5,
            "checksum",
        ),
        (
            &[&raw, "-o", "there.raw", "--force", "--checksum", &zeroes],
            5,
            "checksum",
        ),
        (&[&demo, "-o", "new.raw", "--size-limit", "1M"], 6, "size"),
        (
            &[&demo, "-o", "new.raw", "--format", "raw"],
            6,
            "format-mismatch",
        ),
        (&[&demo, "-o", "there.raw"], 1, "exists"),
        (&[&demo, "-o", "-"], 2, "file"),
        (&[&missing, "-o", "new.raw"], 3, "404"),
        (&["disk.img", "-o", "new.raw"], 2, "https://"),
    ] {
        let run = diskfs_in(&dir.join("copies"), &[&["import"], words].concat());
        let (found, stderr) = run.failure();
        assert!(stderr.contains(said), "{words:?}: {stderr}");
        assert_eq!(found, code, "{words:?}: {stderr}");
        assert_eq!(
            fs::read_dir(dir.join("copies")).unwrap().count(),
            1,
            "{words:?}"
        );
    }
    assert_eq!(fs::read(dir.join("copies/there.raw")).unwrap(), b"old\n");
}
