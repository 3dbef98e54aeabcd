//! `diskfs serve images`, by the clients of others and our own.

mod nbd;
mod slices;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use diskfs_fixtures::{TcpServer, TempImage, free_port, image, require};
use serde_json::Value;

use crate::resize_stacks::shell;
use crate::{DISKFS, Run, diskfs_in, diskfs_with};

/// A server of a directory with a demo image.
struct Scene {
    demo: TempImage,
    port: u16,
    _server: TcpServer,
}

impl Scene {
    /// Starts the server, with further options. They can name files of the directory `more`.
    fn new(options: &[&str], prepare: impl Fn(&Path)) -> Option<Self> {
        require("curl")?;
        let demo = image("demo.qcow2");
        fs::create_dir(demo.directory().join("more")).unwrap();
        prepare(&demo.directory().join("more"));
        let port = free_port();
        let server = start(demo.directory(), port, options);
        Some(Self {
            demo,
            port,
            _server: server,
        })
    }

    fn directory(&self) -> &Path {
        self.demo.directory()
    }

    fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }

    /// Runs curl, which prints the status last.
    fn curl(&self, name: &str, words: &[&str]) -> (Vec<u8>, String) {
        let url = self.url(name);
        let all = [&["-w", "%{stderr}%{http_code}", &url], words].concat();
        let output = curl(self.directory(), &all);
        (output.stdout, String::from_utf8(output.stderr).unwrap())
    }

    fn diskfs(&self, words: &[&str]) -> Run {
        diskfs_in(self.directory(), words)
    }
}

fn start(directory: &Path, port: u16, options: &[&str]) -> TcpServer {
    let address = format!("127.0.0.1:{port}");
    let mut command = Command::new(DISKFS);
    let command = command.args(["serve", "images", ".", "--listen", &address]);
    TcpServer::start(command.args(options).current_dir(directory), port)
}

fn curl(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("curl");
    let command = command.args(["-s", "--path-as-is"]).args(words);
    command.current_dir(directory).output().unwrap()
}

