//! Uploads of large blobs to a registry, in chunks.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use diskfs_fixtures::{ImageRegistry, pattern};

use crate::oci::{largest_blob, run};
use crate::registry::Repository;
use crate::{DISKFS, diskfs_in};

/// The size of the disk: two whole chunks of 16 MiB, and a part of one.
const DISK_BYTES: usize = 40 << 20;

/// Starts a registry, and makes the layout `large` in its directory, whose layer is not compressed.
fn with_large_image() -> Option<Repository> {
    let repository = Repository::start(&["skopeo"])?;
    let disk = repository.at().join("large.raw");
    fs::write(disk, pattern("large", DISK_BYTES)).unwrap();
    let words = "oci build large.raw -o large --compress none";
    let words: Vec<_> = words.split(' ').collect();
    repository.diskfs(&words).bytes();
    Some(repository)
}

/// Returns the number of bytes that the registry has of unfinished uploads to a repository.
fn uploading(at: &Path, name: &str) -> u64 {
    let path = format!("registry/docker/registry/v2/repositories/{name}/_uploads");
    let uploads = fs::read_dir(at.join(path)).into_iter().flatten();
    let data = uploads.map(|upload| upload.unwrap().path().join("data"));
    data.filter_map(|data| Some(data.metadata().ok()?.len()))
        .sum()
}

#[test]
fn a_blob_of_several_chunks_arrives_whole() {
    let Some(repository) = with_large_image() else {
        return;
    };
    let (at, uri) = (repository.at(), repository.uri("large:1"));
    let pushed = repository.diskfs(&["oci", "push", "large", &uri, "--json"]);
    let pushed = pushed.json();
    let layer = largest_blob(&at.join("large"));
    let layer_bytes = layer.metadata().unwrap().len();
    assert!(layer_bytes > DISK_BYTES as u64);
    assert!(
        pushed["uploaded_bytes"].as_u64() > Some(layer_bytes),
        "{pushed}"
    );
    assert_eq!(repository.digest("large:1"), pushed["manifest_digest"]);
    // skopeo verifies the digests of blobs that it copies.
    let words = ["copy", "-q", "--src-tls-verify=false"];
    let places = [&repository.docker("large:1"), "oci:back:1"];
    run(at, "skopeo", &[&words[..], &places].concat());
    let compare = ["compare", "large.raw", &uri];
    repository.diskfs(&compare).text();
    let back = diskfs_in(at, &["compare", "large.raw", "oci-layout:back"]);
    assert_eq!(back.code(), Some(0), "{}", back.stderr());
}

#[test]
fn a_registry_that_is_killed_during_an_upload_gets_no_tag() {
    let Some(repository) = with_large_image() else {
        return;
    };
    let uri = repository.uri("large:1");
    let Repository { demo, registry } = repository;
    let at = demo.directory();
    std::fs::write(at.join("settings.toml"), "[remote]\nretry = 8.0\n").unwrap();
    let push = Command::new(DISKFS)
        .args(["oci", "push", "large", &uri])
        .current_dir(at)
        .env_remove("RUST_LOG")
        .env("DISKFS_CONFIG", "settings.toml")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while uploading(at, "large") == 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "no upload");
    }
    drop(registry);
    let ended = push.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&uri) && said.contains("cannot connect"),
        "{said}"
    );
    assert!(begin.elapsed() < Duration::from_secs(50));
    let again = ImageRegistry::start(at, "");
    let uri = format!("oci://{}/large:1", again.host);
    let (code, error) = diskfs_in(at, &["info", &uri]).failure();
    assert_eq!(code, 3, "{error}");
    // The next push is not disturbed by what the last one left.
    diskfs_in(at, &["oci", "push", "large", &uri]).text();
    diskfs_in(at, &["compare", "large.raw", &uri]).text();
}
