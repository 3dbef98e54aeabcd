//! Walks over all tables of an image: the cost is bounded by the file's length, whatever the tables
//! contain, and refusals come before any change.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind, Faulty, File, Memory};

use super::check;
use super::counting::Counting;
use super::header::Header;
use super::l2_entry::{DataPlace, L2Rules, ZeroClusters};
use crate::create::{NewImage, NewQcow2, create};
use crate::{CreateOptions, Format, Image, OpenOptions, WritableImage, snapshots};

fn options() -> OpenOptions {
    OpenOptions {
        format: Some(Format::Qcow2),
        ..OpenOptions::default()
    }
}

/// Creates an image with some clusters in use.
fn image(dir: &Path, cluster_size_bytes: u64, size_bytes: u64) -> PathBuf {
    let path = dir.join("image.qcow2");
    let new = NewQcow2 {
        cluster_size_bytes,
        ..NewQcow2::default()
    };
    let image = NewImage::Qcow2(Box::new(new));
    create(&path, &CreateOptions::new(image, Some(size_bytes))).unwrap();
    write(&path, 0, 100_000);
    path
}

fn write(path: &Path, at: u64, len: usize) {
    let image = WritableImage::open(path, &options()).unwrap();
    image.device().write_at(at, &vec![7; len]).unwrap();
    image.close().unwrap();
}

fn header_of(bytes: &[u8]) -> Header {
    Header::read(&Memory::new(bytes)).unwrap()
}

/// Points all entries of the L1 table at `l1` to the L2 table of the first entry.
fn share_l2_tables(bytes: &mut [u8], l1: usize, entries: usize) {
    let first = bytes[l1..l1 + 8].to_vec();
    for index in 0..entries {
        bytes[l1 + index * 8..l1 + index * 8 + 8].copy_from_slice(&first);
    }
}

/// Returns the number of reads to walk all tables, and the result.
fn reads(bytes: &[u8]) -> (usize, diskfs_block::Result<check::CheckReport>) {
    let file = Counting::new(bytes.to_vec());
    let header = Header::read(&file).unwrap();
    let rules = L2Rules {
        geometry: header.geometry,
        zero_clusters: ZeroClusters::Allowed,
        data: DataPlace::Inside,
    };
    let before = file.reads();
    let report = check::check(&file, &header, rules);
    (file.reads() - before, report)
}

#[test]
fn an_l2_table_that_all_l1_entries_name_is_read_once() {
    let dir = tempfile::tempdir().unwrap();
    // 65536 L1 entries: without the check this took minutes.
    let path = image(dir.path(), 512, 2 << 30);
    let sound = std::fs::read(&path).unwrap();
    let header = header_of(&sound);
    assert_eq!(header.l1.entries, 65536);
    let mut bytes = sound.clone();
    share_l2_tables(&mut bytes, usize::try_from(header.l1.at.0).unwrap(), 65536);
    let (of_sound, report) = reads(&sound);
    assert!(report.unwrap().is_clean());
    let (of_shared, report) = reads(&bytes);
    assert!(report.unwrap().corruptions > 0);
    assert!(
        of_shared <= of_sound,
        "{of_shared} reads, {of_sound} of a sound image"
    );

    let opened = |dirty: bool| {
        let mut bytes = bytes.clone();
        bytes[79] |= u8::from(dirty);
        let device = Arc::new(Memory::new(bytes.as_slice()));
        let e = WritableImage::from_device(device.clone(), &options()).unwrap_err();
        assert!(device.to_vec() == bytes, "nothing was written");
        e
    };
    for dirty in [false, true] {
        let e = opened(dirty);
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
        assert!(e.to_string().contains("name this L2 table"), "{e}");
    }
    // The image can still be read.
    let reading: Arc<dyn BlockRead> = Arc::new(Memory::new(bytes.as_slice()));
    let image = Image::from_device(reading, &options()).unwrap();
    let mut byte = [0];
    image.device().read_at(1 << 30, &mut byte).unwrap();
    assert_eq!(byte, [7]);
}

