//! The page's server: its API is what the commands print, and only who has the address can use it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use diskfs_fixtures::image;
use serde_json::Value;

use crate::{DISKFS, diskfs_in};

/// A running server.
struct Server {
    child: Child,
    /// The address and port.
    address: String,
    /// The path of the page, with the token.
    base: String,
}

/// An answer of the server.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Server {
    fn start(directory: &Path, words: &[&str]) -> Self {
        let mut child = Command::new(DISKFS)
            .args(["browse", "--no-open", "--json"])
            .args(words)
            .current_dir(directory)
            .env("DISKFS_VM", "none")
            .env("TMPDIR", directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let document: Value = serde_json::from_str(&line).unwrap();
        let url = document["url"].as_str().unwrap();
        let (address, path) = url
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        Self {
            child,
            address: address.to_owned(),
            base: format!("/{path}"),
        }
    }

    /// Sends a request as it is, and returns the answer.
    fn send(&self, head: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        let length = body.len();
        let request =
            format!("{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
        let body = answer.split_off(end + 4);
        let head = String::from_utf8(answer).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body }
    }

    fn get(&self, path: &str) -> Answer {
        let (base, address) = (&self.base, &self.address);
        self.send(&format!("GET {base}{path} HTTP/1.1\r\nHost: {address}"), "")
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        let (base, address) = (&self.base, &self.address);
        self.send(
            &format!("POST {base}{path} HTTP/1.1\r\nHost: {address}"),
            body,
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[test]
fn answers_are_what_the_commands_print() {
    let demo = image("demo.qcow2");
    let server = Server::start(demo.directory(), &["demo.qcow2"]);
    let cases: [(&str, &[&str]); 8] = [
        ("api/info", &["info", "--json", "demo.qcow2"]),
        ("api/map", &["map", "--json", "demo.qcow2"]),
        ("api/df", &["df", "--json", "demo.qcow2"]),
        (
            "api/ls?path=/etc",
            &["ls", "-A", "--json", "demo.qcow2:/etc"],
        ),
        (
            "api/stat?path=/etc/hostname",
            &["stat", "--extents", "--json", "demo.qcow2:/etc/hostname"],
        ),
        (
            "api/cat?path=/etc/hostname",
            &["cat", "demo.qcow2:/etc/hostname"],
        ),
        (
            "api/find?name=host*&type=f",
            &[
                "find",
                "--json",
                "demo.qcow2:/",
                "-iname",
                "host*",
                "-type",
                "f",
            ],
        ),
        ("api/tar?path=/etc", &["tar", "demo.qcow2:/etc"]),
    ];
    for (path, words) in cases {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.head);
        let printed = diskfs_in(demo.directory(), words);
        assert!(answer.body == printed.bytes(), "{path}");
    }
    let range = server
        .get("api/cat?path=/etc/hostname&offset=1&length=2")
        .body;
    let whole = diskfs_in(demo.directory(), &["cat", "demo.qcow2:/etc/hostname"]);
    assert_eq!(range, whole.bytes()[1..3]);
}

#[test]
fn failures_are_documents_with_a_status() {
    let demo = image("demo.qcow2");
    let server = Server::start(demo.directory(), &["demo.qcow2"]);
    for (path, status, kind) in [
        ("api/ls?path=/nope", 404, "not_found"),
        ("api/cat?path=/etc", 400, "is_a_directory"),
        ("api/ls?path=etc", 400, "invalid"),
        ("api/ls?bogus=1", 400, "invalid"),
        ("api/ls?partition=77", 404, "not_found"),
        ("api/rm?path=/etc", 404, "not_found"),
        ("api/ls?image=1", 400, "invalid"),
        ("web/../Cargo.toml", 404, "not_found"),
        ("web/..%2f..%2fCargo.toml", 404, "not_found"),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.head);
        if path.starts_with("api") {
            assert_eq!(answer.json()["error"]["kind"], kind, "{path}");
        }
    }
}

#[test]
fn every_request_takes_the_options_of_the_server() {
    let demo = image("demo.qcow2");
    let options = [
        "--partition=1",
        "--force-share",
        "--no-sandbox",
        "demo.qcow2",
    ];
    let server = Server::start(demo.directory(), &options);
    let described = server.get("openapi.json").json();
    for (path, operations) in described["paths"].as_object().unwrap() {
        if operations["get"].is_null() {
            continue;
        }
        // These need a parameter.
        let query = match path.as_str() {
            "/api/cat" => "?path=/etc/hostname",
            "/api/grep" => "?pattern=x",
            "/api/sbom" => "?format=spdx",
            "/api/diff" => "?other=0",
            _ => "",
        };
        let answer = server.get(&format!("{}{query}", &path[1..]));
        let text = String::from_utf8_lossy(&answer.body);
        assert_ne!(answer.status, 400, "{path}: {text}");
    }
}

#[test]
fn only_the_address_with_its_token_is_answered() {
    let demo = image("demo.qcow2");
    let server = Server::start(demo.directory(), &["demo.qcow2"]);
    let (base, address) = (&server.base, &server.address);
    let wrong = base.replace(|c: char| c.is_ascii_digit(), "x");
    for path in [
        "/",
        "/api/images",
        "/web/app.js",
        &wrong,
        &format!("{wrong}api/ls"),
    ] {
        let answer = server.send(&format!("GET {path} HTTP/1.1\r\nHost: {address}"), "");
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.head.contains(base.trim_matches('/')));
    }
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example"] {
        let answer = server.send(&format!("GET {base}api/ls HTTP/1.1\r\nHost: {host}"), "");
        assert_eq!(answer.status, 421, "{host}");
    }
    let answer = server.send(&format!("GET {base}api/ls HTTP/1.1\r\nHost: localhost"), "");
    assert_eq!(answer.status, 200);
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "nosniff",
        "no-referrer",
    ] {
        assert!(answer.head.contains(header), "{}", answer.head);
    }
}

