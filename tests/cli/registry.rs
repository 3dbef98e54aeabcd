//! OCI images in registries: pushed by diskfs and by skopeo, read by both.

use std::fs;
use std::io::Write;
use std::path::Path;

use diskfs_fixtures::{ImageRegistry, TcpServer, TempImage, free_port, have, image, pattern};
use serde_json::Value;

use crate::oci::{build, insert, largest_blob, run};
use crate::{Run, diskfs_in, diskfs_with};

/// A registry, and a directory with the image `demo.qcow2` from which it gets images.
pub(crate) struct Repository {
    pub(crate) demo: TempImage,
    pub(crate) registry: ImageRegistry,
}

impl Repository {
    /// Starts a registry; `None`, with a message, if it or one of these programs is missing.
    pub(crate) fn start(programs: &[&str]) -> Option<Self> {
        Self::start_with(programs, |_| String::new())
    }

    /// Starts a registry with the lines of its configuration that `lines` returns for the directory.
    fn start_with(programs: &[&str], lines: impl FnOnce(&Path) -> String) -> Option<Self> {
        if !have(&["docker-registry"]) || !have(programs) {
            return None;
        }
        let demo = image("demo.qcow2");
        let lines = lines(demo.directory());
        let registry = ImageRegistry::start(demo.directory(), &lines);
        Some(Self { demo, registry })
    }

    pub(crate) fn at(&self) -> &Path {
        self.demo.directory()
    }

    /// Returns the address of an image for diskfs.
    pub(crate) fn uri(&self, image: &str) -> String {
        format!("oci://{}/{image}", self.registry.host)
    }

    /// Returns the address of an image for skopeo.
    pub(crate) fn docker(&self, image: &str) -> String {
        format!("docker://{}/{image}", self.registry.host)
    }

    /// Runs diskfs in the directory.
    pub(crate) fn diskfs(&self, words: &[&str]) -> Run {
        diskfs_in(self.at(), words)
    }

    /// Returns the digest of an image, as skopeo finds it.
    pub(crate) fn digest(&self, image: &str) -> String {
        let words = ["inspect", "--tls-verify=false", &self.docker(image)];
        let inspected: Value = serde_json::from_slice(&run(self.at(), "skopeo", &words)).unwrap();
        inspected["Digest"].as_str().unwrap().to_owned()
    }
}

#[test]
fn pushed_images_are_read_by_us_and_by_skopeo() {
    let Some(repository) = Repository::start(&["skopeo"]) else {
        return;
    };
    let demo = &repository.demo;
    for compress in ["zstd", "gzip", "none"] {
        let (layout, archive) = (compress.to_owned(), format!("{compress}.tar"));
        build(demo, &layout, &["--compress", compress, "--tag", "41"]);
        build(demo, &archive, &["--compress", compress, "--tag", "41"]);
        let name = format!("disks/{compress}:41");
        let (uri, docker) = (repository.uri(&name), repository.docker(&name));
        let push = |from: &str| {
            repository
                .diskfs(&["oci", "push", from, &uri, "--json"])
                .json()
        };
        let first = push(&layout);
        assert_eq!(first["present_bytes"], 0, "{first}");
        // Nothing is uploaded twice.
        let second = push(&format!("oci-archive:{archive}:41"));
        assert_eq!(second["uploaded_bytes"], 0, "{second}");
        assert_eq!(second["present_bytes"], first["uploaded_bytes"]);
        let found = repository.digest(&name);
        assert_eq!(found, first["manifest_digest"].as_str().unwrap());
        let back = format!("oci:{compress}-back:41");
        let words = ["copy", "-q", "--src-tls-verify=false", &docker, &back];
        run(repository.at(), "skopeo", &words);
        for name in [
            uri.clone(),
            repository.uri(&format!("disks/{compress}@{found}")),
            format!("{uri}#/disk/demo.qcow2"),
            format!("oci-layout:{compress}-back"),
        ] {
            let cat = repository.diskfs(&["cat", &format!("{name}:/etc/hostname")]);
            // skopeo compresses layers that were not.
            assert_eq!(cat.output.stdout, b"demo\n", "{name}: {}", cat.stderr());
        }
        let compare = ["--no-sandbox", "compare", "demo.qcow2", &uri];
        repository.diskfs(&compare[1..]).text();
        repository.diskfs(&compare).text();
        let info = repository.diskfs(&["info", "--json", &uri]).json();
        assert_eq!(info["image"]["path"], uri.as_str(), "{info}");
        assert_eq!(info["image"]["format"], "qcow2");
    }
    let uri = repository.uri("disks/gzip:41");
    let copied = ["qemu-img", "convert", "-O", "raw", &uri, "copy.raw"];
    repository.diskfs(&copied).text();
    let compare = ["compare", "demo.qcow2", "copy.raw"];
    repository.diskfs(&compare).text();
    let inspect = |image: &str| repository.diskfs(&["inspect", "--json", image]).json();
    assert_eq!(inspect(&uri), inspect("demo.qcow2"));
}