#[test]
fn curl_gets_files_and_ranges_and_nothing_else() {
    let Some(scene) = Scene::new(&[], |_| {}) else {
        return;
    };
    let at = scene.directory();
    let bytes = fs::read(at.join("demo.qcow2")).unwrap();
    fs::write(at.join(".hidden"), "x").unwrap();
    fs::write(at.join("more/inner"), "x").unwrap();
    fs::write(at.join("empty"), "").unwrap();
    symlink("demo.qcow2", at.join("link")).unwrap();
    symlink("/etc/passwd", at.join("out")).unwrap();
    let (body, status) = scene.curl("demo.qcow2", &[]);
    assert!(body == bytes && status == "200", "{status}");
    for (range, expected) in [("0-99", &bytes[..100]), ("-7", &bytes[bytes.len() - 7..])] {
        let (body, status) = scene.curl("demo.qcow2", &["-r", range]);
        assert!(body == expected && status == "206", "{range}: {status}");
    }
    let (body, status) = scene.curl("demo.qcow2", &["-r", "0-3,16-31"]);
    assert_eq!(status, "206");
    let text = String::from_utf8_lossy(&body);
    let total = bytes.len();
    assert!(text.contains(&format!("bytes 0-3/{total}")), "{text}");
    assert!(
        text.contains(&format!("bytes 16-31/{total}\r\n\r\n")),
        "{text}"
    );
    assert!(body.windows(16).any(|part| part == &bytes[16..32]));
    let (head, status) = scene.curl("demo.qcow2", &["-I"]);
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert_eq!(status, "200");
    assert!(
        head.contains(&format!("content-length: {total}\r\n")),
        "{head}"
    );
    assert!(head.contains("accept-ranges: bytes"), "{head}");
    let etag = head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "))
        .unwrap();
    let known = format!("If-None-Match: {etag}");
    let same = format!("If-Range: {etag}");
    for (words, expected) in [
        (&["-H", &known][..], "304"),
        (&["-H", "If-Match: \"0\""], "412"),
        (&["-r", "0-9", "-H", &same], "206"),
        (&["-r", "0-9", "-H", "If-Range: \"0\""], "200"),
        (&["-r", "99999999-"], "416"),
        (&["-X", "POST", "-d", "x"], "405"),
        (&["-X", "DELETE"], "405"),
    ] {
        assert_eq!(scene.curl("demo.qcow2", words).1, expected, "{words:?}");
    }
    for name in [
        ".hidden",
        "link",
        "out",
        "more",
        "more/inner",
        "more%2finner",
        "..",
        "../",
        "..%2f..%2fetc%2fpasswd",
        "./demo.qcow2",
        "%00",
        "%ff",
        "missing",
        "//etc/passwd",
        "demo.qcow2/",
    ] {
        assert_eq!(scene.curl(name, &[]).1, "404", "{name}");
    }
    let (body, status) = scene.curl("empty", &["-r", "0-0"]);
    assert_eq!(
        (body, status.as_str()),
        (b"no such range\n".to_vec(), "416")
    );
    let (body, status) = scene.curl("empty", &[]);
    assert_eq!((body, status.as_str()), (Vec::new(), "200"));
    let (list, _) = scene.curl("", &[]);
    let list: Value = serde_json::from_slice(&list).unwrap();
    let names: Vec<_> = list["images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["demo.qcow2", "empty"], "{list}");
    assert_eq!(list["images"][0]["format"], "qcow2");
    assert_eq!(list["images"][0]["size_bytes"], total);
    let info = scene.diskfs(&["info", "--json", "demo.qcow2"]).json();
    let size = &info["image"]["virtual_size_bytes"];
    assert_eq!(&list["images"][0]["virtual_size_bytes"], size, "{info}");
}

#[test]
fn our_client_and_qemu_read_images() {
    let Some(scene) = Scene::new(&[], |_| {}) else {
        return;
    };
    let (at, url) = (scene.directory(), scene.url("demo.qcow2"));
    assert_eq!(
        scene
            .diskfs(&["cat", &format!("{url}:/etc/hostname")])
            .text(),
        "demo\n"
    );
    scene.diskfs(&["inspect", &url]).text();
    scene
        .diskfs(&["fetch", &url, "-o", "more/copy.qcow2"])
        .text();
    shell(at, "cmp demo.qcow2 more/copy.qcow2");
    scene
        .diskfs(&["import", &url, "-o", "more/copy.raw"])
        .text();
    scene
        .diskfs(&["compare", "demo.qcow2", "more/copy.raw"])
        .text();
    let Some(driver) =
        glob_of("/usr/lib", "block-curl.so").filter(|_| require("qemu-img").is_some())
    else {
        return;
    };
    let converted = Command::new("qemu-img")
        .args(["convert", "-O", "raw", &url, "more/theirs.raw"])
        .current_dir(at)
        .output()
        .unwrap();
    assert!(converted.status.success(), "{driver}: {converted:?}");
    shell(
        at,
        "qemu-img compare -F raw -f qcow2 demo.qcow2 more/theirs.raw",
    );
}

/// Returns the path of a file below a directory.
fn glob_of(directory: &str, name: &str) -> Option<String> {
    let found = Command::new("find")
        .args([directory, "-name", name])
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    found.lines().next().map(Into::into)
}

#[test]
fn tokens_are_for_images() {
    let tokens = "first-token-0123456789\nsecond-token-0123456789 *.raw\n";
    let options = ["--token-file", "more/tokens"];
    let Some(scene) = Scene::new(&options, |more| {
        fs::write(more.join("tokens"), tokens).unwrap();
        fs::set_permissions(more.join("tokens"), PermissionsExt::from_mode(0o600)).unwrap();
        fs::write(more.parent().unwrap().join("a.raw"), [1; 512]).unwrap();
    }) else {
        return;
    };
    let status = |name: &str, token: &str| {
        let header = format!("Authorization: Bearer {token}");
        scene.curl(name, &["-H", &header]).1
    };
    assert_eq!(status("demo.qcow2", "first-token-0123456789"), "200");
    assert_eq!(status("demo.qcow2", "second-token-0123456789"), "404");
    assert_eq!(status("a.raw", "second-token-0123456789"), "200");
    assert_eq!(status("missing", "first-token-012345678"), "401");
    assert_eq!(scene.curl("a.raw", &[]).1, "401");
    let list = scene
        .curl("", &["-H", "Authorization: Bearer second-token-0123456789"])
        .0;
    let list: Value = serde_json::from_slice(&list).unwrap();
    assert_eq!(list["images"].as_array().unwrap().len(), 1, "{list}");
    let url = scene.url("demo.qcow2");
    let info = |token| {
        let variables = [("DISKFS_HTTP_TOKEN", token)];
        diskfs_with(scene.directory(), &["info", &url], &variables)
    };
    info("first-token-0123456789").text();
    assert_eq!(info("wrong").failure().0, 6);
    assert_eq!(info("second-token-0123456789").failure().0, 3);
    shell(scene.directory(), "chmod 640 more/tokens");
    let words = [
        "serve",
        "images",
        ".",
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        "more/tokens",
    ];
    let (code, stderr) = scene.diskfs(&words).failure();
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("chmod 600"), "{stderr}");
}

