//! Reading: the right bytes, in few requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::BlockRead;
use diskfs_objects::{Device, Options};
use proptest::prelude::*;

use crate::server::{Server, object, send, send_range};

fn open(url: &str) -> Device {
    Device::open(url, "disk", &Options::default()).unwrap()
}

#[test]
fn all_bytes_are_right_in_any_order() {
    let bytes = Arc::new(object((9 << 20) + 123));
    let served = Arc::clone(&bytes);
    let server = Server::start(move |request, stream| {
        send_range(request, stream, &served, "\"1\"");
    });
    let ranges = prop::collection::vec((0..bytes.len(), 0..3_usize << 20), 1..20);
    let cached = prop::sample::select(vec![0_u64, 1 << 20, 64 << 20]);
    proptest!(ProptestConfig::with_cases(24), |(ranges in ranges, cache_bytes in cached)| {
        let options = Options { cache_bytes, ..Options::default() };
        let device = Device::open(&server.url, "disk", &options).unwrap();
        std::thread::scope(|scope| {
            for (start, len) in &ranges {
                let (device, bytes) = (&device, &bytes);
                scope.spawn(move || {
                    let end = (start + len).min(bytes.len());
                    let mut buf = vec![0; end - start];
                    device.will_need(*start as u64 / 2, *len as u64);
                    device.read_at(*start as u64, &mut buf).unwrap();
                    assert!(buf == bytes[*start..end], "{start}+{len}");
                });
            }
        });
    });
}

#[test]
fn many_threads_share_a_request() {
    let bytes = Arc::new(object(4 << 20));
    let served = Arc::clone(&bytes);
    let server = Server::start(move |request, stream| {
        std::thread::sleep(Duration::from_millis(50));
        send_range(request, stream, &served, "\"1\"");
    });
    let device = open(&server.url);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut buf = [0; 512];
                device.read_at(2 << 20, &mut buf).unwrap();
                assert_eq!(buf[..], bytes[2 << 20..(2 << 20) + 512]);
            });
        }
    });
    assert_eq!(server.requests(), 2);
    let statistics = device.statistics();
    assert_eq!(statistics.requests, 2);
    assert_eq!(statistics.bytes, (128 << 10) + (256 << 10));
}

#[test]
fn reading_in_order_does_not_wait_for_each_request() {
    let bytes = Arc::new(object(16 << 20));
    let served = Arc::clone(&bytes);
    let delay = Duration::from_millis(20);
    let server = Server::start(move |request, stream| {
        std::thread::sleep(delay);
        send_range(request, stream, &served, "\"1\"");
    });
    let device = open(&server.url);
    let mut buf = vec![0; 64 << 10];
    let start = Instant::now();
    for at in (0..bytes.len()).step_by(buf.len()) {
        device.read_at(at as u64, &mut buf).unwrap();
        assert!(buf == bytes[at..at + buf.len()], "at {at}");
    }
    // 256 reads; without reading ahead, each of at least 16 requests is waited for.
    assert!(server.requests() < 20, "{} requests", server.requests());
    assert!(start.elapsed() < delay * 64, "{:?}", start.elapsed());
}

#[test]
fn sizes_of_all_kinds() {
    for len in [0, 1, 511, 65_536, 131_072, 131_073] {
        let bytes = object(len);
        let served = bytes.clone();
        let server = Server::start(move |request, stream| {
            if served.is_empty() {
                let headers = [
                    "Content-Range: bytes */0".into(),
                    "Content-Length: 0".into(),
                ];
                send(stream, "416 Range Not Satisfiable", &headers, b"");
            } else {
                send_range(request, stream, &served, "\"1\"");
            }
        });
        let device = open(&server.url);
        assert_eq!(device.size_bytes(), len as u64);
        let mut buf = vec![0; len];
        device.read_at(0, &mut buf).unwrap();
        assert!(buf == bytes);
        assert!(device.read_at(len as u64, &mut [0]).is_err());
        device.will_need(0, u64::MAX);
        device.will_need(u64::MAX, u64::MAX);
    }
}

#[test]
fn a_server_without_ranges_may_have_short_images() {
    let server = Server::start(|_, stream| {
        send(
            stream,
            "200 OK",
            &["Content-Length: 600".into()],
            &object(600),
        );
    });
    let device = open(&server.url);
    let mut buf = [0; 600];
    device.read_at(0, &mut buf).unwrap();
    assert_eq!(buf[..], object(600));
}