#[test]
fn a_plan_is_tried_and_only_applied_with_write() {
    let demo = image("demo.qcow2");
    let plan = r#"{"steps": [{"write": {"path": "/etc/motd", "text": "tried\n"}}]}"#;
    let motd = |path: &Path| {
        diskfs_in(path, &["cat", "demo.qcow2:/etc/motd"])
            .output
            .stdout
    };
    let before = motd(demo.directory());
    {
        let server = Server::start(demo.directory(), &["demo.qcow2"]);
        assert_eq!(server.get("api/diff?preview=1").status, 400);
        let tried = server.post("api/deploy?dry_run=1", plan);
        assert_eq!(
            tried.status,
            200,
            "{}",
            String::from_utf8_lossy(&tried.body)
        );
        let diff = server
            .get("api/diff?preview=1&unified=3&only=/etc/motd")
            .json();
        assert_eq!(diff["differences"][0]["path"], "/etc/motd");
        let text = diff["differences"][0]["unified"].as_str().unwrap();
        assert!(text.contains("\n+tried\n"), "{text}");
        assert_eq!(server.post("api/deploy", plan).status, 403);
        assert_eq!(
            server.post("api/deploy?dry_run=1", "{\"steps\": 1}").status,
            400
        );
    }
    assert_eq!(motd(demo.directory()), before);
    let server = Server::start(demo.directory(), &["--write", "demo.qcow2"]);
    assert_eq!(server.get("api/images").json()["writable"], true);
    let applied = server.post("api/deploy", plan);
    assert_eq!(
        applied.status,
        200,
        "{}",
        String::from_utf8_lossy(&applied.body)
    );
    assert_eq!(motd(demo.directory()), b"tried\n");
}

#[test]
fn an_image_that_cannot_be_opened_is_reported_before_the_page() {
    let demo = image("demo.qcow2");
    let (code, message) =
        diskfs_in(demo.directory(), &["browse", "--no-open", "nope.img"]).failure();
    assert_eq!(code, 3);
    assert!(message.contains("nope.img"), "{message}");
    let keys = ["browse", "--no-open", "--key", "all:ask", "demo.qcow2"];
    let (code, message) = diskfs_in(demo.directory(), &keys).failure();
    assert_eq!(code, 2);
    assert!(message.contains("file:FILE"), "{message}");
}

#[test]
fn the_server_ends_with_a_signal_and_leaves_no_file() {
    let demo = image("demo.qcow2");
    let files = || std::fs::read_dir(demo.directory()).unwrap().count();
    let before = files();
    let mut server = Server::start(demo.directory(), &["demo.qcow2"]);
    assert_eq!(files(), before + 1);
    let pid = server.child.id().to_string();
    Command::new("kill").arg(&pid).status().unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert_eq!(files(), before);
}
