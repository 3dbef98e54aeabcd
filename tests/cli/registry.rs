//! OCI images in registries: pushed by diskfs and by skopeo, read by both.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use diskfs_fixtures::{ImageRegistry, TcpServer, TempImage, free_port, have, image, pattern};
use serde_json::Value;

use crate::{diskfs_in, diskfs_with};

/// Runs a program in the directory.
fn run(directory: &Path, program: &str, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).current_dir(directory).output().unwrap()
}

/// Runs skopeo in the directory, and returns its output.
fn skopeo(directory: &Path, words: &[&str]) -> Vec<u8> {
    let done = run(directory, "skopeo", words);
    assert!(done.status.success(), "{words:?}: {done:?}");
    done.stdout
}

fn build(demo: &TempImage, target: &str, options: &[&str]) {
    let words = ["oci", "build", "demo.qcow2", "-o", target];
    diskfs_in(demo.directory(), &[&words[..], options].concat()).bytes();
}

fn digest(directory: &Path, image: &str) -> String {
    let words = ["inspect", "--tls-verify=false", image];
    let inspected: Value = serde_json::from_slice(&skopeo(directory, &words)).unwrap();
    inspected["Digest"].as_str().unwrap().to_owned()
}

#[test]
fn pushed_images_are_read_by_us_and_by_skopeo() {
    if !have(&["docker-registry", "skopeo"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let at = demo.directory();
    let registry = ImageRegistry::start(at, "");
    let host = &registry.host;
    for compress in ["zstd", "gzip", "none"] {
        let (layout, archive) = (compress.to_owned(), format!("{compress}.tar"));
        build(&demo, &layout, &["--compress", compress, "--tag", "41"]);
        build(&demo, &archive, &["--compress", compress, "--tag", "41"]);
        let uri = format!("oci://{host}/disks/{compress}:41");
        let push = |from: &str| diskfs_in(at, &["oci", "push", from, &uri, "--json"]).json();
        let first = push(&layout);
        assert_eq!(first["present_bytes"], 0, "{first}");
        // Nothing is uploaded twice.
        let second = push(&format!("oci-archive:{archive}:41"));
        assert_eq!(second["uploaded_bytes"], 0, "{second}");
        assert_eq!(second["present_bytes"], first["uploaded_bytes"]);
        let docker = format!("docker://{host}/disks/{compress}:41");
        let found = digest(at, &docker);
        assert_eq!(found, first["manifest_digest"].as_str().unwrap());
        let back = format!("oci:{compress}-back:41");
        skopeo(
            at,
            &["copy", "-q", "--src-tls-verify=false", &docker, &back],
        );
        for name in [
            uri.clone(),
            format!("oci://{host}/disks/{compress}@{found}"),
            format!("{uri}#/disk/demo.qcow2"),
            format!("oci-layout:{compress}-back"),
        ] {
            let cat = diskfs_in(at, &["cat", &format!("{name}:/etc/hostname")]);
            // skopeo compresses layers that were not.
            assert_eq!(cat.output.stdout, b"demo\n", "{name}: {}", cat.stderr());
        }
        diskfs_in(at, &["compare", "demo.qcow2", &uri]).text();
        diskfs_in(at, &["--no-sandbox", "compare", "demo.qcow2", &uri]).text();
        let info = diskfs_in(at, &["info", "--json", &uri]).json();
        assert_eq!(info["image"]["path"], uri.as_str(), "{info}");
        assert_eq!(info["image"]["format"], "qcow2");
    }
    let uri = format!("oci://{host}/disks/gzip:41");
    let copied = ["qemu-img", "convert", "-O", "raw", &uri, "copy.raw"];
    diskfs_in(at, &copied).text();
    diskfs_in(at, &["compare", "demo.qcow2", "copy.raw"]).text();
}

#[test]
fn only_parts_of_a_layer_with_a_seek_table_are_read() {
    if !have(&["docker-registry", "nginx"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let at = demo.directory();
    // A disk of 64 MiB with a system, and as much again that doesn't compress.
    diskfs_in(at, &["convert", "demo.qcow2", "demo.raw"]).bytes();
    let mut disk = fs::File::options().append(true).open(at.join("demo.raw"));
    let noise = pattern("noise", 64 << 20);
    disk.as_mut().unwrap().write_all(&noise).unwrap();
    let words = [
        "oci",
        "build",
        "demo.raw",
        "-o",
        "web",
        "--compress",
        "zstd",
    ];
    diskfs_in(at, &words).bytes();
    let registry = ImageRegistry::start(at, "");
    let uri = format!("oci://{}/web", registry.host);
    diskfs_in(at, &["oci", "push", "web", &uri]).text();
    let port = free_port();
    let lines = format!(
        "listen 127.0.0.1:{port}; location / {{ proxy_pass http://{}; }}",
        registry.host
    );
    let _proxy = TcpServer::nginx(at, at, port, &lines);
    let uri = format!("oci://127.0.0.1:{port}/web");
    let cat = diskfs_in(at, &["cat", &format!("{uri}#/disk/demo.raw:/etc/hostname")]);
    // A warning says that the disk is larger than its partition table.
    assert_eq!(cat.output.stdout, b"demo\n", "{}", cat.stderr());
    // `... "GET /v2/... HTTP/1.1" 206 BYTES ...`
    let log = fs::read_to_string(at.join("nginx.log")).unwrap();
    let sent = log.lines().map(|line| {
        let (_, answer) = line.split_once(" HTTP/1.1\" ").unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    });
    let (requests, bytes) = (log.lines().count(), sent.sum::<u64>());
    assert!(
        requests < 30 && bytes < 8 << 20,
        "{requests}: {bytes}: {log}"
    );
}

#[test]
fn images_of_skopeo_are_read() {
    if !have(&["docker-registry", "skopeo", "umoci"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let at = demo.directory();
    let registry = ImageRegistry::start(at, "");
    let host = &registry.host;
    let umoci = |words: &[&str]| {
        let done = run(at, "umoci", words);
        assert!(done.status.success(), "{done:?}");
    };
    umoci(&["init", "--layout", "u"]);
    umoci(&["new", "--image", "u:v"]);
    let insert = ["insert", "--rootless", "--image", "u:v", "demo.qcow2"];
    umoci(&[&insert[..], &["/disk/demo.qcow2"]].concat());
    for (format, name) in [("oci", "o"), ("v2s2", "d")] {
        let to = format!("docker://{host}/{name}:v");
        let words = ["copy", "-q", "--dest-tls-verify=false", "--format", format];
        skopeo(at, &[&words[..], &["oci:u:v", &to]].concat());
        let cat = diskfs_in(
            at,
            &["cat", &format!("oci://{host}/{name}:v:/etc/hostname")],
        );
        assert_eq!(cat.output.stdout, b"demo\n", "{}", cat.stderr());
    }
    // A layer that is read as a whole is verified: here only the time in the header of gzip is
    // another one.
    let blobs = at.join("u/blobs/sha256");
    let files = fs::read_dir(&blobs)
        .unwrap()
        .map(|file| file.unwrap().path());
    let layer = files
        .max_by_key(|file| file.metadata().unwrap().len())
        .unwrap();
    let mut bytes = fs::read(&layer).unwrap();
    assert_eq!(bytes[..2], [0x1f, 0x8b]);
    bytes[5] ^= 1;
    fs::write(&layer, bytes).unwrap();
    let (code, error) = diskfs_in(at, &["ls", "oci-layout:u:v:/"]).failure();
    assert_eq!(code, 5, "{error}");
    assert!(error.contains("wrong digest of the layer"), "{error}");
}

#[test]
fn a_failed_push_leaves_the_tag() {
    if !have(&["docker-registry", "skopeo"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let at = demo.directory();
    let registry = ImageRegistry::start(at, "");
    let host = &registry.host;
    build(&demo, "good", &[]);
    build(&demo, "bad", &["--compress", "none", "--label", "a=b"]);
    let uri = format!("oci://{host}/web");
    diskfs_in(at, &["oci", "push", "good", &uri]).text();
    let before = digest(at, &format!("docker://{host}/web:latest"));
    let blobs = at.join("bad/blobs/sha256");
    let files = fs::read_dir(&blobs)
        .unwrap()
        .map(|file| file.unwrap().path());
    let layer = files
        .max_by_key(|file| file.metadata().unwrap().len())
        .unwrap();
    let mut bytes = fs::read(&layer).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&layer, bytes).unwrap();
    for options in [&[][..], &["--no-sandbox"]] {
        let words = [options, &["oci", "push", "bad", &uri]].concat();
        let (code, error) = diskfs_in(at, &words).failure();
        assert_eq!(code, 5, "{error}");
        assert!(error.contains("wrong digest of the blob"), "{error}");
        assert_eq!(digest(at, &format!("docker://{host}/web:latest")), before);
    }
    let other = format!("{uri}@sha256:{}", "0".repeat(64));
    for (words, code, said) in [
        (&["oci", "push", "good", "web:1"][..], 2, "oci://"),
        (&["oci", "push", "good", &other], 2, "has the digest"),
        (&["oci", "push", "missing", &uri], 3, "missing"),
        (
            &["oci", "push", "good", "oci://127.0.0.1:1/web"],
            1,
            "cannot connect",
        ),
        (&["info", &format!("{uri}:missing")], 3, "MANIFEST_UNKNOWN"),
        (&["info", &format!("oci://{host}/other")], 3, "404"),
        (&["info", &format!("oci://{host}")], 2, "missing repository"),
        (
            &["info", &format!("oci://me:s3cret@{host}/web")],
            2,
            "password",
        ),
        (
            &["cp", "demo.qcow2", &format!("{uri}:/etc/new")],
            1,
            "read-only",
        ),
        (&["snapshot", "create", &uri, "one"], 1, "read-only"),
        (&["info", "oci://web.invalid/web"], 1, "cannot connect"),
    ] {
        let (found, error) = diskfs_in(at, words).failure();
        assert!(error.contains(said), "{words:?}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
        assert_eq!(found, code, "{words:?}: {error}");
    }
}

#[test]
fn logins_are_those_of_docker() {
    if !have(&["docker-registry", "skopeo", "python3"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let at = demo.directory();
    let hash = "import crypt; print(crypt.crypt('s3cret', crypt.mksalt(crypt.METHOD_BLOWFISH)))";
    let hash = run(at, "python3", &["-W", "ignore", "-c", hash]).stdout;
    let hash = String::from_utf8(hash).unwrap();
    fs::write(at.join("users"), format!("me:{hash}")).unwrap();
    let lines = format!(
        "auth:\n  htpasswd:\n    realm: x\n    path: {}/users\n",
        at.display()
    );
    let registry = ImageRegistry::start(at, &lines);
    let host = &registry.host;
    build(&demo, "web", &[]);
    let uri = format!("oci://{host}/web:1");
    let with = |login: &str, words: &[&str]| {
        // The file must not be in the way of the sandbox, and its contents not in any message.
        fs::create_dir_all(at.join("docker")).unwrap();
        fs::write(at.join("docker/config.json"), login.replace("HOST", host)).unwrap();
        diskfs_with(at, words, &[("DOCKER_CONFIG", "docker")])
    };
    let push = ["oci", "push", "web", &uri];
    let right = r#"{"auths": {"HOST": {"auth": "bWU6czNjcmV0"}}}"#;
    for (login, code, said) in [
        ("{}", 6, "docker login"),
        (r#"{"auths": {"HOST": {"auth": "bWU6d3JvbmcK"}}}"#, 6, "401"),
        (r#"{"credHelpers": {"HOST": "pass"}}"#, 4, "helper `pass`"),
        (
            r#"{"auths": {"HOST": {}}, "credsStore": "pass"}"#,
            4,
            "helper",
        ),
        (r#"{"auths": "bWU6czNjcmV0"}"#, 2, "invalid JSON"),
    ] {
        let (found, error) = with(login, &push).failure();
        assert_eq!(found, code, "{login}: {error}");
        assert!(error.contains(said), "{login}: {error}");
        assert!(!error.contains("bWU6"), "{error}");
    }
    with(right, &push).text();
    let read = ["cat", &format!("{uri}:/etc/hostname")];
    assert_eq!(with(right, &read).text(), "demo\n");
    let (code, error) = with("{}", &read).failure();
    assert_eq!(code, 6, "{error}");
    let creds = ["inspect", "--tls-verify=false", "--creds", "me:s3cret"];
    let image = format!("docker://{host}/web:1");
    skopeo(at, &[&creds[..], &[&image]].concat());
}
