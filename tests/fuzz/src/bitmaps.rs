//! Bitmaps of qcow2 images.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_image::bitmaps::{self, MarkedDisk, MergeSource, NewBitmap, Recording};
use diskfs_image::convert::{ConvertOptions, Scope, convert};
use diskfs_image::{Format, Gate, Image, OpenOptions, WritableImage};

use crate::luks::NoCipher;

/// The maximum length of an image: longer ones are only read.
const FILE_MAX_BYTES: u64 = 16 << 20;
/// The maximum size of a disk that is backed up.
const DISK_MAX_BYTES: u64 = 16 << 20;
/// The maximum number of runs of a disk to visit: a hostile bitmap can have one for each bit.
const MAX_RUNS: usize = 300;
/// The maximum number of bitmaps to use.
const MAX_BITMAPS: usize = 3;

fn options() -> OpenOptions {
    OpenOptions {
        format: Some(Format::Qcow2),
        gate: Gate::closed(),
        unlock: Some(Arc::new(NoCipher)),
        cache_bytes: 4 << 20,
        ..OpenOptions::default()
    }
}

/// Reads all bitmaps of an image, and then changes them in a file.
pub(crate) fn all(device: &Arc<dyn BlockRead>) {
    survey(device);
    if device.size_bytes() > FILE_MAX_BYTES {
        return;
    }
    // In memory, because most of the time is spent in flushes elsewhere.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("create a directory");
    let path = directory.path().join("image");
    write(device, &path);
    back_up(&path, &directory.path().join("backup"));
    change(&path);
}

/// Reads the marks of an image's bitmaps.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    let Ok(image) = Image::from_device(Arc::clone(device), &options()) else {
        return;
    };
    for name in names(&image) {
        let Ok(disk) = MarkedDisk::new(&image, &name) else {
            continue;
        };
        let _ = disk.marked_bytes();
        let mut at = 0;
        for _ in 0..MAX_RUNS {
            let Ok(run) = disk.stored_at(at) else {
                break;
            };
            assert!(run.len_bytes > 0);
            at += run.len_bytes;
        }
    }
}

fn names(image: &Image) -> Vec<String> {
    let details = image.description().qcow2.iter();
    let bitmaps = details.flat_map(|qcow2| &qcow2.bitmaps);
    let names = bitmaps.map(|bitmap| bitmap.name.clone());
    names.take(MAX_BITMAPS).collect()
}

/// Writes the image to a file, without its zeroes.
fn write(device: &Arc<dyn BlockRead>, path: &Path) {
    const BLOCK: usize = 4096;
    let file = File::create(path).expect("create the file");
    file.set_len(device.size_bytes()).expect("make it longer");
    let mut block = [0; BLOCK];
    for at in (0..device.size_bytes()).step_by(BLOCK) {
        let len = usize::try_from(device.size_bytes() - at).map_or(BLOCK, |left| left.min(BLOCK));
        device
            .read_at(at, &mut block[..len])
            .expect("it lies within");
        if block[..len].iter().any(|&byte| byte != 0) {
            file.write_all_at(&block[..len], at).expect("write");
        }
    }
}

fn back_up(path: &Path, new: &Path) {
    let Ok(image) = Image::open(path, &options()) else {
        return;
    };
    if image.device().size_bytes() > DISK_MAX_BYTES {
        return;
    }
    for name in names(&image) {
        let Ok(disk) = MarkedDisk::new(&image, &name) else {
            continue;
        };
        let options = ConvertOptions {
            scope: Scope::Stored,
            threads: std::num::NonZeroUsize::new(1),
            ..ConvertOptions::default()
        };
        let done = convert(&disk, new, &options, &mut |_| ControlFlow::Continue(()));
        if done.is_ok() {
            let backup = Image::open(new, &self::options()).expect("a backup is an image");
            let report = backup.check().ok().flatten().expect("its tables are read");
            assert!(report.is_clean(), "{report:?}");
            let _ = std::fs::remove_file(new);
        }
    }
}

/// The state of an image that changes of its bitmaps keep.
#[derive(Debug, PartialEq)]
struct Kept {
    size_bytes: u64,
    start: Vec<u8>,
}

/// Returns the state of an image without errors.
fn sound(path: &Path) -> Option<Kept> {
    let image = Image::open(path, &options()).ok()?;
    let report = image.check().ok().flatten()?;
    if report.corruptions > 0 || report.check_errors > 0 {
        return None;
    }
    let disk = image.device();
    let size_bytes = disk.size_bytes();
    let mut start = vec![0; usize::try_from(size_bytes.min(1 << 20)).ok()?];
    disk.read_at(0, &mut start).ok()?;
    Some(Kept { size_bytes, start })
}

/// Changes the bitmaps in all ways. A sound image stays sound, with the same disk.
fn change(path: &Path) {
    let before = sound(path);
    let options = options();
    let Ok(image) = Image::open(path, &options) else {
        return;
    };
    let mut names = names(&image);
    drop(image);
    if bitmaps::add(path, "added", NewBitmap::default(), &options).is_ok() {
        names.push("added".to_owned());
    }
    let is_same = || before.is_none() || sound(path) == before;
    assert!(is_same(), "a bitmap was added");
    for name in &names {
        let merge = |bitmap| {
            let source = MergeSource {
                bitmap,
                image: None,
            };
            bitmaps::merge(path, name, source, &options)
        };
        let _ = merge(&names[0]);
        let _ = merge("added");
        let _ = bitmaps::set_recording(path, name, Recording::Disabled, &options);
        let _ = bitmaps::set_recording(path, name, Recording::Enabled, &options);
    }
    assert!(is_same(), "bitmaps were merged");
    write_to_disk(path);
    for name in &names {
        let _ = bitmaps::clear(path, name, &options);
        let _ = bitmaps::checkpoint(&[(path, &options)], name, NewBitmap::default());
        let _ = bitmaps::remove(path, name, &options);
    }
    let after = sound(path);
    assert!(before.is_none() || after.is_some(), "bitmaps were removed");
}

fn write_to_disk(path: &Path) {
    let Ok(image) = WritableImage::open(path, &options()) else {
        return;
    };
    let disk = image.device();
    let end = disk.size_bytes();
    for at in [0, end / 2, end.saturating_sub(600)] {
        let len = usize::try_from(end - at).map_or(600, |left| left.min(600));
        let _ = disk.write_at(at, &[0x5a; 600][..len]);
    }
    drop(disk);
    let _ = image.close();
}
