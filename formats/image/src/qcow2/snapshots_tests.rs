//! Power cuts at every moment while snapshots are taken, applied and deleted.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Faulty, Memory};

use super::snapshots;
use crate::create::{L2Entries, NewImage, NewQcow2, create};
use crate::{CreateOptions, Image, OpenOptions, WritableImage};

/// A size that needs more than one L2 table of standard entries with clusters of 4 KiB.
const SIZE_BYTES: u64 = 5 << 20;
/// The largest length of the file.
const FILE_BYTES: usize = 2 << 20;

/// The expected contents of an image.
#[derive(Clone)]
struct ExpectedContents {
    current: Vec<u8>,
    snapshots: Vec<(String, Vec<u8>)>,
}

fn options(snapshot: Option<&str>) -> OpenOptions {
    OpenOptions {
        format: Some(crate::Format::Qcow2),
        snapshot: snapshot.map(str::to_owned),
        ..OpenOptions::default()
    }
}

fn empty(l2_entries: L2Entries) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let new = NewQcow2 {
        cluster_size_bytes: match l2_entries {
            L2Entries::Standard => 4 << 10,
            L2Entries::Extended => 16 << 10,
        },
        l2_entries,
        refcount_bits: 8,
        ..NewQcow2::default()
    };
    let image = NewImage::Qcow2(Box::new(new));
    create(&path, &CreateOptions::new(image, Some(SIZE_BYTES))).unwrap();
    std::fs::read(path).unwrap()
}

/// Writes at some places, which differ from round to round.
fn write(device: &Arc<dyn BlockWrite>, state: &mut ExpectedContents, round: u8) {
    let image = WritableImage::from_device(device.clone(), &options(None)).unwrap();
    for n in 0..6_u64 {
        let at = (n * 1_000_003 + u64::from(round) * 4_961) % (SIZE_BYTES - 50_000);
        let bytes = vec![round; 5_000 + usize::try_from(n).unwrap() * 4_000];
        image.device().write_at(at, &bytes).unwrap();
        let at = usize::try_from(at).unwrap();
        state.current[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    image.close().unwrap();
}

fn read(device: &Arc<dyn BlockRead>, snapshot: Option<&str>) -> Vec<u8> {
    let image = Image::from_device(device.clone(), &options(snapshot)).unwrap();
    let mut bytes = vec![0; usize::try_from(SIZE_BYTES).unwrap()];
    image.device().read_at(0, &mut bytes).unwrap();
    bytes
}

fn names(device: &Arc<dyn BlockRead>) -> Vec<String> {
    let image = Image::from_device(device.clone(), &options(None)).unwrap();
    let details = image.description().qcow2.clone().unwrap();
    details.snapshots.into_iter().map(|s| s.name).collect()
}

/// Checks that the image has one of the states, and still has it after further writes.
fn assert_holds(device: &Arc<Memory>, allowed: &[&ExpectedContents], what: &str) {
    let reading: Arc<dyn BlockRead> = device.clone();
    let found = names(&reading);
    let current = read(&reading, None);
    let is_it = |state: &&&ExpectedContents| {
        let expected = state.snapshots.iter().map(|(name, _)| name);
        expected.eq(found.iter()) && state.current == current
    };
    let mut state = (*allowed
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{what}")))
    .clone();
    let writing: Arc<dyn BlockWrite> = device.clone();
    write(&writing, &mut state, 0xee);
    assert!(read(&reading, None) == state.current, "{what}: current");
    for (name, bytes) in &state.snapshots {
        assert!(read(&reading, Some(name)) == *bytes, "{what}: {name}");
    }
    let image = Image::from_device(reading, &options(None)).unwrap();
    let report = image.check().unwrap().unwrap();
    assert!(report.is_clean(), "{what}: {report:?}");
}

type Change = fn(&dyn BlockWrite) -> diskfs_block::Result<()>;

/// Makes a change, and checks the image after a power cut at each moment.
fn cut(
    device: &Arc<Memory>,
    before: &ExpectedContents,
    after: &ExpectedContents,
    change: Change,
) -> Arc<Memory> {
    let mut start = device.to_vec();
    start.resize(FILE_BYTES, 0);
    let faulty = Arc::new(Faulty::new(Arc::new(Memory::new(device.to_vec())), []));
    change(faulty.as_ref()).unwrap();
    let writing: Arc<dyn BlockWrite> = faulty.clone();
    let image = WritableImage::from_device(writing, &options(None)).unwrap();
    image.close().unwrap();
    let log = faulty.log();
    for state in log.states(1) {
        let left = Arc::new(Memory::new(start.clone()));
        state.replay(left.as_ref()).unwrap();
        assert_holds(&left, &[before, after], &state.to_string());
    }
    let mut bytes = vec![0; usize::try_from(faulty.size_bytes()).unwrap()];
    faulty.read_at(0, &mut bytes).unwrap();
    let done = Arc::new(Memory::new(bytes));
    assert_holds(&Arc::new(Memory::new(done.to_vec())), &[after], "no crash");
    done
}

fn power_cuts(l2_entries: L2Entries) {
    let mut device = Arc::new(Memory::new(empty(l2_entries)));
    let mut state = ExpectedContents {
        current: vec![0; usize::try_from(SIZE_BYTES).unwrap()],
        snapshots: Vec::new(),
    };
    for (round, name) in [(1, "one"), (2, "two")] {
        let writing: Arc<dyn BlockWrite> = device.clone();
        write(&writing, &mut state, round);
        let mut after = state.clone();
        after
            .snapshots
            .push((name.to_owned(), state.current.clone()));
        let change: Change = match name {
            "one" => |file| snapshots::create(file, "one").map(|_| ()),
            _ => |file| snapshots::create(file, "two").map(|_| ()),
        };
        device = cut(&device, &state, &after, change);
        state = after;
    }
    let writing: Arc<dyn BlockWrite> = device.clone();
    write(&writing, &mut state, 3);
    let mut after = state.clone();
    after.current = after.snapshots[0].1.clone();
    device = cut(&device, &state, &after, |file| {
        snapshots::apply(file, "one")
    });
    state = after;
    for (left, change) in [
        ("two", (|file| snapshots::delete(file, "one")) as Change),
        ("", |file| snapshots::delete(file, "2")),
    ] {
        let mut after = state.clone();
        after.snapshots.retain(|(name, _)| name == left);
        device = cut(&device, &state, &after, change);
        state = after;
    }
}

#[test]
fn a_power_cut_leaves_all_or_nothing() {
    power_cuts(L2Entries::Standard);
}

#[test]
fn a_power_cut_leaves_all_or_nothing_of_subclusters() {
    power_cuts(L2Entries::Extended);
}

#[test]
fn counts_that_are_too_narrow_are_refused_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let new = NewQcow2 {
        refcount_bits: 1,
        ..NewQcow2::default()
    };
    let image = NewImage::Qcow2(Box::new(new));
    create(&path, &CreateOptions::new(image, Some(1 << 20))).unwrap();
    let image = WritableImage::open(&path, &OpenOptions::default()).unwrap();
    image.device().write_at(0, &[1; 512]).unwrap();
    image.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = crate::snapshots::create(&path, "a", &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("too narrow"), "{error}");
    assert!(std::fs::read(&path).unwrap() == before);
}
