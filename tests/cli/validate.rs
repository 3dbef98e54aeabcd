//! validate: verdicts on images of qemu-img, and on those that attacked cloud platforms.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use diskfs_fixtures::have;
use serde_json::Value;

use crate::{DISKFS, diskfs_in};

fn qemu_img(directory: &Path, words: &[&str]) {
    let mut command = diskfs_fixtures::command("qemu-img");
    let output = command.args(words).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

/// Validates one image, and returns the exit code and the image's part of the document.
fn validated(directory: &Path, words: &[&str]) -> (Option<i32>, Value) {
    let run = diskfs_in(
        directory,
        &[&["validate", "--json", "--policy"], words].concat(),
    );
    let document: Value = serde_json::from_slice(&run.output.stdout).unwrap();
    let image = document["images"][0].clone();
    assert_eq!(document["accepted"], image["accepted"], "{document}");
    (run.code(), image)
}

fn accepted(directory: &Path, words: &[&str]) -> Value {
    let (code, image) = validated(directory, words);
    assert_eq!(code, Some(0), "{words:?}: {image}");
    assert_eq!(image["broken_rules"], Value::Array(Vec::new()), "{words:?}");
    image
}

/// Returns the names of the rules that an image breaks, and all messages.
fn refused(directory: &Path, words: &[&str]) -> (Vec<String>, String) {
    let (code, image) = validated(directory, words);
    assert_eq!(code, Some(1), "{words:?}: {image}");
    let rules = image["broken_rules"].as_array().unwrap();
    let text = |rule: &Value, key: &str| rule[key].as_str().unwrap().to_owned();
    let names = rules.iter().map(|rule| text(rule, "rule")).collect();
    let messages: Vec<_> = rules.iter().map(|rule| text(rule, "message")).collect();
    (names, messages.join("\n"))
}

fn patch(path: &Path, offset: u64, bytes: &[u8]) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

#[test]
fn images_of_qemu_are_accepted_by_the_policies_that_know_them() {
    if !have(&["qemu-img"]) {
        return;
    }
    let scene = tempfile::tempdir().unwrap();
    let at = scene.path();
    for (format, options, policies) in [
        ("raw", "", &["kubevirt", "cdi", "glance"][..]),
        ("qcow2", "", &["kubevirt", "cdi", "glance"]),
        ("qcow2", "compat=0.10", &["kubevirt", "cdi", "glance"]),
        (
            "qcow2",
            "extended_l2=on,compression_type=zstd",
            &["kubevirt", "cdi", "glance"],
        ),
        ("vmdk", "", &["cdi", "glance"]),
        ("vmdk", "subformat=streamOptimized", &["cdi", "glance"]),
        ("vdi", "", &["cdi", "glance"]),
        ("vpc", "force_size=on", &["cdi", "glance"]),
        ("vhdx", "", &["cdi", "glance"]),
        ("qed", "", &[]),
    ] {
        qemu_img(at, &["create", "-q", "-f", "raw", "source", "8M"]);
        let mut words = vec!["convert", "-q", "-f", "raw", "-O", format];
        if !options.is_empty() {
            words.extend(["-o", options]);
        }
        words.extend(["source", "disk"]);
        qemu_img(at, &words);
        for policy in ["kubevirt", "cdi", "glance"] {
            if policies.contains(&policy) {
                let image = accepted(at, &[policy, "disk", "--format", format]);
                assert_eq!(image["virtual_size_bytes"], 8 << 20, "{format} {options}");
            } else {
                let (rules, message) = refused(at, &[policy, "disk"]);
                assert_eq!(rules, ["format"], "{format}");
                assert!(message.contains(policy), "{message}");
            }
        }
    }
    qemu_img(
        at,
        &[
            "create",
            "-q",
            "-f",
            "vpc",
            "-o",
            "subformat=fixed,force_size=on",
            "fixed",
            "8M",
        ],
    );
    let image = accepted(at, &["glance", "fixed", "--format", "vhd"]);
    assert_eq!(image["format"], "vhd");
}

/// CVE-2015-5163 (backing file), CVE-2024-32498 (data file), CVE-2024-4467 (`json:` data file).
#[test]
fn a_qcow2_image_that_names_files_is_refused() {
    if !have(&["qemu-img", "mkfifo"]) {
        return;
    }
    let scene = tempfile::tempdir().unwrap();
    let at = scene.path();
    let passwd = [
        "create",
        "-q",
        "-f",
        "qcow2",
        "-u",
        "-b",
        "/etc/passwd",
        "-F",
        "raw",
        "a.qcow2",
        "1M",
    ];
    qemu_img(at, &passwd);
    for policy in ["kubevirt", "cdi", "glance"] {
        let (rules, message) = refused(at, &[policy, "a.qcow2"]);
        assert_eq!(rules, ["backing-file"]);
        assert!(message.contains("`/etc/passwd`"), "{message}");
    }
    qemu_img(
        at,
        &[
            "create",
            "-q",
            "-f",
            "qcow2",
            "-o",
            "data_file=data.raw,data_file_raw=on",
            "b.qcow2",
            "1M",
        ],
    );
    let (rules, message) = refused(at, &["glance", "b.qcow2"]);
    assert_eq!(rules, ["data-file"]);
    assert!(message.contains("`data.raw`"), "{message}");

    // qemu-img would open such a file, so the name is put in place of another of its length.
    let json = br#"json:{"driver":"file","filename":"/etc/passwd"}"#;
    let plain = "x".repeat(json.len());
    let option = format!("data_file={plain}");
    qemu_img(
        at,
        &[
            "create", "-q", "-f", "qcow2", "-o", &option, "c.qcow2", "1M",
        ],
    );
    let path = at.join("c.qcow2");
    let bytes = fs::read(&path).unwrap();
    let place = bytes
        .windows(json.len())
        .position(|found| found == plain.as_bytes());
    patch(&path, place.unwrap() as u64, json);
    let (rules, message) = refused(at, &["kubevirt", "c.qcow2"]);
    assert_eq!(rules, ["data-file"]);
    assert!(message.contains("json:"), "{message}");

    // Opening a pipe would wait for its other end.
    let made = Command::new("mkfifo")
        .arg(at.join("pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    qemu_img(
        at,
        &[
            "create", "-q", "-f", "qcow2", "-u", "-b", "pipe", "-F", "raw", "d.qcow2", "1M",
        ],
    );
    let run = Command::new("timeout")
        .args(["60", DISKFS, "validate", "--policy", "kubevirt", "d.qcow2"])
        .current_dir(at)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(1), "{run:?}");
}

/// CVE-2022-47951: a VMDK whose extent is a file of the host.
#[test]
fn a_vmdk_that_names_files_is_refused() {
    if !have(&["qemu-img"]) {
        return;
    }
    let scene = tempfile::tempdir().unwrap();
    let at = scene.path();
    let descriptor = "# Disk DescriptorFile\nversion=1\nCID=12345678\nparentCID=ffffffff\n\
        createType=\"monolithicFlat\"\nRW 8 FLAT \"/etc/passwd\" 0\n";
    fs::write(at.join("flat.vmdk"), descriptor).unwrap();
    for policy in ["cdi", "glance"] {
        let (rules, message) = refused(at, &[policy, "flat.vmdk"]);
        assert_eq!(rules, ["vmdk-type", "extent-file"]);
        assert!(message.contains("`/etc/passwd`"), "{message}");
    }
    // QEMU takes a sparse header without capacity for the place of a descriptor.
    qemu_img(at, &["create", "-q", "-f", "vmdk", "sparse.vmdk", "8M"]);
    let path = at.join("sparse.vmdk");
    patch(&path, 12, &[0; 8]);
    let mut text = descriptor.as_bytes().to_vec();
    text.resize(1024, 0);
    patch(&path, 512, &text);
    let (rules, message) = refused(at, &["glance", "sparse.vmdk"]);
    assert_eq!(rules, ["vmdk-type", "extent-file"]);
    assert!(message.contains("`/etc/passwd`"), "{message}");
    // The type alone is a claim of the image, too.
    let claim = descriptor.replace("monolithicFlat", "monolithicSparse");
    fs::write(at.join("claim.vmdk"), claim).unwrap();
    assert_eq!(refused(at, &["glance", "claim.vmdk"]).0, ["extent-file"]);
}

#[test]
fn a_disk_that_looks_like_another_format_is_refused() {
    if !have(&["qemu-img", "genisoimage"]) {
        return;
    }
    let scene = tempfile::tempdir().unwrap();
    let at = scene.path();
    qemu_img(
        at,
        &[
            "create",
            "-q",
            "-f",
            "qcow2",
            "-u",
            "-b",
            "/etc/passwd",
            "-F",
            "raw",
            "a.raw",
            "1M",
        ],
    );
    let (rules, message) = refused(at, &["glance", "--format", "raw", "a.raw"]);
    assert_eq!(rules, ["format-mismatch", "backing-file"]);
    assert!(
        message.contains("stated as raw, but the file looks like qcow2"),
        "{message}"
    );
    // An option of the image precedes.
    let (rules, _) = refused(at, &["glance", "--format", "qcow2", "a.raw,format=raw"]);
    assert_eq!(rules, ["format-mismatch", "backing-file"]);

    // A raw copy of the outer image is the inner one.
    qemu_img(
        at,
        &[
            "convert",
            "-q",
            "-f",
            "raw",
            "-O",
            "qcow2",
            "a.raw",
            "outer.qcow2",
        ],
    );
    assert_eq!(refused(at, &["cdi", "outer.qcow2"]).0, ["nested-format"]);

    fs::create_dir(at.join("tree")).unwrap();
    let mut make = diskfs_fixtures::command("genisoimage");
    let made = make.args(["-quiet", "-o", "a.iso", "tree"]).current_dir(at);
    assert!(made.status().unwrap().success());
    let image = accepted(at, &["glance", "a.iso"]);
    assert!(image["notes"].to_string().contains("ISO 9660"), "{image}");
    let iso = fs::read(at.join("a.iso")).unwrap();
    fs::write(at.join("hybrid.iso"), &iso).unwrap();
    patch(&at.join("hybrid.iso"), 512, b"EFI PART");
    assert_eq!(refused(at, &["glance", "hybrid.iso"]).0, ["polyglot"]);
    accepted(at, &["kubevirt", "hybrid.iso"]);
    qemu_img(at, &["create", "-q", "-f", "qcow2", "both.qcow2", "1M"]);
    patch(&at.join("both.qcow2"), 32768, &iso[32768..34816]);
    let (rules, message) = refused(at, &["kubevirt", "both.qcow2"]);
    assert_eq!(rules, ["polyglot"]);
    assert!(message.contains("qcow2, iso"), "{message}");

    fs::write(at.join("luks.raw"), b"LUKS\xba\xbe\0\x01").unwrap();
    assert_eq!(refused(at, &["kubevirt", "luks.raw"]).0, ["format"]);
    fs::write(at.join("a.gz"), b"\x1f\x8b\x08\0\0\0\0\0\0\x03").unwrap();
    let (rules, message) = refused(at, &["cdi", "a.gz"]);
    assert_eq!(rules, ["format"]);
    assert!(message.contains("unpacks"), "{message}");
}

#[test]
fn hostile_headers_get_a_verdict() {
    if !have(&["qemu-img"]) {
        return;
    }
    let scene = tempfile::tempdir().unwrap();
    let at = scene.path();
    qemu_img(at, &["create", "-q", "-f", "qcow2", "good.qcow2", "1M"]);
    let good = fs::read(at.join("good.qcow2")).unwrap();
    let path = at.join("bad.qcow2");
    for (offset, bytes, rule) in [
        (4, &9_u32.to_be_bytes()[..], "unsupported"),
        (20, &40_u32.to_be_bytes(), "metadata-size"),
        (36, &0x0800_0000_u32.to_be_bytes(), "metadata-size"),
        (40, &u64::MAX.to_be_bytes(), "corrupt"),
        (56, &u32::MAX.to_be_bytes(), "metadata-size"),
        (60, &70_000_u32.to_be_bytes(), "metadata-size"),
        (72, &(1_u64 << 40).to_be_bytes(), "unknown-feature"),
        (100, &0x7fff_fff8_u32.to_be_bytes(), "metadata-size"),
        // The length of the first header extension.
        (116, &0x7fff_fff0_u32.to_be_bytes(), "metadata-size"),
    ] {
        fs::write(&path, &good).unwrap();
        patch(&path, offset, bytes);
        let (rules, message) = refused(at, &["glance", "bad.qcow2"]);
        assert_eq!(rules[0], rule, "{offset}: {message}");
    }
    for len in [4, 50, 80, 150, 200_000] {
        fs::write(&path, &good[..len.min(good.len() - 1)]).unwrap();
        let (rules, message) = refused(at, &["glance", "bad.qcow2"]);
        assert_eq!(rules[0], "corrupt", "{len}: {message}");
    }
    // An empty VDI or VPC image is complete soon after its header.
    for (format, lens) in [
        ("vmdk", &[70, 520, 2000][..]),
        ("vdi", &[70, 400]),
        ("vpc", &[70, 520]),
        ("vhdx", &[70, 520, 2000]),
    ] {
        qemu_img(at, &["create", "-q", "-f", format, "good", "1M"]);
        let good = fs::read(at.join("good")).unwrap();
        for len in lens {
            fs::write(at.join("bad"), &good[..*len]).unwrap();
            let (rules, message) = refused(at, &["cdi", "bad", "--format", format]);
            assert!(
                matches!(&*rules[0], "corrupt" | "unsupported"),
                "{format} {len}: {message}"
            );
        }
    }
    fs::write(at.join("empty"), "").unwrap();
    accepted(at, &["kubevirt", "empty"]);
}

#[test]
fn sizes_snapshots_and_exit_codes() {
    if !have(&["qemu-img"]) {
        return;
    }
    let scene = tempfile::tempdir().unwrap();
    let at = scene.path();
    qemu_img(at, &["create", "-q", "-f", "qcow2", "a.qcow2", "1T"]);
    let (rules, message) = refused(at, &["kubevirt", "--size-limit", "100G", "a.qcow2"]);
    assert_eq!(rules, ["size"]);
    assert!(message.contains("1099511627776"), "{message}");
    accepted(at, &["kubevirt", "--size-limit", "1T", "a.qcow2"]);
    qemu_img(at, &["snapshot", "-c", "before", "a.qcow2"]);
    let image = accepted(at, &["kubevirt", "a.qcow2"]);
    assert_eq!(image["notes"][0], "internal snapshots in the image: 1");

    qemu_img(
        at,
        &[
            "create",
            "-q",
            "-f",
            "qcow2",
            "-u",
            "-b",
            "\u{1b}[2Jx",
            "-F",
            "raw",
            "b.qcow2",
            "1M",
        ],
    );
    let run = diskfs_in(
        at,
        &["validate", "--policy", "kubevirt", "a.qcow2", "b.qcow2"],
    );
    assert_eq!(run.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&run.output.stdout),
        "a.qcow2: accepted (qcow2, 1099511627776 bytes)\n  \
         note: internal snapshots in the image: 1\n\
         b.qcow2: refused (qcow2, 1048576 bytes)\n  \
         backing-file: the image has a backing file: `\\u{1b}[2Jx` (byte 8)\n"
    );
    // A failure is neither verdict.
    let run = diskfs_in(
        at,
        &["validate", "--policy", "kubevirt", "gone.qcow2", "b.qcow2"],
    );
    assert_eq!(run.code(), Some(2));
    let run = diskfs_in(at, &["validate", "--policy", "nova", "a.qcow2"]);
    assert_eq!(run.code(), Some(2));
    assert!(
        run.stderr().contains("unknown policy `nova`"),
        "{}",
        run.stderr()
    );
    let run = diskfs_in(at, &["validate", "a.qcow2"]);
    assert_eq!(run.code(), Some(2));
}
