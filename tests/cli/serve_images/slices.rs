//! Slices: compressed transport, without holes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// A proxy that counts the bytes of a server's answers, and may slow them down.
struct Proxy {
    port: u16,
    bytes: Arc<AtomicU64>,
}

impl Proxy {
    fn start(server: u16, pause: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bytes = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&bytes);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || copy(from, to, |_| {}));
                let counter = Arc::clone(&counter);
                let count = move |len| {
                    counter.fetch_add(len, Ordering::Relaxed);
                    std::thread::sleep(pause);
                };
                std::thread::spawn(move || copy(server, client, count));
            }
        });
        Self { port, bytes }
    }

    fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }

    /// Returns the number of bytes since the last call.
    fn bytes(&self) -> u64 {
        self.bytes.swap(0, Ordering::Relaxed)
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, count: impl Fn(u64)) {
    let mut buf = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut buf) {
        count(len as u64);
        if to.write_all(&buf[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Makes images: a sparse one of 1 GiB with 24 MiB of text and 1 MiB of noise, and one of noise.
fn prepare(more: &Path) {
    shell(
        more.parent().unwrap(),
        "seq 1 3400000 | head -c 24M > text
         truncate -s 1G sparse
         dd if=text of=sparse bs=1M seek=100 conv=notrunc status=none
         head -c 9M /dev/urandom > noise
         dd if=noise of=sparse bs=1M count=1 seek=900 conv=notrunc status=none",
    );
}

#[test]
fn holes_are_not_sent_and_text_is_compressed() {
    let Some(scene) = Scene::new(&[], prepare) else {
        return;
    };
    let proxy = Proxy::start(scene.port, Duration::ZERO);
    let fetch = |url: &str, name: &str| {
        let copy = format!("more/{name}");
        let words = ["fetch", "--force", url, "-o", &copy];
        scene.diskfs(&words).text();
        shell(scene.directory(), &format!("cmp {name} more/{name}"));
    };
    fetch(&proxy.url("sparse"), "sparse");
    let sent = proxy.bytes();
    assert!(sent < 12 << 20, "{sent}");
    fetch(&proxy.url("noise"), "noise");
    let sent = proxy.bytes();
    assert!(sent < (9 << 20) + 8000, "{sent}");
    let words = ["import", &proxy.url("sparse"), "-o", "more/imported.raw"];
    let words = [&words[..], &["-O", "raw"]].concat();
    scene.diskfs(&words).text();
    shell(scene.directory(), "cmp sparse more/imported.raw");
    let sent = proxy.bytes();
    assert!(sent < 12 << 20, "{sent}");
    let address = format!("{}:/etc/hostname", proxy.url("demo.qcow2"));
    assert_eq!(scene.diskfs(&["cat", &address]).text(), "demo\n");
}

#[test]
fn curl_and_zstd_read_slices() {
    if require("zstd").is_none() {
        return;
    }
    let Some(scene) = Scene::new(&[], prepare) else {
        return;
    };
    let at = scene.directory();
    let zstd = ["-H", "Accept-Encoding: zstd"];
    for (name, range, coding) in [
        ("sparse", "104857600-113246207", "zstd"),
        ("sparse", "104850000-104860000", "zstd"),
        ("sparse", "0-8388607", "zstd"),
        ("sparse", "943000000-944000000", "zstd"),
        ("sparse", "-4194304", "zstd"),
        ("noise", "0-4194303", ""),
        ("noise", "9000000-", ""),
    ] {
        let slice = format!("{name}?bytes={range}");
        let expected = scene.curl(name, &["-r", range]).0;
        let (head, status) = scene.curl(&slice, &["-I", zstd[0], zstd[1]]);
        let head = String::from_utf8(head).unwrap();
        assert_eq!(status, "200", "{slice}");
        let is_packed = head.contains("content-encoding: zstd\r\n");
        assert_eq!(is_packed, coding == "zstd", "{slice}: {head}");
        for words in [&["--compressed"][..], &[]] {
            let (body, status) = scene.curl(&slice, words);
            assert!(body == expected && status == "200", "{slice}: {status}");
        }
        let (packed, _) = scene.curl(&slice, &zstd);
        if is_packed {
            fs::write(at.join("more/packed"), &packed).unwrap();
            fs::write(at.join("more/expected"), &expected).unwrap();
            shell(at, "zstd -dc more/packed | cmp - more/expected");
            assert!(
                packed.len() < expected.len() / 2 || range.starts_with("943"),
                "{slice}"
            );
        } else {
            assert!(packed == expected, "{slice}");
        }
    }
    for range in ["0-8388608", "0-", "1073741824-", "5-4", "x", "", "0-1,3-4"] {
        let (said, status) = scene.curl(&format!("sparse?bytes={range}"), &[]);
        assert_eq!(status, "404", "{range}");
        assert!(said.starts_with(b"no such slice: "), "{range}");
    }
    assert_eq!(scene.curl("missing?bytes=0-1", &[]).1, "404");
    // Another query is none for a slice.
    assert_eq!(scene.curl("text?x=y", &[]).0.len(), 24 << 20);
}

/// Returns the value of a header.
fn header(head: &[u8], name: &str) -> String {
    let head = String::from_utf8(head.to_vec()).unwrap();
    let mut lines = head.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value
        .unwrap_or_else(|| panic!("no {name}: {head}"))
        .to_owned()
}

#[test]
fn a_slice_is_of_one_version_in_one_coding() {
    let Some(scene) = Scene::new(&[], prepare) else {
        return;
    };
    let zstd = ["-H", "Accept-Encoding: gzip, zstd"];
    let (whole, _) = scene.curl("text", &["-I"]);
    let (plain, _) = scene.curl("text?bytes=5-99999", &["-I"]);
    let (packed, _) = scene.curl("text?bytes=5-99999", &[&zstd[..], &["-I"]].concat());
    let etag = header(&whole, "etag");
    assert_eq!(header(&plain, "etag"), etag);
    let packed_etag = header(&packed, "etag");
    assert_eq!(
        packed_etag,
        format!("{}-zstd\"", etag.strip_suffix('"').unwrap())
    );
    assert_eq!(header(&whole, "diskfs-slice-limit"), "8388608");
    assert_eq!(
        header(&plain, "diskfs-slice"),
        format!("bytes 5-99999/{}", 24 << 20)
    );
    assert_eq!(header(&packed, "vary"), "accept-encoding");
    assert_eq!(header(&plain, "content-length"), "99995");
    let status = |name: &str, value: &str, coding: &[&str]| {
        let condition = format!("{name}: {value}");
        let words = [&["-H", &condition], coding].concat();
        scene.curl("text?bytes=5-99999", &words).1
    };
    let both = format!("{etag}, {packed_etag}");
    for (name, value, coding, expected) in [
        ("If-Match", &etag, &[][..], "200"),
        ("If-Match", &etag, &zstd, "412"),
        ("If-Match", &packed_etag, &zstd, "200"),
        ("If-Match", &packed_etag, &[], "412"),
        ("If-Match", &both, &[], "200"),
        ("If-Match", &both, &zstd, "200"),
        ("If-None-Match", &packed_etag, &zstd, "304"),
        ("If-None-Match", &etag, &zstd, "200"),
    ] {
        assert_eq!(
            status(name, value, coding),
            expected,
            "{name}: {value} {coding:?}"
        );
    }
    shell(scene.directory(), "touch text");
    assert_eq!(status("If-Match", &both, &zstd), "412");
}

/// Waits until an unfinished copy has recorded that a part of it is done.
fn wait_for_record(record: &Path) {
    let start = Instant::now();
    let done = || {
        let record = fs::read_to_string(record).ok()?;
        record.lines().nth(1)?.parse::<u64>().ok()
    };
    while done().is_none_or(|done| done == 0) {
        assert!(start.elapsed() < Duration::from_mins(1), "no record");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_change_is_noticed_and_a_killed_copy_is_continued() {
    let Some(scene) = Scene::new(&[], prepare) else {
        return;
    };
    let proxy = Proxy::start(scene.port, Duration::from_millis(80));
    let url = proxy.url("sparse");
    let at = scene.directory();
    let begin = || {
        let mut copy = Command::new(DISKFS);
        let copy = copy.args(["fetch", "--resume", &url, "-o", "more/copy"]);
        copy.current_dir(at).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut copy = begin();
    wait_for_record(&at.join("more/copy.resume"));
    copy.kill().unwrap();
    copy.wait().unwrap();
    let words = ["fetch", "--resume", "--json", &url];
    let words = [&words[..], &["-o", "more/copy"]].concat();
    let document = scene.diskfs(&words).json();
    assert!(
        document["resumed_bytes"].as_u64().unwrap() >= 16 << 20,
        "{document}"
    );
    shell(at, "cmp sparse more/copy; rm more/copy");
    let copy = begin();
    wait_for_record(&at.join("more/copy.resume"));
    shell(
        at,
        "printf x | dd of=sparse bs=1 seek=1000M conv=notrunc status=none",
    );
    let output = copy.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("changed on the server"), "{stderr}");
    assert!(!at.join("more/copy").exists());
}

#[test]
fn tokens_hold_for_slices() {
    let tokens = "first-token-0123456789\nsecond-token-0123456789 *.raw\n";
    let Some(scene) = Scene::new(&["--token-file", "more/tokens"], |more| {
        fs::write(more.join("tokens"), tokens).unwrap();
        fs::set_permissions(more.join("tokens"), PermissionsExt::from_mode(0o600)).unwrap();
    }) else {
        return;
    };
    let status = |token: &str| {
        let header = format!("Authorization: Bearer {token}");
        let words = ["--compressed", "-H", &header];
        let (body, status) = scene.curl("demo.qcow2?bytes=0-99", &words);
        (String::from_utf8_lossy(&body).into_owned(), status)
    };
    assert_eq!(status("first-token-0123456789").1, "200");
    let missing = ("no such image\n".to_owned(), "404".to_owned());
    assert_eq!(status("second-token-0123456789"), missing);
    assert_eq!(status("another-token-0123456789").1, "401");
    assert_eq!(scene.curl("demo.qcow2?bytes=0-99", &[]).1, "401");
    let variables = [("DISKFS_HTTP_TOKEN", "first-token-0123456789")];
    let words = ["fetch", &scene.url("demo.qcow2"), "-o", "more/copy"];
    diskfs_with(scene.directory(), &words, &variables).text();
    shell(scene.directory(), "cmp demo.qcow2 more/copy");
}

#[test]
fn proxies_may_know_nothing_of_slices() {
    if require("nginx").is_none() {
        return;
    }
    let Some(scene) = Scene::new(&[], prepare) else {
        return;
    };
    for (lines, mib) in [
        ("", 0..12),
        ("proxy_set_header Accept-Encoding '';", 24..25),
        ("set $args '';", 24..80),
        ("proxy_hide_header Diskfs-Slice-Limit;", 24..25),
        ("proxy_hide_header ETag;", 24..25),
    ] {
        let (work, port) = (tempfile::tempdir().unwrap(), free_port());
        let lines = format!(
            "listen 127.0.0.1:{port}; location / {{ {lines} proxy_pass http://127.0.0.1:{}; }}",
            scene.port
        );
        let _nginx = TcpServer::nginx(work.path(), work.path(), port, &lines);
        let proxy = Proxy::start(port, Duration::ZERO);
        let words = ["fetch", "--force", &proxy.url("text"), "-o", "more/copy"];
        let output = scene.diskfs(&words);
        assert_eq!(output.code(), Some(0), "{lines}: {}", output.stderr());
        shell(scene.directory(), "cmp text more/copy");
        let sent = proxy.bytes();
        assert!(mib.contains(&(sent >> 20)), "{lines}: {sent}");
    }
}