#[test]
fn tls_and_sockets() {
    if require("openssl").is_none() {
        return;
    }
    let options = [
        "--listen",
        "unix:more/socket",
        "--tls-cert",
        "more/cert.pem",
        "--tls-key",
        "more/key.pem",
    ];
    let Some(scene) = Scene::new(&options, |more| {
        shell(
            more,
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem \
             -subj /CN=localhost -addext subjectAltName=DNS:localhost \
             -addext basicConstraints=critical,CA:FALSE 2>/dev/null",
        );
    }) else {
        return;
    };
    let at = scene.directory();
    let url = format!("https://localhost:{}/demo.qcow2", scene.port);
    let words = ["cat", &format!("{url}:/etc/hostname")];
    let trusted = diskfs_with(at, &words, &[("SSL_CERT_FILE", "more/cert.pem")]);
    assert_eq!(trusted.text(), "demo\n");
    assert_eq!(scene.diskfs(&words).failure().0, 6);
    assert!(
        !curl(at, &[&scene.url("demo.qcow2")]).status.success(),
        "not without TLS"
    );
    let words = [
        "--unix-socket",
        "more/socket",
        "-o",
        "more/copy",
        "http://x/demo.qcow2",
    ];
    assert!(curl(at, &words).status.success());
    shell(at, "cmp demo.qcow2 more/copy");
}

/// Waits for the first bytes of a file that is being written.
fn await_bytes(path: &Path) {
    let start = Instant::now();
    while !fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        assert!(start.elapsed() < Duration::from_mins(1));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_image_that_changes_breaks_off() {
    let Some(scene) = Scene::new(&[], |more| {
        shell(more, "head -c 40M /dev/urandom > ../large");
    }) else {
        return;
    };
    let url = scene.url("large");
    let mut slow = Command::new("curl");
    let slow = slow.args(["-sS", "--limit-rate", "10M", "-o", "more/copy", &url]);
    let slow = slow
        .current_dir(scene.directory())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    await_bytes(&scene.directory().join("more/copy"));
    shell(
        scene.directory(),
        "printf x | dd of=large conv=notrunc status=none",
    );
    let output = slow.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(18), "{output:?}");
}

#[test]
fn the_server_ends_after_its_requests() {
    if require("curl").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    shell(at, "head -c 20M /dev/urandom > large");
    let socket = at.join("socket");
    let listen = format!("unix:{}", socket.display());
    let mut server = Command::new(DISKFS)
        .args(["serve", "images", ".", "--listen", &listen])
        .current_dir(at)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !socket.exists() {
        assert!(start.elapsed() < Duration::from_mins(1));
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut slow = Command::new("curl");
    let slow = slow.args(["-sS", "--limit-rate", "10M", "--unix-socket", "socket"]);
    let mut slow = slow
        .args(["-o", "copy", "http://x/large"])
        .current_dir(at)
        .spawn()
        .unwrap();
    await_bytes(&at.join("copy"));
    let id = server.id().to_string();
    assert!(Command::new("kill").arg(id).status().unwrap().success());
    assert!(slow.wait().unwrap().success());
    shell(at, "cmp large copy");
    assert!(server.wait().unwrap().success());
    assert!(!socket.exists());
}

#[test]
fn a_slow_request_is_ended() {
    let Some(scene) = Scene::new(&[], |_| {}) else {
        return;
    };
    let mut slow = TcpStream::connect(("127.0.0.1", scene.port)).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    slow.write_all(b"GET /demo.qcow2 HTTP/1.1\r\nHost: x\r\n")
        .unwrap();
    let start = Instant::now();
    let mut said = Vec::new();
    slow.read_to_end(&mut said).unwrap();
    assert!(start.elapsed() > Duration::from_secs(5));
    assert!(
        said.is_empty() || said.starts_with(b"HTTP/1.1 408"),
        "{said:?}"
    );
    assert_eq!(scene.curl("demo.qcow2", &["-r", "0-0"]).1, "206");
}

#[test]
fn a_client_that_does_not_read_is_dropped() {
    let Some(scene) = Scene::new(&[], |more| {
        shell(more, "head -c 60M /dev/zero > ../large");
    }) else {
        return;
    };
    let mut slow = TcpStream::connect(("127.0.0.1", scene.port)).unwrap();
    slow.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    // The limit is a minute for a part of the answer.
    for _ in 0..13 {
        std::thread::sleep(Duration::from_secs(5));
        assert_eq!(scene.curl("demo.qcow2", &["-r", "0-0"]).1, "206");
    }
    slow.set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut said = Vec::new();
    // The connection is closed or reset, behind what was already on its way.
    let _ = slow.read_to_end(&mut said);
    assert!(said.starts_with(b"HTTP/1.1 200"));
    assert!(said.len() < 60 << 20, "{}", said.len());
}
