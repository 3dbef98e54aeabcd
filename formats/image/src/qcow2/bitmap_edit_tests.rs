//! Power cuts at every moment while bitmaps are changed.

use std::ops::Range;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Faulty, Memory};

use super::bitmap_bits::BitmapBits;
use super::{BitmapChange, BitmapSource, bitmap_directory};
use crate::create::{NewImage, NewQcow2, create};
use crate::node::Node;
use crate::{CreateOptions, Format, Image, OpenOptions, WritableImage};

const SIZE_BYTES: u64 = 3 << 20;
/// The largest length of the file.
const FILE_BYTES: usize = 8 << 20;

/// A bitmap: its name, granularity, whether it records, and its marks.
type State = Vec<(String, u64, bool, Vec<Range<u64>>)>;

fn options() -> OpenOptions {
    OpenOptions {
        format: Some(Format::Qcow2),
        ..OpenOptions::default()
    }
}

fn empty(cluster_size_bytes: u64) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let new = NewQcow2 {
        cluster_size_bytes,
        ..NewQcow2::default()
    };
    let image = NewImage::Qcow2(Box::new(new));
    create(&path, &CreateOptions::new(image, Some(SIZE_BYTES))).unwrap();
    std::fs::read(path).unwrap()
}

fn write(device: &Arc<dyn BlockWrite>, at: u64) {
    let image = WritableImage::from_device(device.clone(), &options()).unwrap();
    image.device().write_at(at, &[7; 5000]).unwrap();
    image.close().unwrap();
}

fn state(device: &Arc<dyn BlockRead>) -> State {
    let image = Image::from_device(device.clone(), &options()).unwrap();
    let Node::Qcow2(qcow2, _) = image.node() else {
        panic!("not qcow2");
    };
    let (file, header) = qcow2.tables();
    let entries = bitmap_directory::read(file, header).unwrap();
    let marks = |entry| {
        let mut marks: Vec<Range<u64>> = Vec::new();
        let bits = BitmapBits::read(file, header, entry).unwrap();
        bits.for_each_marked(file, |range| match marks.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => marks.push(range),
        })
        .unwrap();
        marks
    };
    entries
        .iter()
        .map(|entry| {
            let bitmap = entry.bitmap.clone();
            assert_eq!(bitmap.state, crate::BitmapState::Consistent);
            (
                bitmap.name,
                bitmap.granularity_bytes,
                bitmap.recording,
                marks(entry),
            )
        })
        .collect()
}

/// Makes a change with a power cut at each moment, and returns the new state.
fn cut(bytes: &mut Vec<u8>, change: BitmapChange<'_>, what: &str) -> State {
    let mut start = bytes.clone();
    start.resize(FILE_BYTES, 0);
    let faulty = Arc::new(Faulty::new(Arc::new(Memory::new(bytes.as_slice())), []));
    let reading: Arc<dyn BlockRead> = faulty.clone();
    let before = state(&reading);
    let writing: Arc<dyn BlockWrite> = faulty.clone();
    edit(writing, change).unwrap();
    let after = state(&reading);
    for crash in faulty.log().states(1) {
        let what = format!("{what}: {crash}");
        let left = Arc::new(Memory::new(start.as_slice()));
        crash.replay(left.as_ref()).unwrap();
        let reading: Arc<dyn BlockRead> = left.clone();
        let found = state(&reading);
        assert!(found == before || found == after, "{what}: {found:?}");
        check(&reading, &what);
        let writing: Arc<dyn BlockWrite> = left.clone();
        write(&writing, 123_456);
        check(&reading, &what);
    }
    bytes.resize(usize::try_from(faulty.size_bytes()).unwrap(), 0);
    faulty.read_at(0, bytes).unwrap();
    let image = Image::from_device(reading, &options()).unwrap();
    assert!(image.check().unwrap().unwrap().is_clean(), "{what}");
    after
}

fn check(device: &Arc<dyn BlockRead>, what: &str) {
    let image = Image::from_device(device.clone(), &options()).unwrap();
    let report = image.check().unwrap().unwrap();
    assert_eq!(report.corruptions, 0, "{what}: {report:?}");
}

fn write_to(bytes: &mut Vec<u8>, at: u64) {
    let device = Arc::new(Memory::new(bytes.as_slice()));
    let writing: Arc<dyn BlockWrite> = device.clone();
    write(&writing, at);
    *bytes = device.to_vec();
}

fn edit(device: Arc<dyn BlockWrite>, change: BitmapChange<'_>) -> diskfs_block::Result<()> {
    let image = WritableImage::from_device(device, &options()).unwrap();
    let node = image.into_node().unwrap();
    let prepared = crate::bitmaps::prepare(&node, change)?;
    prepared.activate()
}

