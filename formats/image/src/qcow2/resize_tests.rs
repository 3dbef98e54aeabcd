//! Power cuts and full disks at every moment while an image is resized.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Fault, Faulty, Memory};

use crate::create::{Compat, L2Entries, NewImage, NewQcow2, create};
use crate::{CreateOptions, Image, OpenOptions, ResizeOptions, Shrink, WritableImage};

/// The sizes: one that needs one L2 table, one that needs a longer L1 table with small clusters,
/// and one within the first.
const SIZES: [u64; 4] = [100 << 10, 5 << 20, 150_528, 51_200];
/// The largest length of the file.
const FILE_BYTES: usize = 8 << 20;

fn options() -> OpenOptions {
    OpenOptions {
        format: Some(crate::Format::Qcow2),
        ..OpenOptions::default()
    }
}

fn empty(new: NewQcow2) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let image = NewImage::Qcow2(Box::new(new));
    create(&path, &CreateOptions::new(image, Some(SIZES[0]))).unwrap();
    std::fs::read(path).unwrap()
}

fn open(device: Arc<dyn BlockWrite>) -> WritableImage {
    WritableImage::from_device(device, &options()).unwrap()
}

fn resize(device: Arc<dyn BlockWrite>, size_bytes: u64) -> diskfs_block::Result<()> {
    let how = ResizeOptions {
        shrink: Shrink::Allowed,
        ..ResizeOptions::default()
    };
    open(device).resize(size_bytes, how).map(|_| ())
}

/// Writes to places all over the disk, up to its end.
fn write(device: &Arc<Memory>, disk: &mut [u8], round: u8) {
    let image = open(device.clone());
    for start in (0..disk.len()).step_by(270_000) {
        let end = disk.len().min(start + 30_000);
        disk[start..end].fill(round);
        let start_bytes = u64::try_from(start).unwrap();
        image
            .device()
            .write_at(start_bytes, &disk[start..end])
            .unwrap();
    }
    let last = disk.len() - 512;
    disk[last..].fill(round);
    let last_bytes = u64::try_from(last).unwrap();
    image.device().write_at(last_bytes, &disk[last..]).unwrap();
    image.close().unwrap();
}

/// Returns the disk's bytes, and checks the reference counts.
fn read(device: Arc<dyn BlockRead>, what: &str) -> Vec<u8> {
    let image = Image::from_device(device, &options()).unwrap();
    let report = image.check().unwrap().unwrap();
    assert_eq!(report.corruptions, 0, "{what}: {report:?}");
    let size_bytes = image.device().size_bytes();
    let mut bytes = vec![0; usize::try_from(size_bytes).unwrap()];
    image.device().read_at(0, &mut bytes).unwrap();
    bytes
}

/// Returns the disk after a resize.
fn resized(disk: &[u8], size_bytes: u64) -> Vec<u8> {
    let mut disk = disk.to_vec();
    disk.resize(usize::try_from(size_bytes).unwrap(), 0);
    disk
}

/// Checks that the disk is the one before the resize or the one after. Of a disk that is being
/// shrunk, what is past the new end may be lost already.
fn assert_either(found: &[u8], before: &[u8], after: &[u8], what: &str) {
    if found.len() == after.len() {
        assert!(found == after, "{what}: new size");
        return;
    }
    assert_eq!(found.len(), before.len(), "{what}");
    let kept = before.len().min(after.len());
    assert!(found[..kept] == before[..kept], "{what}: old size");
    let same_or_zero = |(now, then): (&u8, &u8)| now == then || *now == 0;
    // Most pieces are equal, which is quicker to see for all bytes at once.
    let piece = |(now, then): (&[u8], &[u8])| now == then || now.iter().zip(then).all(same_or_zero);
    let mut pieces = found[kept..].chunks(4096).zip(before[kept..].chunks(4096));
    assert!(pieces.all(piece), "{what}: what is dropped");
}

fn cut(device: &Arc<Memory>, disk: &[u8], size_bytes: u64) -> (Arc<Memory>, Vec<u8>) {
    let after = resized(disk, size_bytes);
    let mut start = device.to_vec();
    start.resize(FILE_BYTES, 0);
    let faulty = Arc::new(Faulty::new(Arc::new(Memory::new(device.to_vec())), []));
    resize(faulty.clone(), size_bytes).unwrap();
    for state in faulty.log().states(1) {
        let left = Arc::new(Memory::new(start.clone()));
        state.replay(left.as_ref()).unwrap();
        let what = format!("to {size_bytes}: {state}");
        assert_either(&read(left.clone(), &what), disk, &after, &what);
        resize(left.clone(), size_bytes).unwrap();
        assert!(read(left, &what) == after, "{what}: again");
    }
    let mut bytes = vec![0; usize::try_from(faulty.size_bytes()).unwrap()];
    faulty.read_at(0, &mut bytes).unwrap();
    let done = Arc::new(Memory::new(bytes));
    assert!(read(done.clone(), "no crash") == after);
    (done, after)
}

/// Fails each write in turn: the image keeps its old disk, or has the new one.
fn fail(device: &Arc<Memory>, disk: &[u8], size_bytes: u64) {
    let after = resized(disk, size_bytes);
    for nth in 0..400 {
        let memory = Arc::new(Memory::new(device.to_vec()));
        let faults = (nth..nth + 4).map(|nth| Fault::FailWrite { nth });
        let faulty = Arc::new(Faulty::new(memory.clone(), faults));
        let done = resize(faulty, size_bytes);
        let what = format!("to {size_bytes}: write {nth} fails");
        let found = read(memory, &what);
        assert_either(&found, disk, &after, &what);
        if done.is_ok() {
            assert!(found == after, "{what}");
            return;
        }
    }
    panic!("more writes than expected");
}

fn each_size(new: NewQcow2) {
    let mut device = Arc::new(Memory::new(empty(new)));
    let mut disk = vec![0; usize::try_from(SIZES[0]).unwrap()];
    for (round, size_bytes) in (1..).zip(SIZES.into_iter().cycle().skip(1).take(4)) {
        write(&device, &mut disk, round);
        fail(&device, &disk, size_bytes);
        (device, disk) = cut(&device, &disk, size_bytes);
    }
}

#[test]
fn small_clusters() {
    each_size(NewQcow2 {
        cluster_size_bytes: 512,
        ..NewQcow2::default()
    });
}

#[test]
fn version_2() {
    each_size(NewQcow2 {
        cluster_size_bytes: 4096,
        compat: Compat::V0_10,
        ..NewQcow2::default()
    });
}

#[test]
fn subclusters() {
    each_size(NewQcow2 {
        cluster_size_bytes: 16 << 10,
        l2_entries: L2Entries::Extended,
        ..NewQcow2::default()
    });
}
