//! Directories that are listed while they change.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, Ordering};

use super::Writable;
use crate::can_mount;

const FILES: usize = 10_000;

#[test]
fn what_stays_is_listed_once_whatever_comes_and_goes() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    for n in 0..FILES {
        File::create(m.join(format!("stays-{n}"))).unwrap();
        if n % 4 == 0 {
            File::create(m.join(format!("goes-{n}"))).unwrap();
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..FILES {
                if n % 4 == 0 {
                    fs::remove_file(m.join(format!("goes-{n}"))).unwrap();
                    File::create(m.join(format!("comes-{n}"))).unwrap();
                    fs::rename(m.join(format!("comes-{n}")), m.join(format!("moved-{n}"))).unwrap();
                }
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let mut seen: HashMap<OsString, usize> = HashMap::new();
            for entry in fs::read_dir(&*m).unwrap() {
                *seen.entry(entry.unwrap().file_name()).or_default() += 1;
            }
            let twice = seen.iter().find(|(_, count)| **count > 1);
            assert_eq!(twice, None);
            let stays = seen
                .keys()
                .filter(|name| name.as_encoded_bytes().starts_with(b"stays"));
            assert_eq!(stays.count(), FILES);
        }
    });
    let names = fs::read_dir(&*m).unwrap().map(|e| e.unwrap().file_name());
    let moved = names.filter(|name| name.as_encoded_bytes().starts_with(b"moved"));
    assert_eq!(moved.count(), FILES / 4);
}

#[test]
fn what_a_listing_told_does_not_come_back() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    for n in 0..2000 {
        File::create(m.join(n.to_string())).unwrap();
    }
    // The listing began with all of them. A name that is removed before its position is reached
    // must not be reported to the kernel as existing.
    let mut listing = fs::read_dir(&*m).unwrap();
    listing.next().unwrap().unwrap();
    for n in 0..2000 {
        fs::remove_file(m.join(n.to_string())).unwrap();
    }
    fs::write(m.join("1999"), "another").unwrap();
    let _rest: Vec<_> = listing.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!m.join("1000").exists());
    assert_eq!(fs::read_to_string(m.join("1999")).unwrap(), "another");
    assert_eq!(fs::read_dir(&*m).unwrap().count(), 1);
}

#[test]
fn a_listing_that_is_rewound_begins_anew() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    File::create(m.join("a")).unwrap();
    let dir = rustix::fs::open(
        &*m,
        rustix::fs::OFlags::DIRECTORY,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    let mut listing = rustix::fs::Dir::new(dir).unwrap();
    assert_eq!(listing.by_ref().count(), 3);
    File::create(m.join("b")).unwrap();
    listing.rewind();
    assert_eq!(listing.count(), 4);
}
