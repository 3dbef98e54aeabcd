//! Compressed slices, of servers that have them, that seem to have them, and that attack.

use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use diskfs_block::{BlockRead, Error, ErrorKind, Result};
use diskfs_objects::{Device, Download, Options};

use crate::server::{Request, Server, object, send, send_range};

const LEN: usize = 9 << 20;

fn options() -> Options {
    Options {
        stall_timeout: Duration::from_secs(2),
        retry_timeout: Duration::from_secs(1),
        ..Options::default()
    }
}

/// Returns the slice that a request asks for.
fn slice(request: &Request) -> Option<Range<usize>> {
    let (_, query) = request.path.split_once('?')?;
    let (first, last) = query.strip_prefix("bytes=")?.split_once('-')?;
    Some(first.parse().unwrap()..last.parse::<usize>().unwrap() + 1)
}

/// Sends a range, and says that there are slices.
fn send_announced(request: &Request, stream: &mut TcpStream, object: &[u8]) {
    let range = request.range(object.len());
    let (first, last, total) = (range.start, range.end - 1, object.len());
    let body = &object[range];
    let headers = [
        format!("Content-Length: {}", body.len()),
        format!("Content-Range: bytes {first}-{last}/{total}"),
        "ETag: \"1\"".to_owned(),
        "Diskfs-Slice-Limit: 8388608".to_owned(),
    ];
    send(stream, "206 Partial Content", &headers, body);
}

/// Returns the headers of a slice.
fn headers(range: &Range<usize>, etag: &str, coding: &str, len: usize) -> Vec<String> {
    let (first, last) = (range.start, range.end - 1);
    vec![
        format!("Diskfs-Slice: bytes {first}-{last}/{LEN}"),
        format!("ETag: {etag}"),
        format!("Content-Encoding: {coding}"),
        format!("Content-Length: {len}"),
    ]
}

fn send_packed(range: &Range<usize>, stream: &mut TcpStream, packed: &[u8]) {
    let headers = headers(range, "\"1-zstd\"", "zstd", packed.len());
    send(stream, "200 OK", &headers, packed);
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).unwrap()
}

/// Starts a server with slices, which answers requests for them by `answer`.
fn server(
    answer: impl Fn(&Range<usize>, &Request, &mut TcpStream) + Send + Sync + 'static,
) -> Server {
    let bytes = object(LEN);
    Server::start(move |request, stream| match slice(request) {
        Some(range) => {
            assert_eq!(request.header("if-match"), Some("\"1\", \"1-zstd\""));
            assert_eq!(request.header("accept-encoding"), Some("zstd"));
            assert_eq!(request.header("range"), None);
            answer(&range, request, stream);
        }
        None => send_announced(request, stream, &bytes),
    })
}

fn read_all(server: &Server) -> Result<Vec<u8>> {
    let mut found = Vec::new();
    Download::open(&server.url, "disk", &options())?.read_from(0, |part| {
        found.extend_from_slice(part);
        Ok::<_, Error>(())
    })?;
    Ok(found)
}

fn read_some(server: &Server) -> Result<()> {
    let device = Device::open(&server.url, "disk", &options())?;
    let mut buf = [0; 4096];
    device.read_at(2 << 20, &mut buf)?;
    assert_eq!(buf, object(LEN)[2 << 20..(2 << 20) + 4096]);
    Ok(())
}

#[test]
fn slices_are_decoded() {
    let bytes = object(LEN);
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    let good = server(move |range, request, stream| {
        let body = &bytes[range.clone()];
        if request.number % 2 == 0 {
            // Incompressible, a server might think.
            let headers = headers(range, "\"1\"", "identity", body.len());
            return send(stream, "200 OK", &headers, body);
        }
        let packed = packed(body);
        counter.fetch_add(packed.len() as u64, Ordering::Relaxed);
        send_packed(range, stream, &packed);
    });
    assert!(read_all(&good).unwrap() == object(LEN));
    read_some(&good).unwrap();
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent > 0 && sent < LEN as u64 / 8, "{sent}");
}

