//! The Debian system as an image of an HTTP server.

use std::fs;
use std::sync::Arc;

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
    let asked = device.statistics();
    assert!(asked.requests <= 20, "{asked:?}");
    assert!(asked.bytes <= 8 << 20, "{asked:?}");
    let log = fs::read_to_string(work.path().join("nginx.log")).unwrap();
    assert_eq!(log.lines().count() as u64, asked.requests);
}