fn add(name: &str, granularity_bytes: u64, recording: bool) -> BitmapChange<'_> {
    BitmapChange::Add {
        name,
        granularity_bytes: Some(granularity_bytes),
        recording,
        existing: super::Existing::Refused,
    }
}

#[test]
fn a_power_cut_leaves_the_old_bitmaps_or_the_new_ones() {
    for cluster_size in [512, 4096, 65536] {
        let what = |step: &str| format!("clusters of {cluster_size}: {step}");
        let mut bytes = empty(cluster_size);
        let named = |name: &str, g, records, marks: &[Range<u64>]| {
            (name.to_owned(), g, records, marks.to_vec())
        };
        let found = cut(&mut bytes, add("a", 4096, true), &what("add"));
        assert_eq!(found, [named("a", 4096, true, &[])]);
        write_to(&mut bytes, 1 << 20);
        let marks: Vec<_> = std::iter::once(1 << 20..(1 << 20) + 8192).collect();
        let a = named("a", 4096, true, &marks);
        let found = cut(&mut bytes, add("b", 512, false), &what("add another"));
        assert_eq!(found, [a.clone(), named("b", 512, false, &[])]);
        let merge = BitmapChange::Merge {
            name: "b",
            source: "a",
            image: None,
        };
        let found = cut(&mut bytes, merge, &what("merge"));
        assert_eq!(found, [a.clone(), named("b", 512, false, &marks)]);
        let change = BitmapChange::SetRecording {
            name: "a",
            recording: false,
        };
        let found = cut(&mut bytes, change, &what("disable"));
        let a = named("a", 4096, false, &marks);
        assert_eq!(found, [a, named("b", 512, false, &marks)]);
        let found = cut(
            &mut bytes,
            BitmapChange::Clear { name: "a" },
            &what("clear"),
        );
        let a = named("a", 4096, false, &[]);
        assert_eq!(found, [a.clone(), named("b", 512, false, &marks)]);
        let found = cut(
            &mut bytes,
            BitmapChange::Remove { name: "b" },
            &what("remove"),
        );
        assert_eq!(found, [a]);
        let found = cut(
            &mut bytes,
            BitmapChange::Remove { name: "a" },
            &what("remove all"),
        );
        assert_eq!(found, []);
    }
}

