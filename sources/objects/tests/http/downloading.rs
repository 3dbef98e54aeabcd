//! Reading of whole objects.

use std::sync::Arc;
use std::time::Duration;

use diskfs_block::{Error, ErrorKind, Result};
use diskfs_objects::{Download, Options};

use crate::server::{Server, object, send, send_range};

fn read(download: &Download, start: u64) -> Result<Vec<u8>> {
    let mut found = Vec::new();
    download.read_from(start, |part| {
        found.extend_from_slice(part);
        Ok::<_, Error>(())
    })?;
    Ok(found)
}

#[test]
fn all_bytes_come_in_order_by_several_requests() {
    let bytes = Arc::new(object((21 << 20) + 123));
    let served = Arc::clone(&bytes);
    let server = Server::start(move |request, stream| {
        // Every third request fails once, and the first of several is the slowest.
        match request.number % 3 {
            1 => send(stream, "503 Busy", &[], b""),
            2 => std::thread::sleep(Duration::from_millis(50)),
            _ => {}
        }
        if request.number % 3 != 1 {
            send_range(request, stream, &served, "\"1\"");
        }
    });
    let download = Download::open(&server.url, "disk", &Options::default()).unwrap();
    assert_eq!(download.size_bytes(), bytes.len() as u64);
    assert_eq!(download.version(), Some("etag \\\"1\\\""));
    for start in [0, 1000, 128 << 10, 9 << 20, bytes.len()] {
        assert!(
            read(&download, start as u64).unwrap() == bytes[start..],
            "{start}"
        );
    }
}

#[test]
fn the_first_error_ends_the_reading() {
    let bytes = Arc::new(object(40 << 20));
    let served = Arc::clone(&bytes);
    let server = Server::start(move |request, stream| {
        let etag = if request.number < 4 { "\"1\"" } else { "\"2\"" };
        send_range(request, stream, &served, etag);
    });
    let options = Options {
        max_requests: 2,
        ..Options::default()
    };
    let download = Download::open(&server.url, "disk", &options).unwrap();
    let before = server.requests();
    let full = |_: &[u8]| Err(Error::new(ErrorKind::NoSpace, "full"));
    let error = download.read_from(0, full).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    let error = download.read_from(1 << 20, full).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(server.requests() <= before + 3, "{}", server.requests());
    let error = read(&download, 0).unwrap_err();
    assert!(error.to_string().contains("changed"), "{error}");
}
