//! Exports that are opened on demand.

use std::os::unix::net::UnixListener;
use std::sync::Arc;

use diskfs_block::{Error, Memory, Result};
use diskfs_fixtures::have;
use diskfs_nbd::server::{Catalog, Export, Options, Server};

use crate::hand::Hand;
use crate::rig::{attempt, program};

const ERR_UNKNOWN: u32 = (1 << 31) + 6;

/// A catalog with good and bad exports.
#[derive(Debug)]
struct Shelf;

impl Catalog for Shelf {
    fn names(&self) -> Result<Vec<String>> {
        Ok(["good", "other"].map(str::to_owned).to_vec())
    }

    fn open(&self, name: &str) -> Result<Option<Export>> {
        let device = Arc::new(Memory::new(vec![7; 1 << 20]));
        match name {
            "good" | "other" => Ok(Some(Export::read_only(name, device))),
            "writable" => Ok(Some(Export::writable(name, device))),
            "damaged" => Err(Error::invalid("a damaged image").in_file("/secret/path")),
            "panic" => panic!("a catalog that panics"),
            _ => Ok(None),
        }
    }
}

fn named(name: &str) -> Vec<u8> {
    let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend([0, 0]);
    data
}

#[test]
fn exports_are_opened_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let server = Server::with_catalog(Shelf, Options::default()).unwrap();
    server.listen(UnixListener::bind(&socket).unwrap()).unwrap();
    let connect = || std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let mut hand = Hand::greet(connect());
    let listed = hand.option(3, b"");
    let names: Vec<_> = listed
        .iter()
        .map(|(kind, data)| (*kind, data.get(4..)))
        .collect();
    assert_eq!(
        names,
        [(2, Some(&b"good"[..])), (2, Some(b"other")), (1, None)]
    );
    for (name, reason) in [
        ("damaged", "a damaged image"),
        ("panic", "panicked"),
        ("writable", "writable"),
        ("", "unknown export"),
        ("good ", "unknown export"),
    ] {
        let replies = hand.option(6, &named(name));
        let (kind, said) = replies.last().unwrap();
        let said = String::from_utf8_lossy(said);
        assert_eq!(*kind, ERR_UNKNOWN, "{name}: {said}");
        assert!(
            said.contains(reason) && !said.contains("secret"),
            "{name}: {said}"
        );
    }
    // The connection goes on.
    let replies = hand.option(7, &named("good"));
    assert_eq!(replies.last(), Some(&(1, vec![])), "{replies:?}");
    if have(&["nbdinfo", "nbdcopy"]) {
        let place = format!("socket={}", socket.display());
        let list = program(&format!("nbdinfo --list --json nbd+unix:///?{place}"));
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        let exports = list["exports"].as_array().unwrap();
        assert_eq!(exports.len(), 2, "{list}");
        for export in exports {
            assert_eq!(export["is_read_only"], true, "{list}");
            assert_eq!(export["can_multi_conn"], false, "{list}");
        }
        let copy = directory.path().join("copy");
        program(&format!(
            "nbdcopy nbd+unix:///other?{place} {}",
            copy.display()
        ));
        assert_eq!(std::fs::read(copy).unwrap(), vec![7; 1 << 20]);
        assert!(attempt(&format!("nbdinfo nbd+unix:///damaged?{place}")).is_err());
    }
    server.stop().unwrap();
}
