//! Comparison of our results with QEMU's.

use std::path::Path;

use diskfs_block::{BlockRead, ErrorKind, ExtentKind};
use diskfs_image::{Image, MapEntry, OpenOptions};
use serde_json::Value;

use crate::encryption::options;
use crate::tools::{Random, converted, run, try_run};

/// Compares the bytes of `image` with those of `qemu-img convert`, and returns them. If qemu-img
/// cannot read an image, we must fail, too.
pub(crate) fn bytes(dir: &Path, image: &str, snapshot: Option<&str>, seed: u64) -> Option<Vec<u8>> {
    let options = OpenOptions {
        snapshot: snapshot.map(str::to_owned),
        ..options()
    };
    let opened = Image::open(&dir.join(image), &options).unwrap();
    let extra = snapshot.map(|name| format!("snapshot.name={name}"));
    let extra: Vec<&str> = extra.iter().flat_map(|s| ["-l", s.as_str()]).collect();
    let expected = converted(dir, image, &extra);
    let device = opened.device();
    let Some(expected) = expected else {
        let mut all = vec![0; usize::try_from(device.size_bytes()).unwrap()];
        let e = device.read_at(0, &mut all).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
        return None;
    };
    assert_eq!(device.size_bytes(), expected.len() as u64, "size");
    let mut all = vec![0x5a; expected.len()];
    device.read_at(0, &mut all).unwrap();
    assert_same(&all, &expected, 0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (device, expected) = (device.as_ref(), &expected);
            scope.spawn(move || odd_reads(device, expected, seed * 4 + thread));
        }
    });
    Some(expected)
}

fn odd_reads(device: &dyn BlockRead, expected: &[u8], seed: u64) {
    let mut r = Random::new(seed);
    for _ in 0..60 {
        let longest = r.one_of(&[16, 5000, 70_000, 400_000]);
        let at = r.below(expected.len() as u64);
        let len = (r.below(longest) + 1).min(expected.len() as u64 - at);
        let range = usize::try_from(at).unwrap()..usize::try_from(at + len).unwrap();
        if r.one_in(4) {
            device.will_need(at, len);
        }
        let mut buf = vec![0x5a; range.len()];
        device.read_at(at, &mut buf).unwrap();
        assert_same(&buf, &expected[range], at);
    }
}

fn assert_same(ours: &[u8], expected: &[u8], start: u64) {
    if ours != expected {
        let at = ours.iter().zip(expected).position(|(a, b)| a != b);
        panic!("bytes differ first at {start} + {at:?}");
    }
}

/// Returns the entries of a map, merged where they differ only in their offsets.
fn joined(entries: Vec<Value>) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for mut entry in entries {
        let length = entry["length"].as_u64().unwrap();
        let Some(last) = joined.last_mut().filter(|_| entry.get("offset").is_none()) else {
            joined.push(entry);
            continue;
        };
        let so_far = last["length"].as_u64().unwrap();
        entry["start"] = last["start"].clone();
        entry["length"] = last["length"].clone();
        if entry == *last {
            last["length"] = (so_far + length).into();
        } else {
            entry["start"] = (last["start"].as_u64().unwrap() + so_far).into();
            entry["length"] = length.into();
            joined.push(entry);
        }
    }
    joined
}

/// Compares the map of `image` with that of `qemu-img map`, and `extent_at` with the map.
pub(crate) fn map(dir: &Path, image: &str, bytes: Option<&[u8]>) {
    std::fs::File::open(dir.join(image))
        .unwrap()
        .sync_all()
        .unwrap();
    let opened = Image::open(&dir.join(image), &options()).unwrap();
    let ours: Vec<MapEntry> = opened.map().map(Result::unwrap).collect();
    let expected = run(dir, "qemu-img", &["map", "--output=json", image]);
    let expected: Vec<Value> = serde_json::from_str(&expected).unwrap();
    let mut ours_json: Vec<Value> = ours.iter().map(json).collect();
    if expected
        .iter()
        .all(|entry| entry.get("compressed").is_none())
    {
        // QEMU before 8.2 does not report it.
        let fields = ours_json.iter_mut().filter_map(Value::as_object_mut);
        fields.for_each(|entry| drop(entry.remove("compressed")));
        ours_json = joined(ours_json);
    }
    for (ours, expected) in ours_json.iter().zip(&expected) {
        assert_eq!(ours, expected, "map");
    }
    assert_eq!(ours_json.len(), expected.len(), "map entries");
    extents(opened.device().as_ref(), &ours, bytes);
}

/// Compares our check of reference counts with that of `qemu-img check`.
pub(crate) fn check(dir: &Path, image: &str) {
    let opened = Image::open(&dir.join(image), &options()).unwrap();
    let ours = opened.check().unwrap().unwrap();
    let theirs = try_run(dir, "qemu-img", &["check", "--output=json", image]);
    let theirs: Value = serde_json::from_slice(&theirs.stdout).unwrap();
    let number = |name: &str| theirs.get(name).and_then(Value::as_u64).unwrap_or(0);
    assert_eq!(ours.leaked_clusters, number("leaks"), "leaks");
    assert_eq!(ours.corruptions, number("corruptions"), "corruptions");
}

fn json(entry: &MapEntry) -> Value {
    let mut value = serde_json::json!({
        "start": entry.start,
        "length": entry.len_bytes,
        "depth": entry.depth,
        "present": entry.present,
        "zero": entry.zero,
        "data": entry.data,
        "compressed": entry.compressed,
    });
    if let Some(offset) = entry.host_offset {
        value["offset"] = offset.into();
    }
    value
}

fn extents(device: &dyn BlockRead, map: &[MapEntry], bytes: Option<&[u8]>) {
    let mut at = 0;
    while at < device.size_bytes() {
        let extent = device.extent_at(at).unwrap();
        let end = at + extent.len_bytes;
        assert!(extent.len_bytes > 0 && end <= device.size_bytes());
        for entry in map {
            let entry_end = entry.start + entry.len_bytes;
            if entry.start < end && entry_end > at {
                assert_eq!(extent.kind, kind(entry), "extent at {at}, {entry:?}");
            }
        }
        if let Some(bytes) = bytes.filter(|_| extent.kind != ExtentKind::Data) {
            let range = usize::try_from(at).unwrap()..usize::try_from(end).unwrap();
            assert!(bytes[range].iter().all(|&b| b == 0), "zeroes at {at}");
        }
        at = end;
    }
    assert!(device.extent_at(at).is_err());
}

fn kind(entry: &MapEntry) -> ExtentKind {
    match (entry.present, entry.zero) {
        (false, _) => ExtentKind::Unallocated,
        (true, true) => ExtentKind::Zero,
        (true, false) => ExtentKind::Data,
    }
}
