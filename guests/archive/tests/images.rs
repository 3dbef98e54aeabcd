//! OCI image layouts and archives of `docker save`, opened and unpacked.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;
mod layout;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{judge, listing, python, require_judge, same};
use diskfs_archive::image::{Platform, Selection};
use diskfs_archive::tree::{Limits, WriteOptions};
use diskfs_archive::{Digest, Image, Tree};
use diskfs_disk::{ErrorKind, Result};
use diskfs_fixtures::require;
use diskfs_vfs::testing::WritableMemoryFs;
use layout::{Layout, Packing, small_tar};
use serde_json::json;

const LIMIT_BYTES: u64 = 1 << 30;

fn open(path: &Path, reference: Option<&str>) -> Result<Image> {
    let selection = Selection {
        reference: reference.map(str::to_owned),
        platform: None,
    };
    Image::open(path, &selection, LIMIT_BYTES)
}

fn for_platform(path: &Path, platform: &str) -> Result<Image> {
    let selection = Selection {
        reference: None,
        platform: Some(Platform::parse(platform)?),
    };
    Image::open(path, &selection, LIMIT_BYTES)
}

fn unpack(image: &Image) -> Result<WritableMemoryFs> {
    let go_on = &mut |_| ControlFlow::Continue(());
    let tree = Tree::plan(image.layers(), &Limits::default(), go_on)?;
    let fs = WritableMemoryFs::new();
    tree.write_to(&fs, &WriteOptions::default(), go_on)?;
    Ok(fs)
}

fn tar(archive: &Path, options: &[&str], dir: &Path) {
    let mut command = Command::new("tar");
    command.arg("-cf").arg(archive).args(options);
    let status = command.arg("-C").arg(dir).arg(".").status();
    assert!(status.unwrap().success());
}

/// Writes the layers of a fixed case, and returns them with the listing of the judge.
fn layers(dir: &Path) -> (Vec<Vec<u8>>, Vec<String>) {
    python(&["cases".as_ref(), dir.as_os_str()]);
    let case = dir.join("replaced");
    let paths: Vec<PathBuf> = (0..3).map(|n| case.join(format!("{n}.tar"))).collect();
    let expected = judge("apply", &case.join("root"), &paths);
    let layers = paths.iter().map(|path| std::fs::read(path).unwrap());
    (layers.collect(), expected)
}

#[test]
fn layouts_and_archives_of_all_forms_make_one_tree() {
    if !require_judge() || require("tar").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (layers, expected) = layers(dir.path());
    let check = |path: &Path, reference| {
        let image = open(path, reference).unwrap();
        assert_eq!(image.config().process.entrypoint, ["/init"]);
        let fs = unpack(&image).unwrap();
        same(&listing(&fs), &expected, &path.display().to_string());
    };
    let oci = dir.path().join("oci");
    let mut layout = Layout::new(&oci);
    let packed = [Packing::Gzip, Packing::Zstd, Packing::None];
    let manifest = layout.image("amd64", &layers, packed.iter().copied().cycle());
    layout.index(&[Layout::tagged(&manifest, "latest")]);
    check(&oci, None);
    check(&oci, Some("latest"));
    check(&oci, Some(manifest["digest"].as_str().unwrap()));
    for (name, options) in [("oci.tar", vec![]), ("oci.tgz", vec!["-z"])] {
        let archive = dir.path().join(name);
        tar(&archive, &options, &oci);
        check(&archive, Some("latest"));
    }
    for is_old in [true, false] {
        let docker = dir.path().join(format!("docker-{is_old}"));
        Layout::docker(&docker, &layers, is_old);
        check(&docker, Some("test:latest"));
        let archive = docker.with_extension("tar");
        tar(&archive, &[], &docker);
        check(&archive, Some("test"));
        check(&archive, None);
    }
}

