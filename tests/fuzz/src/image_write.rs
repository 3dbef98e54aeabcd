//! Images that are written to.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Overlay, Result, check_bounds};
use diskfs_image::repair::{Repair, repair_device};
use diskfs_image::{Format, Gate, Image, OpenOptions, ResizeOptions, Shrink, WritableImage};

use crate::luks::NoCipher;

/// The maximum number of bytes that a run may change.
const CHANGED_MAX_BYTES: u64 = 64 << 20;
/// The space after the image for new clusters.
const ROOM_BYTES: u64 = 4 << 20;

/// A device with zeroes after its end.
#[derive(Debug)]
struct Roomy(Arc<dyn BlockRead>);

impl BlockRead for Roomy {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes().saturating_add(ROOM_BYTES)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, buf.len() as u64, self.size_bytes())?;
        let there = self.0.size_bytes().saturating_sub(offset);
        let len = usize::try_from(there).unwrap_or(usize::MAX).min(buf.len());
        let (stored, missing) = buf.split_at_mut(len);
        missing.fill(0);
        if stored.is_empty() {
            return Ok(());
        }
        self.0.read_at(offset, stored)
    }
}

/// Opens a qcow2 image for writing, writes, zeroes and discards some ranges, and closes it. Then
/// resizes and repairs it.
pub(crate) fn qcow2(device: &Arc<dyn BlockRead>) {
    let roomy = Arc::new(Roomy(Arc::clone(device)));
    let overlay: Arc<dyn BlockWrite> = Arc::new(Overlay::in_memory(roomy, CHANGED_MAX_BYTES));
    let options = OpenOptions {
        format: Some(Format::Qcow2),
        gate: Gate::closed(),
        unlock: Some(Arc::new(NoCipher)),
        cache_bytes: 4 << 20,
        ..OpenOptions::default()
    };
    write_twice(&overlay, &options);
    if let Ok(image) = Image::from_device(overlay.clone(), &options) {
        let _ = image.check();
    }
    resize(&overlay, &options);
    repair(&overlay);
}

fn write_twice(overlay: &Arc<dyn BlockWrite>, options: &OpenOptions) {
    for round in 0..2 {
        let Ok(image) = WritableImage::from_device(Arc::clone(overlay), options) else {
            return;
        };
        let disk = image.device();
        let mut places = vec![
            0,
            disk.size_bytes() / 2,
            disk.size_bytes().saturating_sub(5000),
        ];
        places.extend(image.map().take(20).flatten().map(|run| run.start));
        for (index, at) in places.into_iter().enumerate() {
            change(disk.as_ref(), at, index + round);
        }
        drop(disk);
        let _ = image.close();
    }
}

/// Makes the disk longer and shorter, and reads the new range.
fn resize(overlay: &Arc<dyn BlockWrite>, options: &OpenOptions) {
    let how = ResizeOptions {
        shrink: Shrink::Allowed,
        ..ResizeOptions::default()
    };
    for change in [100_000, -300_000, 5_000_000] {
        let Ok(image) = WritableImage::from_device(Arc::clone(overlay), options) else {
            return;
        };
        let old_bytes = image.description().virtual_size_bytes;
        let Ok(done) = image.resize(old_bytes.saturating_add_signed(change), how) else {
            continue;
        };
        let added = done.new_size_bytes.saturating_sub(old_bytes).min(1 << 20);
        let Ok(image) = Image::from_device(overlay.clone(), options) else {
            continue;
        };
        let mut bytes = vec![0x5a; usize::try_from(added).unwrap_or(0)];
        let _ = image.device().read_at(old_bytes, &mut bytes);
    }
}

/// Repairs the image. A second repair changes nothing more.
fn repair(overlay: &Arc<dyn BlockWrite>) {
    let _ = repair_device(overlay.as_ref(), Repair::Leaks, Some(Format::Qcow2));
    let all = || repair_device(overlay.as_ref(), Repair::All, Some(Format::Qcow2));
    if let (Ok(first), Ok(second)) = (all(), all()) {
        assert_eq!(first.after, second.before);
        assert_eq!(first.after, second.after);
    }
}

fn change(disk: &dyn BlockWrite, at: u64, index: usize) {
    let left = disk.size_bytes().saturating_sub(at);
    let bytes = [0x5a; 5000];
    let len = left.min(5000);
    let part = &bytes[..usize::try_from(len).unwrap_or(0)];
    match index % 4 {
        0 | 1 => {
            let _ = disk.write_at(at, part);
        }
        2 => {
            let _ = disk.write_zeroes(at, left.min(300_000));
        }
        _ => {
            let _ = disk.discard(at, left.min(3_000_000));
        }
    }
    let mut back = vec![0; part.len()];
    let _ = disk.read_at(at, &mut back);
    if index.is_multiple_of(5) {
        let _ = disk.flush();
    }
}
