//! Disks in OCI images: built by diskfs and by umoci, read by diskfs, skopeo and umoci.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use diskfs_fixtures::{TempImage, Tmpfs, have, image};
use serde_json::{Value, json};

use crate::{diskfs, diskfs_in, diskfs_with};

/// Runs a program in the directory and returns its output.
pub(crate) fn run(directory: &Path, program: &str, words: &[&str]) -> Vec<u8> {
    let mut command = Command::new(program);
    let done = command.args(words).current_dir(directory).output().unwrap();
    assert!(done.status.success(), "{program} {words:?}: {done:?}");
    done.stdout
}

/// Builds an image with the disk `demo.qcow2`.
pub(crate) fn build(demo: &TempImage, target: &str, options: &[&str]) {
    let words = ["oci", "build", "demo.qcow2", "-o", target];
    diskfs(demo, &[&words[..], options].concat()).bytes();
}

/// Makes the layout `u` with the image `v`, in which umoci stores this file in `/disk`.
pub(crate) fn insert(directory: &Path, file: &str) {
    let target = format!("/disk/{file}");
    let insert = ["insert", "--rootless", "--image", "u:v", file, &target];
    let layout = ["init", "--layout", "u"];
    for words in [&layout[..], &["new", "--image", "u:v"], &insert] {
        run(directory, "umoci", words);
    }
}

/// Returns the file of a layout's largest blob, which is that of a disk.
pub(crate) fn largest_blob(layout: &Path) -> PathBuf {
    let blobs = fs::read_dir(layout.join("blobs/sha256")).unwrap();
    let blobs = blobs.map(|blob| blob.unwrap().path());
    let blob = blobs.max_by_key(|blob| blob.metadata().unwrap().len());
    blob.expect("the layout has blobs")
}

/// Returns the paths and contents of all files below a directory.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn disks_are_read_out_of_new_images() {
    let demo = image("demo.qcow2");
    diskfs(&demo, &["convert", "demo.qcow2", "plain.img"]).bytes();
    for compress in ["zstd", "gzip", "none"] {
        let (layout, archive) = (format!("{compress}-dir"), format!("{compress}.tar"));
        build(&demo, &layout, &["--compress", compress, "--tag", "41"]);
        build(&demo, &archive, &["--compress", compress]);
        // Nothing is unpacked, which a warning would tell.
        for name in [
            format!("oci-layout:{layout}"),
            format!("oci-layout:{layout}:41"),
            format!("oci-layout:{layout}:41#/disk/demo.qcow2"),
            format!("oci-layout:./{layout}:41#disk/demo.qcow2"),
            format!("oci-archive:{archive}:latest"),
        ] {
            let cat = diskfs(&demo, &["cat", &format!("{name}:/etc/hostname")]);
            assert_eq!(cat.text(), "demo\n", "{name}");
            diskfs(&demo, &["compare", &name, "plain.img"]).bytes();
        }
        let info = diskfs(&demo, &["info", "--json", &format!("oci-layout:{layout}")]).json();
        let path = format!("oci-layout:{layout}#/disk/demo.qcow2");
        assert_eq!(info["image"]["path"], path);
        assert_eq!(info["image"]["format"], "qcow2");
    }
}

