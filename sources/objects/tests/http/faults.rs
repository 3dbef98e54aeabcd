//! Servers that fail, lie, change their mind or attack.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use diskfs_block::{BlockRead, Error, ErrorKind};
use diskfs_objects::{Device, Options};

use crate::server::{Request, Server, object, send, send_range};

const LEN: usize = 3 << 20;

fn options() -> Options {
    Options {
        connect_timeout: Duration::from_secs(2),
        stall_timeout: Duration::from_millis(300),
        retry_timeout: Duration::from_secs(2),
        ..Options::default()
    }
}

/// Returns the error of opening the object, or of reading it from its middle.
fn failure(server: &Server) -> Error {
    match Device::open(&server.url, "disk", &options()) {
        Ok(device) => device.read_at(2 << 20, &mut [0; 4096]).unwrap_err(),
        Err(error) => error,
    }
}

/// Starts a server whose first answer is right, and whose other ones are `answer`.
fn later(answer: impl Fn(&Request, &mut std::net::TcpStream) + Send + Sync + 'static) -> Server {
    let bytes = object(LEN);
    Server::start(move |request, stream| {
        if request.number == 0 {
            send_range(request, stream, &bytes, "\"1\"");
        } else {
            answer(request, stream);
        }
    })
}

#[test]
fn an_object_that_changes_is_an_error() {
    let same_size = later(|request, stream| {
        assert_eq!(request.header("if-range"), Some("\"1\""));
        send_range(request, stream, &object(LEN), "\"2\"");
    });
    let whole = later(|_, stream| {
        send(
            stream,
            "200 OK",
            &[format!("Content-Length: {LEN}")],
            &object(LEN),
        );
    });
    let longer = later(|request, stream| {
        send_range(request, stream, &object(LEN + 1), "\"1\"");
    });
    let precondition = later(|_, stream| {
        send(
            stream,
            "412 Precondition Failed",
            &["Content-Length: 0".into()],
            b"",
        );
    });
    for server in [same_size, whole, longer, precondition] {
        let error = failure(&server);
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(
            error.to_string().contains("changed on the server"),
            "{error}"
        );
        assert!(error.to_string().starts_with("disk: "), "{error}");
        assert_eq!(server.requests(), 2, "no retries");
    }
}

#[test]
fn other_ranges_and_lengths_are_refused() {
    let head = |range: &str, len: usize| {
        vec![
            format!("Content-Range: bytes {range}/{LEN}"),
            format!("Content-Length: {len}"),
            "ETag: \"1\"".to_owned(),
        ]
    };
    let other = later(move |_, stream| {
        send(
            stream,
            "206 Partial Content",
            &head("0-4095", 4096),
            &object(4096),
        );
    });
    assert!(failure(&other).to_string().contains("another range"));
    let more = later(|request, stream| {
        let range = request.range(LEN);
        let headers = [
            format!(
                "Content-Range: bytes {}-{}/{LEN}",
                range.start,
                range.end - 1
            ),
            "ETag: \"1\"".to_owned(),
            "Connection: close".to_owned(),
        ];
        send(stream, "206 Partial Content", &headers, &object(4 << 20));
        let _ = stream.shutdown(std::net::Shutdown::Both);
    });
    assert!(failure(&more).to_string().contains("more bytes"));
    let encoded = later(|request, stream| {
        let range = request.range(LEN);
        let headers = [
            format!(
                "Content-Range: bytes {}-{}/{LEN}",
                range.start,
                range.end - 1
            ),
            "Content-Encoding: gzip".to_owned(),
            "Content-Length: 0".to_owned(),
        ];
        send(stream, "206 Partial Content", &headers, b"");
    });
    assert_eq!(failure(&encoded).kind(), ErrorKind::Unsupported);
}