/// Calls `with` with the bitmaps of an image.
fn with_source<T>(bytes: &[u8], with: impl FnOnce(BitmapSource<'_>) -> T) -> T {
    let device: Arc<dyn BlockRead> = Arc::new(Memory::new(bytes));
    let image = Image::from_device(device, &options()).unwrap();
    let Node::Qcow2(qcow2, _) = image.node() else {
        panic!("not qcow2");
    };
    let (file, header) = qcow2.tables();
    let entries = bitmap_directory::read(file, header).unwrap();
    with(BitmapSource {
        file,
        header,
        entries: &entries,
    })
}

#[test]
fn a_power_cut_leaves_all_copied_bitmaps_or_none() {
    for cluster_size in [512, 65536] {
        let mut from = empty(4096);
        cut(&mut from, add("a", 512, true), "add");
        cut(&mut from, add("b", 65536, true), "add");
        write_to(&mut from, 1 << 20);
        write_to(&mut from, SIZE_BYTES - 5000);
        let disable = BitmapChange::SetRecording {
            name: "b",
            recording: false,
        };
        cut(&mut from, disable, "disable");
        let reading: Arc<dyn BlockRead> = Arc::new(Memory::new(from.as_slice()));
        let mut expected = state(&reading);
        let mut to = empty(cluster_size);
        cut(&mut to, add("c", 4096, false), "add");
        let copied = with_source(&from, |source| {
            cut(&mut to, BitmapChange::Copy(source), "copy")
        });
        let own = ("c".to_owned(), 4096, false, Vec::new());
        expected.insert(0, own);
        assert_eq!(copied, expected);
    }
}

/// Bitmaps that share their clusters would make a small image a huge one.
#[test]
fn bitmaps_with_shared_clusters_or_names_are_not_copied() {
    let names: Vec<String> = (0..200)
        .map(|number| format!("bitmap{number:03}"))
        .collect();
    let device = Arc::new(Memory::new(empty(4096)));
    for name in &names {
        edit(device.clone(), add(name, 512, true)).unwrap();
    }
    let mut from = device.to_vec();
    let (len, places) = with_source(&from, |source| {
        let places: Vec<u64> = source.entries.iter().map(|entry| entry.at.0).collect();
        (source.file.size_bytes(), places)
    });
    // One table, whose bits are stored, is the table of all bitmaps.
    let at = usize::try_from(len).unwrap().next_multiple_of(4096);
    from.resize(at + 4096, 0);
    from[at..at + 8].copy_from_slice(&u64::try_from(at + 4096).unwrap().to_be_bytes());
    from.resize(at + 8192, 0x55);
    for place in &places {
        let place = usize::try_from(*place).unwrap();
        from[place..place + 8].copy_from_slice(&u64::try_from(at).unwrap().to_be_bytes());
    }
    let copy = |from: &[u8]| {
        with_source(from, |source| {
            let target = Arc::new(Memory::new(empty(4096)));
            edit(target, BitmapChange::Copy(source))
        })
    };
    let error = copy(&from).unwrap_err();
    assert!(error.to_string().contains("more clusters"), "{error}");
    // Two bitmaps with one name.
    let name = usize::try_from(places[1]).unwrap() + 24;
    from[name + 6..name + 9].copy_from_slice(b"000");
    let error = copy(&from).unwrap_err();
    assert!(error.to_string().contains("two bitmaps"), "{error}");
}

/// A change that fails leaves the same file, also if the file cannot grow.
#[test]
fn a_refused_change_changes_nothing() {
    let mut bytes = empty(65536);
    cut(&mut bytes, add("a", 65536, true), "add");
    for (change, reason) in [
        (add("a", 65536, true), "exists"),
        (add("", 65536, true), "name"),
        (add("b", 256, true), "granularity"),
        (add("b", 3 << 10, true), "granularity"),
        (add("b", 4 << 30, true), "granularity"),
        (BitmapChange::Remove { name: "b" }, "available: `a`"),
        (BitmapChange::Clear { name: "b" }, "no such bitmap"),
        (
            BitmapChange::Merge {
                name: "a",
                source: "b",
                image: None,
            },
            "no such bitmap",
        ),
    ] {
        let device = Arc::new(Memory::new(bytes.as_slice()));
        let writing: Arc<dyn BlockWrite> = device.clone();
        let error = edit(writing, change).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert!(device.to_vec() == bytes, "{change:?}");
    }
}

/// Damage to the directory and the tables leads to errors, never to a panic or a broken disk.
#[test]
fn damaged_bitmaps_are_refused() {
    let mut bytes = empty(512);
    for name in ["a", "b"] {
        cut(&mut bytes, add(name, 512, true), "add");
    }
    write_to(&mut bytes, 1 << 20);
    let header = super::Header::read(&Memory::new(bytes.as_slice())).unwrap();
    let directory = header.extensions.bitmaps.unwrap();
    let entries = bitmap_directory::read(&Memory::new(bytes.as_slice()), &header).unwrap();
    let mut places: Vec<u64> = (directory.at.0..directory.at.0 + directory.size_bytes).collect();
    places.extend(112..160);
    for entry in &entries {
        places.extend(entry.table_at.0..entry.table_at.0 + 24);
    }
    let merge = |name, source| BitmapChange::Merge {
        name,
        source,
        image: None,
    };
    let mut done = 0;
    for (round, at) in places.iter().enumerate() {
        let mut damaged = bytes.clone();
        let byte = &mut damaged[usize::try_from(*at).unwrap()];
        *byte ^= [1, 0x80, 0xff, 4][round % 4];
        for change in [
            add("c", 4096, true),
            merge("a", "b"),
            BitmapChange::Clear { name: "a" },
            BitmapChange::Remove { name: "b" },
        ] {
            let device = Arc::new(Memory::new(damaged.as_slice()));
            let writing: Arc<dyn BlockWrite> = device.clone();
            let Ok(image) = WritableImage::from_device(writing, &options()) else {
                continue;
            };
            let node = image.into_node().unwrap();
            let prepared = crate::bitmaps::prepare(&node, change);
            done += usize::from(prepared.and_then(super::PreparedChange::activate).is_ok());
            let reading: Arc<dyn BlockRead> = device;
            let image = Image::from_device(reading, &options()).unwrap();
            let mut disk = [0; 5000];
            image.device().read_at(1 << 20, &mut disk).unwrap();
            assert_eq!(disk, [7; 5000], "byte {at}: {change:?}");
        }
    }
    assert!(done > 50, "{done}");
}

/// Without a backing file, the length of its name has no meaning.
#[test]
fn the_length_of_a_missing_name_is_ignored() {
    let mut bytes = empty(64 << 10);
    bytes[19] = 0x80;
    let device: Arc<dyn BlockWrite> = Arc::new(Memory::new(bytes));
    let image = WritableImage::from_device(device.clone(), &options()).unwrap();
    let node = image.into_node().unwrap();
    let change = BitmapChange::Add {
        name: "a",
        granularity_bytes: None,
        recording: true,
        existing: super::Existing::Refused,
    };
    let prepared = crate::bitmaps::prepare(&node, change).unwrap();
    prepared.activate().unwrap();
    drop(node);
    let image = Image::from_device(device, &options()).unwrap();
    let details = image.description().qcow2.as_ref().unwrap();
    assert_eq!(details.bitmaps.len(), 1);
    assert_eq!(details.backing_name, None);
}