#[test]
fn l2_tables_that_snapshots_share_are_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(dir.path(), 4096, 64 << 20);
    for n in 0..16 {
        write(&path, n * (2 << 20), 5000);
    }
    let (without, _) = reads(&std::fs::read(&path).unwrap());
    for n in 0..20 {
        snapshots::create(&path, &format!("s{n}"), &options()).unwrap();
    }
    let (with, report) = reads(&std::fs::read(&path).unwrap());
    assert!(report.unwrap().is_clean());
    // Each snapshot has an L1 table of one piece, an entry, and perhaps a refcount block.
    assert!(with <= without + 3 * 20, "{with} reads, {without} before");
}

/// An L1 table of a snapshot that points to one L2 table repeatedly is refused, like the current
/// one.
#[test]
fn snapshots_are_refused_before_the_image_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(dir.path(), 4096, 64 << 20);
    for name in ["a", "b"] {
        snapshots::create(&path, name, &options()).unwrap();
    }
    write(&path, 0, 10_000);
    let sound = std::fs::read(&path).unwrap();
    let header = header_of(&sound);
    let file = Memory::new(sound.as_slice());
    let table = super::snapshot_table::read(&file, &header).unwrap();
    let l1_of = |n: usize| usize::try_from(table.entries[n].l1.at.0).unwrap();
    let l2_of = |l1: usize| {
        let entry = u64::from_be_bytes(sound[l1..l1 + 8].try_into().unwrap());
        usize::try_from(entry & 0x00ff_ffff_ffff_fe00).unwrap()
    };
    let refcount_table = usize::try_from(header.refcount_table.at.0).unwrap();
    let set = |at: usize, value: u64| {
        let mut bytes = sound.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
        bytes
    };
    let mut shared = sound.clone();
    share_l2_tables(&mut shared, l1_of(1), 32);
    for (what, bytes) in [
        ("shared L2 table", shared),
        ("L1 entry past the end", set(l1_of(1), 1 << 40)),
        ("reserved bits in L1", set(l1_of(1), 1)),
        ("L2 entry past the end", set(l2_of(l1_of(1)), 1 << 40)),
        ("reserved bits in L2", set(l2_of(l1_of(1)), 1 << 56)),
        (
            "refcount block past the end",
            set(refcount_table + 8, 1 << 40),
        ),
        ("refcount block off a cluster", set(refcount_table + 8, 512)),
    ] {
        std::fs::write(&path, &bytes).unwrap();
        let unchanged = |how: &str| {
            let now = std::fs::read(&path).unwrap();
            assert!(now == bytes, "{what}: {how} changed the image");
        };
        let e = snapshots::create(&path, "c", &options()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{what}: {e}");
        unchanged("create");
        snapshots::apply(&path, "a", &options()).unwrap_err();
        unchanged("apply");
        snapshots::delete(&path, "a", &options()).unwrap_err();
        unchanged("delete");
    }
}

/// A snapshot with broken tables can be deleted.
#[test]
fn a_broken_snapshot_can_be_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(dir.path(), 4096, 64 << 20);
    snapshots::create(&path, "a", &options()).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let header = header_of(&bytes);
    let file = Memory::new(bytes.as_slice());
    let table = super::snapshot_table::read(&file, &header).unwrap();
    let l1 = usize::try_from(table.entries[0].l1.at.0).unwrap();
    bytes[l1 + 7] = 1;
    std::fs::write(&path, bytes).unwrap();
    snapshots::create(&path, "b", &options()).unwrap_err();
    snapshots::delete(&path, "a", &options()).unwrap();
    assert_sound(&path, "after the deletion");
    snapshots::create(&path, "b", &options()).unwrap();
    assert_sound(&path, "after a new one");
}

