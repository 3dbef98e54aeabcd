//! The Debian system as an image of an HTTP server.

use std::fs;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use diskfs::Disk;
use diskfs::inspect::{Depth, Report};
use diskfs::objects::{Device, Options};
use diskfs_fixtures::{TcpServer, free_port, require};

use super::debian;

/// The inspection of the compressed image over HTTP asks for a small part of it.
#[test]
fn debian_is_inspected_over_http_in_few_requests() {
    let Some(debian) = debian().filter(|_| require("nginx").is_some()) else {
        return;
    };
    let (work, port) = (tempfile::tempdir().unwrap(), free_port());
    let listen = format!("listen 127.0.0.1:{port};");
    let _server = TcpServer::nginx(&debian.directory, work.path(), port, &listen);
    let url = format!("http://127.0.0.1:{port}/zstd.qcow2");
    let device = Device::open(&url, &url, &Options::default()).unwrap();
    let device = Arc::new(device);
    let disk = Disk::options().open_device(&url, device.clone()).unwrap();
    let report = Report::of(&disk.filesystem().unwrap(), Depth::Files);
    assert_eq!(report.problems, []);
    assert!(report.packages.installed.unwrap().len() > 100);
    // What is read ahead counts when it has arrived, and nginx notes a request after that.
    let log = work.path().join("nginx.log");
    let noted = || fs::read_to_string(&log).unwrap().lines().count() as u64;
    let deadline = Instant::now() + Duration::from_secs(10);
    while noted() != device.statistics().requests && Instant::now() < deadline {
        sleep(Duration::from_millis(10));
    }
    let asked = device.statistics();
    assert_eq!(noted(), asked.requests);
    assert!(asked.requests <= 20, "{asked:?}");
    assert!(asked.bytes <= 6 << 20, "{asked:?}");
}