#[test]
fn servers_and_proxies_without_slices_work() {
    let bytes = Arc::new(object(LEN));
    let whole = Arc::clone(&bytes);
    // A proxy that loses the query.
    let lost = server(move |_, _, stream| {
        let headers = [format!("Content-Length: {LEN}"), "ETag: \"1\"".to_owned()];
        send(stream, "200 OK", &headers, &whole);
    });
    // One that keeps one slice for all.
    let first = Arc::clone(&bytes);
    let same = server(move |_, _, stream| send_packed(&(0..9), stream, &packed(&first[..9])));
    let refused = server(|_, _, stream| {
        send(
            stream,
            "400 Bad Request",
            &["Content-Length: 0".into()],
            b"",
        );
    });
    let other = server(|range, _, stream| {
        send(stream, "200 OK", &headers(range, "\"1\"", "gzip", 1), b"x");
    });
    for server in [lost, same, refused, other] {
        let before = server.requests();
        read_some(&server).unwrap();
        assert_eq!(
            server.requests() - before,
            3,
            "a first one, a slice, a range"
        );
        assert!(read_all(&server).unwrap() == *bytes);
    }
    // No slices without a version, behind a query, and of other servers.
    let plain = Server::start(move |request, stream| {
        assert!(request.header("if-match").is_none());
        send_range(request, stream, &bytes, "W/\"1\"");
    });
    read_some(&plain).unwrap();
    let signed = server(|_, _, _| unreachable!());
    let url = format!("{}?signature=1", signed.url);
    let device = Device::open(&url, "disk", &options()).unwrap();
    device.read_at(2 << 20, &mut [0; 4096]).unwrap();
}

#[test]
fn another_version_is_an_error() {
    let gone = server(|_, _, stream| {
        let headers = ["Content-Length: 0".to_owned()];
        send(stream, "412 Precondition Failed", &headers, b"");
    });
    let version = server(|range, _, stream| {
        let packed = packed(&object(LEN)[range.clone()]);
        let headers = headers(range, "\"2-zstd\"", "zstd", packed.len());
        send(stream, "200 OK", &headers, &packed);
    });
    let size = server(|range, _, stream| {
        let (first, last) = (range.start, range.end - 1);
        let headers = [
            format!("Diskfs-Slice: bytes {first}-{last}/{}", LEN + 1),
            "ETag: \"1\"".to_owned(),
        ];
        send(stream, "200 OK", &headers, b"");
    });
    for server in [gone, version, size] {
        let error = read_some(&server).unwrap_err();
        assert!(
            error.to_string().contains("changed on the server"),
            "{error}"
        );
        assert_eq!(server.requests(), 2, "no retries");
    }
}

#[test]
fn lies_are_errors() {
    let long = server(|range, _, stream| {
        send_packed(range, stream, &packed(&vec![0; range.len() + 1]));
    });
    let bomb = server(|range, _, stream| send_packed(range, stream, &packed(&vec![0; 1 << 30])));
    let endless = server(|range, _, stream| {
        // Frames of nothing.
        send_packed(range, stream, &packed(b"").repeat(1 << 20));
    });
    let invalid = server(|range, _, stream| send_packed(range, stream, &[1; 100]));
    let short = server(|range, _, stream| {
        send_packed(range, stream, &packed(&vec![0; range.len() - 1]));
    });
    let cut = server(|range, _, stream| {
        let packed = packed(&object(LEN)[range.clone()]);
        send_packed(range, stream, &packed[..packed.len() - 3]);
    });
    for (server, said, is_final) in [
        (
            long,
            "disk: the server sent more bytes than it was asked for",
            true,
        ),
        (bomb, "more bytes", true),
        (endless, "more bytes", true),
        (invalid, "invalid zstd data: Unknown frame descriptor", true),
        (short, "of 262144 bytes", false),
        (cut, "of 262144 bytes", false),
    ] {
        let error = read_some(&server).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(
            server.requests() == 2,
            is_final,
            "{said}: {}",
            server.requests()
        );
    }
}

#[test]
fn slices_that_fail_are_asked_for_again() {
    let bytes = object(LEN);
    let server = server(move |range, request, stream| match request.number {
        1 => send(stream, "503 Busy", &["Content-Length: 0".into()], b""),
        2 => drop(stream.shutdown(std::net::Shutdown::Both)),
        _ => send_packed(range, stream, &packed(&bytes[range.clone()])),
    });
    read_some(&server).unwrap();
    assert_eq!(server.requests(), 4);
}