#[test]
fn other_programs_read_new_images() {
    if !have(&["skopeo", "umoci", "tar", "zstd", "gzip"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let at = demo.directory();
    let disk = fs::read(at.join("demo.qcow2")).unwrap();
    for compress in ["zstd", "gzip", "none"] {
        let options = [
            "--compress",
            compress,
            "--tag",
            "v1",
            "--arch",
            "arm64",
            "--label",
            "a=b=c",
            "--env",
            "INSTANCETYPE_KUBEVIRT_IO_DEFAULT_PREFERENCE=fedora",
            "--path",
            "/disk/vm.qcow2",
        ];
        build(&demo, compress, &options);
        build(&demo, &format!("{compress}.tar"), &options);
        let name = format!("oci:{compress}:v1");
        let inspected = run(at, "skopeo", &["inspect", &name]);
        let inspected: Value = serde_json::from_slice(&inspected).unwrap();
        assert_eq!(inspected["Architecture"], "arm64");
        assert_eq!(inspected["Labels"]["a"], "b=c");
        assert_eq!(
            inspected["Env"][0],
            "INSTANCETYPE_KUBEVIRT_IO_DEFAULT_PREFERENCE=fedora"
        );
        assert_eq!(inspected["Created"], "1970-01-01T00:00:00Z");
        let archive = format!("oci-archive:{compress}.tar:v1");
        let other = run(at, "skopeo", &["inspect", &archive]);
        let other: Value = serde_json::from_slice(&other).unwrap();
        assert_eq!(other["Digest"], inspected["Digest"]);
        let digest = inspected["Layers"][0].as_str().unwrap().replace(':', "/");
        let program = if compress == "none" { "cat" } else { compress };
        let option = if compress == "none" { "" } else { "-dc" };
        let script =
            format!("{program} {option} {compress}/blobs/{digest} | tar -x -O disk/vm.qcow2");
        assert_eq!(run(at, "sh", &["-c", &script]), disk, "{compress}");
        // Docker's formats and umoci of Debian 12 know no zstd.
        if compress == "zstd" {
            continue;
        }
        // Docker's archive has decompressed layers, whose digests skopeo verifies.
        let docker = format!("docker-archive:{compress}-docker.tar:x:y");
        run(at, "skopeo", &["copy", "-q", &name, &docker]);
        let packed = format!("{compress}-docker.tar");
        let list = run(at, "tar", &["-xOf", &packed, "manifest.json"]);
        let list: Value = serde_json::from_slice(&list).unwrap();
        let layer = list[0]["Layers"][0].as_str().unwrap();
        let script = format!("tar -xOf {packed} {layer} | tar -xO disk/vm.qcow2");
        assert_eq!(run(at, "sh", &["-c", &script]), disk, "{compress}");
        let script = format!("tar -xOf {packed} {layer} | tar -tv --numeric-owner");
        let listed = String::from_utf8(run(at, "sh", &["-c", &script])).unwrap();
        assert!(listed.contains("-r--r----- 107/107"), "{listed}");
        let bundle = format!("{compress}-bundle");
        let from = format!("{compress}:v1");
        let unpack = ["unpack", "--rootless", "--image", &from, &bundle];
        run(at, "umoci", &unpack);
        let unpacked = at.join(bundle).join("rootfs/disk/vm.qcow2");
        assert_eq!(fs::read(unpacked).unwrap(), disk);
    }
}

#[test]
fn the_seek_table_of_a_layer_is_read_by_others() {
    if !have(&["grpc-python", "zstd"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let at = demo.directory();
    diskfs(&demo, &["convert", "demo.qcow2", "demo.raw"]).bytes();
    let words = ["oci", "build", "demo.raw", "-o", "layout", "--compress"];
    let built = diskfs(&demo, &[&words[..], &["zstd", "--json"]].concat()).json();
    let layer = built["layer_digest"].as_str().unwrap().replace(':', "/");
    let layer = format!("layout/blobs/{layer}");
    run(at, "zstd", &["-q", "-t", &layer]);
    let script = "
import pyzstd, sys, tarfile
with pyzstd.SeekableZstdFile(sys.argv[1]) as layer:
    with tarfile.open(fileobj=layer) as members:
        disk = members.extractfile('disk/demo.raw')
        for at in (50 << 20, 3 << 20, 0):
            disk.seek(at)
            sys.stdout.buffer.write(disk.read(4 << 20))
";
    let found = run(at, "grpc-python", &["-W", "ignore", "-c", script, &layer]);
    let disk = fs::read(at.join("demo.raw")).unwrap();
    let parts = [50 << 20, 3 << 20, 0].map(|start| &disk[start..start + (4 << 20)]);
    assert!(found == parts.concat());
}

#[test]
fn disks_are_read_out_of_images_of_other_programs() {
    if !have(&["skopeo", "umoci"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let at = demo.directory();
    insert(at, "demo.qcow2");
    let cat = |name: &str| diskfs(&demo, &["cat", &format!("{name}:/etc/hostname")]);
    let spooled = cat("oci-layout:u:v");
    assert_eq!(spooled.output.stdout, b"demo\n");
    assert!(spooled.stderr().contains("into a temporary file"));
    for to in ["oci-archive:u.tar:w", "oci:z:w"] {
        run(at, "skopeo", &["copy", "-q", "oci:u:v", to]);
    }
    assert_eq!(cat("oci-archive:u.tar").output.stdout, b"demo\n");
    assert_eq!(cat("oci-layout:z:w").output.stdout, b"demo\n");
    // A second disk in another layer, and the first one removed by a whiteout.
    let words = ["insert", "--rootless", "--image", "u:v"];
    let second = ["demo.qcow2", "/disk/second.qcow2"];
    run(at, "umoci", &[&words[..], &second].concat());
    let (code, error) = cat("oci-layout:u:v").failure();
    assert_eq!(code, 2);
    assert!(
        error.contains("/disk/demo.qcow2, /disk/second.qcow2"),
        "{error}"
    );
    let second = cat("oci-layout:u:v#/disk/second.qcow2");
    assert_eq!(second.output.stdout, b"demo\n");
    let whiteout = ["--whiteout", "/disk/demo.qcow2"];
    run(at, "umoci", &[&words[..], &whiteout].concat());
    assert_eq!(cat("oci-layout:u:v").output.stdout, b"demo\n");
    let (code, error) = cat("oci-layout:u:x").failure();
    assert_eq!(code, 3);
    assert!(
        error.contains("no such image: `x`; available: v"),
        "{error}"
    );
}

/// Stores a blob in a layout and returns its descriptor.
fn blob(layout: &Path, media_type: &str, bytes: &[u8]) -> Value {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join("new"), bytes).unwrap();
    let sum = String::from_utf8(run(&blobs, "sha256sum", &["new"])).unwrap();
    let digest = sum.split(' ').next().unwrap();
    fs::rename(blobs.join("new"), blobs.join(digest)).unwrap();
    json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()})
}

#[test]
fn blobs_of_artifacts_are_disks() {
    if !have(&["sha256sum", "zstd", "tar"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let at = demo.directory();
    diskfs(&demo, &["convert", "demo.qcow2", "demo.raw"]).bytes();
    let layout = at.join("export");
    let zstd = run(at, "zstd", &["-c", "-q", "demo.raw"]);
    let mut root = blob(&layout, "application/vnd.kubevirt.disk.raw+zstd", &zstd);
    root["annotations"] = json!({"io.kubevirt.disk.name": "root"});
    let qcow2 = fs::read(at.join("demo.qcow2")).unwrap();
    let mut data = blob(&layout, "application/vnd.kubevirt.disk.qcow2", &qcow2);
    data["annotations"] = json!({"io.kubevirt.disk.name": "data"});
    let config = "application/vnd.kubevirt.virtualmachine.config.v1+json";
    let manifest = json!({
        "schemaVersion": 2,
        "artifactType": "application/vnd.kubevirt.virtualmachine.v1",
        "config": blob(&layout, config, b"{}"),
        "layers": [root, data],
    });
    let manifest = manifest.to_string();
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = blob(&layout, media_type, manifest.as_bytes());
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(layout.join("index.json"), index.to_string()).unwrap();
    fs::write(
        layout.join("oci-layout"),
        "{\"imageLayoutVersion\":\"1.0.0\"}",
    )
    .unwrap();
    run(at, "tar", &["-C", "export", "-cf", "export.tar", "."]);
    for name in ["oci-layout:export", "oci-archive:export.tar"] {
        for (disk, format) in [("root", "raw"), ("data", "qcow2")] {
            let disk = format!("{name}#{disk}");
            let cat = diskfs(&demo, &["cat", &format!("{disk}:/etc/hostname")]);
            assert_eq!(cat.output.stdout, b"demo\n", "{disk}: {}", cat.stderr());
            let info = diskfs(&demo, &["info", "--json", &disk]);
            let info: Value = serde_json::from_slice(&info.output.stdout).unwrap();
            assert_eq!(info["image"]["format"], format);
        }
        let (code, error) = diskfs(&demo, &["info", name]).failure();
        assert_eq!(code, 2);
        assert!(error.contains("several disks: root, data"), "{error}");
    }
}

#[test]
fn the_same_disk_makes_the_same_bytes() {
    let demo = image("demo.qcow2");
    let at = demo.directory();
    for compress in ["zstd", "gzip"] {
        let targets = [format!("{compress}/one"), format!("{compress}/two")];
        fs::create_dir(at.join(compress)).unwrap();
        for target in &targets {
            build(&demo, target, &["--compress", compress]);
            build(&demo, &format!("{target}.tar"), &["--compress", compress]);
        }
        let [one, two] = targets.map(|target| at.join(target));
        let names = |directory: &Path| {
            let prefix = format!("{}/", directory.display());
            let files = files(directory).into_iter();
            let files = files.map(|(name, bytes)| (name.replace(&prefix, ""), bytes));
            files.collect::<Vec<_>>()
        };
        assert_eq!(names(&one), names(&two));
        assert_eq!(
            fs::read(one.with_extension("tar")).unwrap(),
            fs::read(two.with_extension("tar")).unwrap()
        );
        let mode = |path: &str| one.join(path).metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(""), mode("index.json")), (0o755, 0o644));
        // Nothing else is left in the directory.
        assert_eq!(fs::read_dir(at.join(compress)).unwrap().count(), 4);
    }
    let words = ["oci", "build", "demo.qcow2", "-o", "later", "--json"];
    let dated = diskfs_with(at, &words, &[("SOURCE_DATE_EPOCH", "1700000000")]).json();
    assert_eq!(dated["disk_path"], "/disk/demo.qcow2");
    assert_eq!(
        dated["disk_bytes"],
        at.join("demo.qcow2").metadata().unwrap().len()
    );
    let manifest = dated["manifest_digest"].as_str().unwrap();
    let manifest = fs::read(at.join("later/blobs").join(manifest.replace(':', "/"))).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let config = manifest["config"]["digest"].as_str().unwrap();
    let config = fs::read_to_string(at.join("later/blobs").join(config.replace(':', "/")));
    assert!(
        config
            .unwrap()
            .contains("\"created\":\"2023-11-14T22:13:20Z\"")
    );
}

#[test]
fn only_complete_disks_are_stored_as_they_are() {
    let demo = image("demo.qcow2");
    let at = demo.directory();
    let create = ["create", "-b", "demo.qcow2", "-F", "qcow2", "overlay.qcow2"];
    diskfs(&demo, &create).bytes();
    let build = |words: &[&str]| {
        let before = fs::read_dir(at).unwrap().count();
        let (code, error) = diskfs_in(at, &[&["oci", "build"], words].concat()).failure();
        assert_eq!(fs::read_dir(at).unwrap().count(), before, "{error}");
        (code, error)
    };
    for target in ["new", "new.tar"] {
        let (code, error) = build(&["overlay.qcow2", "-o", target]);
        assert_eq!(code, 2);
        assert!(
            error.contains("backing file") && error.contains("-O qcow2"),
            "{error}"
        );
    }
    let (code, error) = build(&["demo.qcow2", "-o", "overlay.qcow2"]);
    assert_eq!(code, 1);
    assert!(error.contains("exists"), "{error}");
    for path in ["../etc/x", "/disk/"] {
        let (code, _) = build(&["demo.qcow2", "-o", "new", "--path", path]);
        assert_eq!(code, 2, "{path}");
    }
    let (code, _) = build(&["demo.qcow2", "-o", "new", "--chown", "me"]);
    assert_eq!(code, 2);
    for (format, name) in [("raw", "overlay.img"), ("qcow2", "overlay.qcow2")] {
        let words = ["oci", "build", "overlay.qcow2", "-O", format, "-o", format];
        diskfs(&demo, &words).bytes();
        let path = format!("oci-layout:{format}#/disk/{name}");
        diskfs(&demo, &["compare", &path, "demo.qcow2"]).bytes();
        let info = diskfs(&demo, &["info", "--json", &path]).json();
        assert_eq!(info["image"]["format"], format);
    }
}

#[test]
fn a_damaged_source_is_named_with_its_exit_code() {
    let demo = image("demo.qcow2");
    let at = demo.directory();
    let words = ["create", "-q", "-f", "qcow2", "damaged.qcow2", "1M"];
    run(at, "qemu-img", &words);
    let words = ["-c", "write 0 1M", "damaged.qcow2"];
    run(at, "qemu-io", &words);
    let path = at.join("damaged.qcow2");
    let mut bytes = fs::read(&path).unwrap();
    // An entry of the first L2 table (the format's specification, "Cluster mapping"): an offset that
    // is not that of a cluster. No partition table is there.
    let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    let l2 = number(usize::try_from(number(40)).unwrap()) & 0x00ff_ffff_ffff_fe00;
    let l2 = usize::try_from(l2).unwrap() + 8 * 8;
    bytes[l2..l2 + 8].copy_from_slice(&(1_u64 << 63 | 0x1200).to_be_bytes());
    fs::write(&path, bytes).unwrap();
    let words = ["oci", "build", "damaged.qcow2", "-o", "new", "-O", "raw"];
    let (code, error) = diskfs(&demo, &words).failure();
    assert_eq!(code, 5, "{error}");
    assert!(
        error.contains("damaged.qcow2") && !error.contains("new:"),
        "{error}"
    );
    assert!(!demo.directory().join("new").exists());
}

#[test]
fn images_are_only_read() {
    let demo = image("demo.qcow2");
    build(&demo, "layout", &[]);
    let before = files(&demo.directory().join("layout"));
    for (words, code) in [
        (&["touch", "oci-layout:layout:/new"][..], 1),
        (&["resize", "oci-layout:layout", "+1G"], 1),
        (&["snapshot", "create", "oci-layout:layout", "x"], 1),
        (&["convert", "demo.qcow2", "oci-layout:layout"], 2),
        (
            &[
                "create",
                "-b",
                "oci-layout:layout",
                "-F",
                "qcow2",
                "o.qcow2",
            ],
            6,
        ),
        (
            &["touch", "--overlay", "o.qcow2", "oci-layout:layout:/new"],
            4,
        ),
        (&["ls", "oci-layout::/etc"], 2),
        (&["ls", "oci-layout:missing:/etc"], 3),
        (&["ls", "oci-archive:demo.qcow2:/etc"], 5),
    ] {
        let (found, error) = diskfs_in(demo.directory(), words).failure();
        assert_eq!(found, code, "{words:?}: {error}");
    }
    assert_eq!(files(&demo.directory().join("layout")), before);
    assert!(!demo.directory().join("o.qcow2").exists());
}

#[test]
fn layouts_do_not_lead_out_of_their_directory() {
    let demo = image("demo.qcow2");
    let at = demo.directory();
    build(&demo, "layout", &["--compress", "none"]);
    let layer = largest_blob(&at.join("layout"));
    // A blob that is a link to a file outside.
    fs::rename(&layer, at.join("outside")).unwrap();
    symlink("../../../outside", &layer).unwrap();
    for sandbox in [&[][..], &["--no-sandbox"]] {
        let words = [&["ls", "oci-layout:layout:/"], sandbox].concat();
        let (code, error) = diskfs_in(at, &words).failure();
        assert_eq!(code, 6, "{error}");
    }
    // A disk that names a file.
    fs::remove_dir_all(at.join("layout")).unwrap();
    build(
        &demo,
        "layout",
        &["--compress", "none", "--path", "/disk/evil.qcow2"],
    );
    let layer = largest_blob(&at.join("layout"));
    let mut bytes = fs::read(&layer).unwrap();
    let name = b"/etc/passwd";
    let header = &mut bytes[1024..];
    header[8..16].copy_from_slice(&0x1000_u64.to_be_bytes());
    header[16..20].copy_from_slice(&u32::try_from(name.len()).unwrap().to_be_bytes());
    header[0x1000..0x1000 + name.len()].copy_from_slice(name);
    fs::write(&layer, bytes).unwrap();
    for sandbox in [&[][..], &["--no-sandbox", "--allow-backing", "/"]] {
        let words = [&["ls", "oci-layout:layout:/"], sandbox].concat();
        let (code, error) = diskfs_in(at, &words).failure();
        assert_eq!(code, 6, "{error}");
        assert!(error.contains("must not refer to other files"), "{error}");
    }
}

#[test]
fn an_interrupted_build_leaves_nothing() {
    let demo = image("demo.qcow2");
    let at = demo.directory().canonicalize().unwrap();
    diskfs(&demo, &["convert", "demo.qcow2", "large.raw"]).bytes();
    // gzip needs some seconds for it.
    let large = fs::File::options().write(true).open(at.join("large.raw"));
    large.unwrap().set_len(2 << 30).unwrap();
    let before = fs::read_dir(&at).unwrap().count();
    for (target, signal) in [("web", "-INT"), ("web", "-KILL"), ("web.tar", "-KILL")] {
        let words = ["oci", "build", "large.raw", "-o", target];
        crate::build::interrupted(&at, &words, signal);
        assert_eq!(
            fs::read_dir(&at).unwrap().count(),
            before,
            "{target} {signal}"
        );
    }
}

#[test]
fn a_full_host_gets_no_half_image() {
    let Some(tmpfs) = Tmpfs::new("64K") else {
        return;
    };
    let demo = image("demo.qcow2");
    for target in ["web", "web.tar"] {
        let path = tmpfs.path().join(target);
        let path = path.to_str().unwrap();
        let words = [
            "oci",
            "build",
            "demo.qcow2",
            "-o",
            path,
            "--compress",
            "none",
        ];
        let (code, error) = diskfs(&demo, &words).failure();
        assert_eq!(code, 1, "{error}");
        assert!(error.contains("o space left"), "{error}");
        assert_eq!(fs::read_dir(tmpfs.path()).unwrap().count(), 0);
    }
}
