//! Images of HTTP servers and object stores: of nginx, and of a store that speaks S3.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use diskfs_fixtures::{TcpServer, free_port, image, require};

use crate::{diskfs_in, diskfs_with};

/// The environment of a host without certificate authorities.
const NO_AUTHORITIES: [(&str, &str); 3] = [
    ("SSL_CERT_FILE", "none"),
    ("SSL_CERT_DIR", "none"),
    ("CURL_CA_BUNDLE", ""),
];

#[test]
fn commands_read_an_image_of_a_web_server() {
    if require("nginx").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    let dir = demo.directory();
    let port = free_port();
    let _server = TcpServer::nginx(dir, dir, port, &format!("listen 127.0.0.1:{port};"));
    let url = format!("http://127.0.0.1:{port}/demo.qcow2");
    let run = |words: &[&str]| diskfs_in(dir, words);
    let info = run(&["info", "--json", &url]).json();
    assert_eq!(info["image"]["format"], "qcow2", "{info}");
    assert_eq!(info["image"]["path"], url.as_str(), "{info}");
    assert_eq!(
        run(&["cat", &format!("{url}:/etc/hostname")]).text(),
        "demo\n"
    );
    run(&["convert", &url, "copy.qcow2"]).text();
    run(&["compare", "demo.qcow2", "copy.qcow2"]).text();
    run(&["compare", "demo.qcow2", &url]).text();
    assert_eq!(run(&["snapshot", "list", &url]).text(), "");
    // Its second filesystem needs a microVM.
    let checked = run(&["check", "--with", "native", "--json", &url]);
    let checked: serde_json::Value = serde_json::from_slice(&checked.output.stdout).unwrap();
    assert_eq!(checked["image"]["clean"], true, "{checked}");
    // A host without certificate authorities, as a container may be, needs none for this server.
    diskfs_with(dir, &["info", &url], &NO_AUTHORITIES).text();
    // A query may be a secret, so no command shows it.
    let signed = format!("{url}?signature=secret");
    let verdict = run(&["validate", "--policy", "cdi", "--json", &signed]).json();
    assert_eq!(verdict["images"][0]["image"], url.as_str(), "{verdict}");
    fs::create_dir(dir.join("mnt")).unwrap();
    run(&["mount", &signed, "mnt"]).text();
    assert_eq!(fs::read(dir.join("mnt/etc/hostname")).unwrap(), b"demo\n");
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(
        mounts.contains(&url) && !mounts.contains("secret"),
        "{mounts}"
    );
    run(&["umount", "mnt"]).text();
    fs::write(dir.join("new"), "new").unwrap();
    for (words, code, said) in [
        (&["info", &format!("{url}.missing")][..], 3, "404"),
        (&["cp", "new", &format!("{url}:/etc/new")], 1, "read-only"),
        (&["snapshot", "create", &url, "one"], 1, "read-only"),
        (&["check", "--repair", &url], 1, "read-only"),
        (&["info", "http://u:p@127.0.0.1/x"], 2, "netrc"),
        (&["info", "http://127.0.0.1:1/x"], 1, "cannot connect"),
        (&["info", "ftp://127.0.0.1/x"], 4, "not supported"),
    ] {
        let (found, stderr) = run(words).failure();
        assert!(stderr.contains(said), "{words:?}: {stderr}");
        assert_eq!(found, code, "{words:?}: {stderr}");
    }
}

#[test]
fn blocks_are_kept_on_disk() {
    if require("nginx").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    let dir = demo.directory();
    let port = free_port();
    let log = format!("listen 127.0.0.1:{port}; access_log {}/log;", dir.display());
    let _server = TcpServer::nginx(dir, dir, port, &log);
    let url = format!("http://127.0.0.1:{port}/demo.qcow2");
    let cache = dir.join("cache");
    let settings = format!("[cache]\ndirectory = {cache:?}\nsize = \"64M\"\n");
    fs::write(dir.join("config.toml"), settings).unwrap();
    let variables = [("DISKFS_CONFIG", "config.toml")];
    let hash = |words: &[&str]| {
        let before = fs::read_to_string(dir.join("log")).unwrap_or_default();
        let text = diskfs_with(dir, words, &variables).text();
        let after = fs::read_to_string(dir.join("log")).unwrap();
        (text, after.lines().count() - before.lines().count())
    };
    let words = ["find", &format!("{url}:/")];
    let (first, requests) = hash(&words);
    assert!(requests > 1, "{requests}");
    // The version is asked for, and nothing else.
    assert_eq!(hash(&words), (first.clone(), 1));
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    let (code, stderr) = diskfs_with(dir, &words, &variables).failure();
    assert!(code == 6 && stderr.contains("others may write"), "{stderr}");
    fs::remove_dir_all(&cache).unwrap();
    assert_eq!(hash(&words), (first, requests));
    // Another version of the image has other blocks.
    fs::write(dir.join("new"), "new\n").unwrap();
    diskfs_in(dir, &["cp", "new", "demo.qcow2:/etc/hostname"]).text();
    let at = format!("{url}:/etc/hostname");
    assert_eq!(hash(&["cat", &at]).0, "new\n");
}