#[test]
fn images_are_selected_by_name_and_platform() {
    let dir = tempfile::tempdir().unwrap();
    let mut layout = Layout::new(dir.path());
    let mut image = |platform: &str, name: &str| {
        let (architecture, variant) = platform.split_once('/').unwrap_or((platform, ""));
        let tar = small_tar(name, b"x");
        let mut descriptor = layout.image(architecture, &[tar], [Packing::None].into_iter());
        descriptor["platform"] =
            json!({"os": "linux", "architecture": architecture, "variant": variant});
        descriptor
    };
    let of_platforms = ["amd64", "arm64", "arm/v6", "arm/v7", "riscv64"];
    let mut manifests: Vec<_> = of_platforms.iter().map(|name| image(name, name)).collect();
    let mut attestation = manifests[0].clone();
    attestation["platform"] = json!({"os": "unknown", "architecture": "unknown"});
    manifests.push(attestation);
    let other = image("amd64", "other");
    let nested = layout.nested_index(&manifests);
    let both = [
        Layout::tagged(&nested, "all"),
        Layout::tagged(&other, "v:2"),
    ];
    layout.index(&both);

    let path = dir.path();
    let error = open(path, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
    assert!(error.to_string().contains("v:2"), "{error}");
    assert_eq!(open(path, Some("v:2")).unwrap().name(), Some("v:2"));
    let error = open(path, Some("none")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("available: all, v:2"), "{error}");
    layout.index(&both[..1]);
    let image = for_platform(path, "linux/arm/v7").unwrap();
    assert_eq!(image.config().platform.architecture, "arm");
    let error = for_platform(path, "linux/arm").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ambiguous);
    assert!(error.to_string().contains("linux/arm/v6"), "{error}");
    let error = for_platform(path, "s390x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("linux/riscv64"), "{error}");
    // A digest of a manifest in a nested index.
    let digest = manifests[4]["digest"].as_str().unwrap();
    let image = open(path, Some(digest)).unwrap();
    assert_eq!(image.config().platform.architecture, "riscv64");
    let missing = Digest::of(b"missing").to_string();
    assert_eq!(
        open(path, Some(&missing)).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

/// A layout with one image of one layer.
fn simple(dir: &Path) -> (Layout, serde_json::Value) {
    let mut layout = Layout::new(dir);
    let tar = small_tar("file", b"contents");
    let manifest = layout.image("amd64", &[tar], [Packing::Gzip].into_iter());
    layout.index(std::slice::from_ref(&manifest));
    (layout, manifest)
}

#[test]
fn changed_blobs_are_refused_by_their_digest() {
    let dir = tempfile::tempdir().unwrap();
    let (layout, descriptor) = simple(dir.path());
    let manifest = layout.json(&descriptor);
    let config = layout.json(&manifest["config"]);
    for blob in [&descriptor, &manifest["config"], &manifest["layers"][0]] {
        let digest = blob["digest"].as_str().unwrap();
        let path = layout.blob(digest);
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        let last = bad.len() - 1;
        bad[last] ^= 1;
        let longer = [&good[..], b" "].concat();
        for bytes in [bad, longer, Vec::new()] {
            std::fs::write(&path, bytes).unwrap();
            let error = open(dir.path(), None)
                .and_then(|image| unpack(&image))
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains(&digest[7..]), "{error}");
        }
        std::fs::write(&path, good).unwrap();
    }
    // The decompressed layer has another digest than the configuration says.
    let mut config = config;
    config["rootfs"]["diff_ids"][0] = json!(Digest::of(b"other").to_string());
    let mut layout = layout;
    let mut manifest = manifest;
    manifest["config"] = layout.add_json(&config, "application/vnd.oci.image.config.v1+json");
    let descriptor = layout.add_json(&manifest, "application/vnd.oci.image.manifest.v1+json");
    layout.index(&[descriptor]);
    let error = open(dir.path(), None)
        .and_then(|image| unpack(&image))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("digest of the decompressed layer"),
        "{error}"
    );
}

#[test]
fn unsupported_layers_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let (mut layout, descriptor) = simple(dir.path());
    let manifest = layout.json(&descriptor);
    let foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
    let missing = Digest::of(b"missing").to_string();
    for (key, value, digest, told) in [
        (
            "layers",
            "application/vnd.oci.image.layer.v1.tar+encrypted",
            None,
            "encrypted",
        ),
        (
            "layers",
            "application/vnd.oci.image.layer.v1.tar+x",
            None,
            "tar+x",
        ),
        (
            "layers",
            foreign,
            Some(&missing),
            "non-distributable layer sha256:",
        ),
        (
            "config",
            "application/vnd.cncf.helm.config.v1+json",
            None,
            "helm",
        ),
    ] {
        let mut manifest = manifest.clone();
        let blob = match key {
            "layers" => &mut manifest["layers"][0],
            key => &mut manifest[key],
        };
        blob["mediaType"] = json!(value);
        if let Some(digest) = digest {
            blob["digest"] = json!(digest);
        }
        let descriptor = layout.add_json(&manifest, "application/vnd.oci.image.manifest.v1+json");
        layout.index(&[descriptor]);
        let error = open(dir.path(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
    // A foreign layer with its blob is a layer like any other.
    let mut manifest = manifest;
    manifest["layers"][0]["mediaType"] = json!(foreign);
    let descriptor = layout.add_json(&manifest, "application/vnd.oci.image.manifest.v1+json");
    layout.index(&[descriptor]);
    unpack(&open(dir.path(), None).unwrap()).unwrap();
}

#[test]
fn hostile_layouts_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (mut layout, descriptor) = simple(dir.path());
    // Paths in digests.
    let mut bad = descriptor.clone();
    bad["digest"] = json!("sha256:../../../../../../etc/passwd");
    layout.index(&[bad]);
    assert_eq!(
        open(dir.path(), None).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    // Blobs outside of the layout.
    layout.index(std::slice::from_ref(&descriptor));
    let blob = layout.blob(descriptor["digest"].as_str().unwrap());
    std::fs::remove_file(&blob).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &blob).unwrap();
    assert_eq!(
        open(dir.path(), None).unwrap_err().kind(),
        ErrorKind::Denied
    );
    // Indexes in indexes.
    let mut nested = layout.nested_index(&[]);
    for _ in 0..5 {
        nested = layout.nested_index(&[nested]);
    }
    layout.index(&[nested]);
    assert_eq!(
        open(dir.path(), None).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    // A document that is too large.
    let index = dir.path().join("index.json");
    let file = std::fs::File::create(&index).unwrap();
    file.set_len(1 << 30).unwrap();
    assert_eq!(
        open(dir.path(), None).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    std::fs::write(&index, "[".repeat(1 << 20)).unwrap();
    assert_eq!(
        open(dir.path(), None).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    // Paths of Docker's manifest.
    let docker = dir.path().join("docker");
    Layout::docker(&docker, &[small_tar("x", b"x")], true);
    let manifest = docker.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let mut entries: serde_json::Value = serde_json::from_str(&text).unwrap();
    entries[0]["Layers"][0] = json!("../../../../etc/passwd");
    std::fs::write(&manifest, entries.to_string()).unwrap();
    assert_eq!(open(&docker, None).unwrap_err().kind(), ErrorKind::Denied);
}

#[test]
fn an_archive_of_files_is_not_an_image() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("files.tar");
    std::fs::write(&path, small_tar("etc/passwd", b"root")).unwrap();
    let selection = Selection::default();
    assert!(
        Image::detect(&path, &selection, LIMIT_BYTES)
            .unwrap()
            .is_none()
    );
    assert_eq!(open(&path, None).unwrap_err().kind(), ErrorKind::Invalid);
}
