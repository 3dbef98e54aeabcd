//! The server as its operator sees it: sockets, TLS, metrics, health, logs, its end.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use diskfs_fixtures::require;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::guest::debian;
use super::server::{Server, calls_to};
use super::{DISKFS, diskfs};

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn health_reflection_and_metrics_are_served() {
    let address = free_address();
    let Some(server) = Server::start(&["--metrics", &address, "--log-format", "json"]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let calls = json!([
        { "health": "" },
        { "health": "apis.DeployAgent" },
        { "health": "diskfs.v1.Disks" },
        { "reflection": true },
        { "call": "apis.DeployAgent/DeployGuestFs", "request": { "disk_info": server.image("a.img"), "guest_desc": { "name": "a" } } },
        { "call": "apis.DeployAgent/ProbeImageInfo", "request": {} },
    ]);
    let results = server.calls(&calls);
    for health in &results[..3] {
        assert_eq!(health["answer"], "SERVING", "{health}");
    }
    let services = results[3]["answer"].as_str().unwrap();
    for service in [
        "apis.DeployAgent",
        "diskfs.v1.Disks",
        "grpc.health.v1.Health",
    ] {
        assert!(services.contains(service), "{services}");
    }
    let metrics = get(&address, "/metrics");
    for line in [
        "diskfs_requests_total{method=\"DeployGuestFs\",result=\"ok\"} 1",
        "diskfs_phase_duration_seconds_count{method=\"DeployGuestFs\",phase=\"write\"} 1",
        "diskfs_jobs_running 0",
        "diskfs_jobs_waiting 0",
    ] {
        assert!(
            metrics.lines().any(|it| it.trim() == line),
            "{line}: {metrics}"
        );
    }
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(get(&address, "/healthz").contains("ok"));
    assert!(get(&address, "/x").starts_with("HTTP/1.1 404"));
    for line in server.log().lines() {
        let _: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    }
}

/// Makes a certificate authority, and a certificate for `name`.
fn certificates(directory: &Path) {
    let openssl = |words: &str| {
        let mut command = Command::new("openssl");
        let output = command
            .args(words.split(' '))
            .current_dir(directory)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    fs::write(directory.join("san"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    for ca in ["ca", "other-ca"] {
        openssl(&format!(
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={ca} -keyout {ca}.key -out {ca}.pem"
        ));
    }
    for (name, ca) in [("server", "ca"), ("client", "ca"), ("stranger", "other-ca")] {
        openssl(&format!(
            "req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA {ca}.pem -CAkey {ca}.key -CAcreateserial -days 2 -extfile san -out {name}.pem"
        ));
    }
}

#[test]
fn clients_of_other_machines_need_a_certificate() {
    let (Some(()), Some(())) = (require("openssl"), require("grpc-python")) else {
        return;
    };
    let directory = Arc::new(tempfile::tempdir().unwrap());
    certificates(directory.path());
    let address = free_address();
    let server = Server::start_in(
        Arc::clone(&directory),
        &[
            "--listen",
            &address,
            "--tls-cert",
            "server.pem",
            "--tls-key",
            "server.key",
            "--tls-client-ca",
            "ca.pem",
        ],
    );
    fs::write(server.path("blank.img"), vec![0; 1 << 20]).unwrap();
    let at = |name: &str| directory.path().join(name);
    let calls = json!([{ "call": "apis.DeployAgent/ProbeImageInfo", "timeout": 10,
        "request": { "disk_info": server.image("blank.img") } }]);
    let code = |cert: &str, key: &str| {
        let files = [at("ca.pem"), at(cert), at(key)];
        let files: Vec<&Path> = files.iter().map(|file| &**file).collect();
        calls_to(&address, &files, &calls)[0]["code"].clone()
    };
    assert_eq!(code("client.pem", "client.key"), "OK");
    assert_eq!(code("stranger.pem", "stranger.key"), "UNAVAILABLE");
    assert_eq!(calls_to(&address, &[], &calls)[0]["code"], "UNAVAILABLE");
    let output = diskfs(directory.path(), &["serve", "deploy", "--listen", &address]);
    assert_eq!(output.status.code(), Some(2), "TLS is required");
}

#[test]
fn a_second_server_and_a_stale_socket() {
    let Some(mut server) = Server::start(&[]) else {
        return;
    };
    let directory = server.directory();
    let socket = server.path("deploy.sock");
    let output = diskfs(
        directory.path(),
        &["serve", "deploy", "--socket", "deploy.sock"],
    );
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("another server listens"), "{errors}");
    server.signal(Signal::KILL);
    server.wait();
    assert!(socket.exists());
    let mut server = Server::start_in(directory, &[]);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert!(!socket.exists(), "the socket is removed at the end");
}

#[test]
fn the_service_manager_is_told_and_its_socket_used() {
    let (Some(()), Some(())) = (require("systemd-socket-activate"), require("grpc-python")) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let notified = UnixDatagram::bind(at("notify")).unwrap();
    notified
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let mut child = Command::new("systemd-socket-activate")
        .arg("-l")
        .arg(at("activated.sock"))
        .args(["-E", &format!("NOTIFY_SOCKET={}", at("notify").display())])
        .args([DISKFS, "serve", "deploy"])
        .spawn()
        .unwrap();
    while !at("activated.sock").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let target = format!("unix:{}", at("activated.sock").display());
    let result = calls_to(&target, &[], &json!([{ "health": "" }]));
    assert_eq!(result[0]["answer"], "SERVING", "{result:?}");
    let mut state = [0; 64];
    let len = notified.recv(&mut state).unwrap();
    assert_eq!(&state[..len], b"READY=1");
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn settings_are_read_from_host_conf() {
    let Some(()) = require("grpc-python") else {
        return;
    };
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let text =
        "region: Region0\ndeploy_concurrent: 3\nallow_vm_selinux: true\ncloudroot_dir: /srv\n";
    fs::write(directory.path().join("host.conf"), text).unwrap();
    let server = Server::start_in(directory, &["--config", "host.conf"]);
    assert!(server.log().contains("region"), "{}", server.log());
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let request = json!({ "disk_info": server.image("a.img"), "guest_desc": { "name": "a" } });
    server.answer("DeployGuestFs", &request);
    let passwd = super::text(server.directory().path(), &["cat", "a.img:/etc/passwd"]);
    assert!(passwd.contains(":/srv/cloudroot:"), "{passwd}");
}