#[test]
fn connections_that_break_are_opened_again() {
    let bytes = object(LEN);
    let server = Server::start(move |request, stream| match request.number {
        0 | 4 => send_range(request, stream, &bytes, "\"1\""),
        1 => {
            // Less than announced.
            let range = request.range(LEN);
            let headers = [
                format!(
                    "Content-Range: bytes {}-{}/{LEN}",
                    range.start,
                    range.end - 1
                ),
                format!("Content-Length: {}", range.len()),
                "ETag: \"1\"".to_owned(),
            ];
            send(stream, "206 Partial Content", &headers, &bytes[..100]);
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        2 => drop(stream.shutdown(std::net::Shutdown::Both)),
        _ => {
            let headers = ["Retry-After: 1".into(), "Content-Length: 0".into()];
            send(stream, "503 Service Unavailable", &headers, b"");
        }
    });
    let long = Options {
        retry_timeout: Duration::from_secs(20),
        ..options()
    };
    let device = Device::open(&server.url, "disk", &long).unwrap();
    let mut buf = [0; 4096];
    let start = Instant::now();
    device.read_at(2 << 20, &mut buf).unwrap();
    assert_eq!(buf[..], object(LEN)[2 << 20..(2 << 20) + 4096]);
    assert!(start.elapsed() >= Duration::from_secs(1), "Retry-After");
    assert_eq!(server.requests(), 5);
}

#[test]
fn an_outage_is_waited_for_once() {
    let bytes = object(LEN);
    let is_up = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&is_up);
    let server = Server::start(move |request, stream| {
        if state.load(Ordering::Relaxed) {
            send_range(request, stream, &bytes, "\"1\"");
        } else {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    });
    let device = Device::open(&server.url, "disk", &options()).unwrap();
    let read = |offset| {
        let start = Instant::now();
        let done = device.read_at(offset, &mut [0; 4096]);
        (done.map_err(|e| e.kind()), start.elapsed())
    };
    is_up.store(false, Ordering::Relaxed);
    let (failed, waited) = read(2 << 20);
    assert_eq!(failed, Err(ErrorKind::Io));
    // The last pause would be longer than what is left of the two seconds.
    assert!(waited > Duration::from_millis(1400), "{waited:?}");
    for _ in 0..20 {
        assert_eq!(read(2 << 20).0, Err(ErrorKind::Io));
    }
    let (failed, waited) = read(1 << 20);
    assert_eq!(failed, Err(ErrorKind::Io));
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    is_up.store(true, Ordering::Relaxed);
    assert_eq!(read(2 << 20).0, Ok(()));
    // The next one is waited for again.
    is_up.store(false, Ordering::Relaxed);
    let (failed, waited) = read(1 << 20);
    assert_eq!(failed, Err(ErrorKind::Io));
    assert!(waited > Duration::from_millis(1400), "{waited:?}");
}

#[test]
fn servers_that_do_not_answer_end_in_an_error() {
    let silent = later(|_, _| std::thread::sleep(Duration::from_mins(1)));
    let slow = later(|request, stream| {
        let range = request.range(LEN);
        let headers = [
            format!(
                "Content-Range: bytes {}-{}/{LEN}",
                range.start,
                range.end - 1
            ),
            format!("Content-Length: {}", range.len()),
            "ETag: \"1\"".to_owned(),
        ];
        send(stream, "206 Partial Content", &headers, b"");
        // One byte now and then.
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let one = Options {
        stall_timeout: Duration::from_millis(300),
        retry_timeout: Duration::from_millis(500),
        ..options()
    };
    for (server, most) in [(silent, 5), (slow, 25)] {
        let device = Device::open(&server.url, "disk", &one).unwrap();
        let start = Instant::now();
        let error = device.read_at(2 << 20, &mut [0; 4096]).unwrap_err();
        assert!(error.to_string().contains("in time"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(most), "{error}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    for (status, kind, said) in [
        ("404 Not Found", ErrorKind::NotFound, "404"),
        ("410 Gone", ErrorKind::NotFound, "410"),
        ("401 Unauthorized", ErrorKind::Denied, "netrc"),
        ("403 Forbidden", ErrorKind::Denied, "netrc"),
        ("418 I'm a teapot", ErrorKind::Io, "418"),
        ("200 OK", ErrorKind::Unsupported, "download"),
    ] {
        let server = Server::start(move |_, stream| {
            let headers = [format!("Content-Length: {}", 1_u64 << 40)];
            send(stream, status, &headers, b"");
            let _ = stream.shutdown(std::net::Shutdown::Both);
        });
        let error = failure(&server);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(server.requests(), 1, "{status}: no retries");
    }
    let busy = Server::start(|_, stream| {
        send(
            stream,
            "500 Internal Server Error",
            &["Content-Length: 0".into()],
            b"",
        );
    });
    assert!(failure(&busy).to_string().contains("500"));
    assert!(busy.requests() > 1, "retries");
    let error = Device::open("http://127.0.0.1:1/x", "disk", &options()).unwrap_err();
    assert!(error.to_string().contains("cannot connect: "), "{error}");
    for (url, said) in [
        ("http://user:password@127.0.0.1/x", "netrc"),
        ("http://", "invalid URL"),
        ("s3://bucket", "missing the name"),
    ] {
        let error = Device::open(url, "disk", &options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn redirections_lead_to_http_only_and_expire() {
    for target in ["file:///etc/passwd", "ftp://127.0.0.1/x"] {
        let server = Server::start(move |_, stream| {
            let headers = [format!("Location: {target}"), "Content-Length: 0".into()];
            send(stream, "302 Found", &headers, b"");
        });
        let error = failure(&server);
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("redirection"), "{error}");
    }
    let circle = Server::start(|_, stream| {
        let headers = ["Location: /other".into(), "Content-Length: 0".into()];
        send(stream, "302 Found", &headers, b"");
    });
    assert!(failure(&circle).to_string().contains("too many"));
    let bytes = object(LEN);
    let server = Server::start(move |request, stream| {
        // Each address that is redirected to works twice.
        let uses = request.number / 3;
        match request.path.as_str() {
            "/disk" => {
                let headers = [
                    format!("Location: /signed{uses}"),
                    "Content-Length: 0".into(),
                ];
                send(stream, "302 Found", &headers, b"");
            }
            path if path == format!("/signed{uses}") => {
                send_range(request, stream, &bytes, "\"1\"");
            }
            _ => send(stream, "403 Forbidden", &["Content-Length: 0".into()], b""),
        }
    });
    let device = Device::open(&server.url, "disk", &options()).unwrap();
    let mut buf = [0; 4096];
    for at in [1 << 20, 2 << 20, (2 << 20) + (600 << 10)] {
        device.read_at(at as u64, &mut buf).unwrap();
        assert_eq!(buf[..], object(LEN)[at..at + 4096]);
    }
}