fn assert_sound(path: &Path, what: &str) {
    let image = Image::open(path, &options()).unwrap();
    assert!(!image.description().qcow2.as_ref().unwrap().dirty, "{what}");
    let report = image.check().unwrap().unwrap();
    assert!(report.is_clean(), "{what}: {report:?}");
    drop(image);
    let check = Command::new("qemu-img")
        .args(["check", "-q", "-U"])
        .arg(path)
        .output();
    match check {
        Ok(output) => assert!(output.status.success(), "{what}: {output:?}"),
        Err(_) => assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "qemu-img is missing"
        ),
    }
}

/// The file of a killed writer is longer than its refcount table can count with 512-byte clusters.
#[test]
fn the_file_of_a_killed_writer_gets_snapshots() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(dir.path(), 512, 1 << 20);
    let file = File::open_read_write(&path).unwrap();
    file.set_size(16 << 20).unwrap();
    drop(file);
    for n in 0..3 {
        snapshots::create(&path, &format!("s{n}"), &options()).unwrap();
        assert_sound(&path, "created");
        write(&path, n * 10_000, 20_000);
    }
    snapshots::apply(&path, "s0", &options()).unwrap();
    assert_sound(&path, "applied");
    snapshots::delete(&path, "s1", &options()).unwrap();
    assert_sound(&path, "deleted");
}

/// All clusters that fit in the refcount table are in use: the table is moved.
#[test]
fn a_snapshot_that_outgrows_the_refcount_table_moves_it() {
    let dir = tempfile::tempdir().unwrap();
    // 64 blocks of 256 counts: 8 MiB.
    for used in [0, 1, 2, 5, 40, 100, 200, 230, 300] {
        let path = image(dir.path(), 512, 16 << 20);
        let full = (8 << 20) - 512 * 256;
        let mut at = 0;
        while std::fs::metadata(&path).unwrap().len() < full {
            write(&path, at, 100_000);
            at += 100_000;
        }
        for n in 0..used {
            write(&path, at + n * 512, 512);
        }
        let before = std::fs::metadata(&path).unwrap().len();
        snapshots::create(&path, "full", &options()).unwrap();
        assert_sound(&path, &format!("{used} more, {before} bytes before"));
        write(&path, 0, 300_000);
        assert_sound(&path, "written again");
        std::fs::remove_file(&path).unwrap();
    }
}

/// The repair of a dirty image moves the table, too, and a crash meanwhile does no harm.
#[test]
fn a_power_cut_while_the_refcount_table_is_moved() {
    let dir = tempfile::tempdir().unwrap();
    let path = image(dir.path(), 512, 16 << 20);
    let mut at = 0;
    while std::fs::metadata(&path).unwrap().len() < (8 << 20) - 4096 {
        write(&path, at, 20_000);
        at += 20_000;
    }
    let before = std::fs::read(&path).unwrap();
    // Long enough for everything that is added.
    let mut start = before.clone();
    start.resize(12 << 20, 0);
    let memory = Arc::new(Memory::new(start.as_slice()));
    let device = Arc::new(Faulty::new(Arc::clone(&memory), []));
    super::snapshots::create(device.as_ref(), "s").unwrap();
    let writing: Arc<dyn BlockWrite> = device.clone();
    WritableImage::from_device(writing, &options())
        .unwrap()
        .close()
        .unwrap();
    let moved = header_of(&memory.to_vec()).refcount_table;
    assert!(moved.entries > 64, "{moved:?}");
    let log = device.log();
    for state in log.states(1) {
        let left = Arc::new(Memory::new(start.as_slice()));
        state.replay(left.as_ref()).unwrap();
        // The next program that opens the image repairs it.
        let opened = WritableImage::from_device(left.clone(), &options()).unwrap();
        let mut byte = [0];
        opened.device().read_at(50_000, &mut byte).unwrap();
        assert_eq!(byte, [7], "{state}");
        opened.device().write_at(0, &[9; 5000]).unwrap();
        opened.close().unwrap();
        let (_, report) = reads(&left.to_vec());
        assert_eq!(report.unwrap().corruptions, 0, "{state}");
    }
}