#[test]
fn tls_and_credentials() {
    if require("nginx").is_none() || require("openssl").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    let dir = demo.directory();
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args([
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(made.status.success());
    fs::write(dir.join("users"), "me:{PLAIN}s3cret\n").unwrap();
    let (port, at) = (free_port(), dir.display());
    let lines = format!(
        "listen 127.0.0.1:{port} ssl; ssl_certificate {at}/cert.pem; \
         ssl_certificate_key {at}/key.pem; auth_basic x; auth_basic_user_file {at}/users;"
    );
    let _server = TcpServer::nginx(dir, dir, port, &lines);
    let url = format!("https://localhost:{port}/demo.qcow2");
    let words = ["info", url.as_str()];
    let (code, stderr) = diskfs_in(dir, &words).failure();
    assert_eq!(code, 6, "{stderr}");
    assert!(
        stderr.contains("TLS") && stderr.contains("SSL_CERT_FILE"),
        "{stderr}"
    );
    let trusted = |netrc: &str| {
        fs::write(dir.join("netrc"), netrc).unwrap();
        let variables = [("SSL_CERT_FILE", "cert.pem"), ("NETRC", "netrc")];
        diskfs_with(dir, &words, &variables)
    };
    let (code, stderr) = trusted("machine example.org login me password s3cret").failure();
    assert_eq!(code, 6, "{stderr}");
    assert!(
        stderr.contains("401") && stderr.contains("netrc"),
        "{stderr}"
    );
    trusted("machine localhost login me password s3cret").text();
    let (code, stderr) = diskfs_with(dir, &words, &NO_AUTHORITIES).failure();
    assert!(code == 6 && stderr.contains("ca-certificates"), "{stderr}");
    let bundle = [("CURL_CA_BUNDLE", "cert.pem"), ("NETRC", "netrc")];
    diskfs_with(dir, &words, &[&NO_AUTHORITIES[..], &bundle].concat()).text();
}

#[test]
fn commands_read_an_image_of_a_store() {
    if require("moto_server").is_none() || require("curl").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    let dir = demo.directory();
    let port = free_port();
    let port_word = port.to_string();
    let _server = TcpServer::start(Command::new("moto_server").args(["-p", &port_word]), port);
    let endpoint = format!("http://127.0.0.1:{port}");
    for words in [
        &["-X", "PUT", &format!("{endpoint}/images")][..],
        &[
            "-T",
            "demo.qcow2",
            &format!("{endpoint}/images/dir/demo.qcow2"),
        ],
    ] {
        let put = Command::new("curl")
            .args([
                "-sSf",
                "-H",
                "Authorization: AWS4-HMAC-SHA256 Credential=a/1/us-east-1/s3/x",
            ])
            .args(words)
            .current_dir(dir)
            .output()
            .unwrap();
        assert!(put.status.success(), "{put:?}");
    }
    let run = |words: &[&str]| {
        // A store without TLS needs no certificate authorities.
        let variables = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "a"),
            ("AWS_SECRET_ACCESS_KEY", "b"),
            ("AWS_REGION", "us-east-1"),
        ];
        diskfs_with(dir, words, &[&NO_AUTHORITIES[..], &variables].concat())
    };
    let image = "s3://images/dir/demo.qcow2";
    assert_eq!(
        run(&["cat", &format!("{image}:/etc/hostname")]).text(),
        "demo\n"
    );
    run(&["compare", "demo.qcow2", image]).text();
    run(&["fetch", "--resume", image, "-o", "copy.qcow2"]).text();
    assert!(fs::read(dir.join("copy.qcow2")).unwrap() == fs::read(dir.join("demo.qcow2")).unwrap());
    let (code, stderr) = run(&["info", "s3://images/missing"]).failure();
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("no such object"), "{stderr}");
    let (code, stderr) = run(&["info", "s3://images"]).failure();
    assert_eq!(code, 2, "{stderr}");
}