#[test]
fn only_parts_of_a_layer_with_a_seek_table_are_read() {
    let Some(repository) = Repository::start(&["nginx"]) else {
        return;
    };
    let at = repository.at();
    // A disk of 64 MiB with a system, and as much again that doesn't compress.
    let convert = ["convert", "demo.qcow2", "demo.raw"];
    repository.diskfs(&convert).bytes();
    let mut disk = fs::File::options().append(true).open(at.join("demo.raw"));
    let noise = pattern("noise", 64 << 20);
    disk.as_mut().unwrap().write_all(&noise).unwrap();
    let words = "oci build demo.raw -o web --compress zstd";
    let words: Vec<_> = words.split(' ').collect();
    repository.diskfs(&words).bytes();
    let push = ["oci", "push", "web", &repository.uri("web")];
    repository.diskfs(&push).text();
    let (port, host) = (free_port(), &repository.registry.host);
    let lines = format!("listen 127.0.0.1:{port}; location / {{ proxy_pass http://{host}; }}");
    let _proxy = TcpServer::nginx(at, at, port, &lines);
    let uri = format!("oci://127.0.0.1:{port}/web");
    let cat = repository.diskfs(&["cat", &format!("{uri}#/disk/demo.raw:/etc/hostname")]);
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
    let Some(repository) = Repository::start(&["skopeo", "umoci"]) else {
        return;
    };
    let at = repository.at();
    insert(at, "demo.qcow2");
    for (format, name) in [("oci", "o:v"), ("v2s2", "d:v")] {
        let words = ["copy", "-q", "--dest-tls-verify=false", "--format", format];
        let to = repository.docker(name);
        run(at, "skopeo", &[&words[..], &["oci:u:v", &to]].concat());
        let file = repository.uri(name) + ":/etc/hostname";
        let cat = repository.diskfs(&["cat", &file]);
        assert_eq!(cat.output.stdout, b"demo\n", "{}", cat.stderr());
    }
    // A layer that is read as a whole is verified: here only the time in the header of gzip is
    // another one.
    let layer = largest_blob(&at.join("u"));
    let mut bytes = fs::read(&layer).unwrap();
    assert_eq!(bytes[..2], [0x1f, 0x8b]);
    bytes[5] ^= 1;
    fs::write(&layer, bytes).unwrap();
    let (code, error) = repository.diskfs(&["ls", "oci-layout:u:v:/"]).failure();
    assert_eq!(code, 5, "{error}");
    assert!(error.contains("wrong digest of the layer"), "{error}");
}

#[test]
fn a_failed_push_leaves_the_tag() {
    let Some(repository) = Repository::start(&["skopeo"]) else {
        return;
    };
    let (demo, host) = (&repository.demo, &repository.registry.host);
    build(demo, "good", &[]);
    build(demo, "bad", &["--compress", "none", "--label", "a=b"]);
    let uri = repository.uri("web");
    repository.diskfs(&["oci", "push", "good", &uri]).text();
    let before = repository.digest("web:latest");
    let layer = largest_blob(&demo.directory().join("bad"));
    let mut bytes = fs::read(&layer).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&layer, bytes).unwrap();
    for options in [&[][..], &["--no-sandbox"]] {
        let words = [options, &["oci", "push", "bad", &uri]].concat();
        let (code, error) = repository.diskfs(&words).failure();
        assert_eq!(code, 5, "{error}");
        assert!(error.contains("wrong digest of the blob"), "{error}");
        assert_eq!(repository.digest("web:latest"), before);
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
        let (found, error) = repository.diskfs(words).failure();
        assert!(error.contains(said), "{words:?}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
        assert_eq!(found, code, "{words:?}: {error}");
    }
}

#[test]
fn logins_are_those_of_docker() {
    let hash = "import crypt; print(crypt.crypt('s3cret', crypt.mksalt(crypt.METHOD_BLOWFISH)))";
    let lines = |at: &Path| {
        let hash = run(at, "python3", &["-W", "ignore", "-c", hash]);
        let users = at.join("users");
        fs::write(&users, [b"me:", &hash[..]].concat()).unwrap();
        let users = users.display();
        format!("auth:\n  htpasswd:\n    realm: x\n    path: {users}\n")
    };
    let Some(repository) = Repository::start_with(&["skopeo", "python3"], lines) else {
        return;
    };
    let (at, host) = (repository.at(), &repository.registry.host);
    build(&repository.demo, "web", &[]);
    let uri = repository.uri("web:1");
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
    let image = repository.docker("web:1");
    run(at, "skopeo", &[&creds[..], &[&image]].concat());
}
