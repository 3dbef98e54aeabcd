//! Image formats.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_image::{Format, Gate, Image, OpenOptions};

use crate::luks::NoCipher;

/// The maximum number of extents of a disk to visit: a hostile map can have one for each cluster.
const MAX_RUNS: usize = 300;

/// Runs everything that identifies a disk by its first bytes.
pub(crate) fn probe(device: &Arc<dyn BlockRead>) {
    let _ = diskfs_image::probe::probe(&**device);
    let _ = diskfs_ext4::Ext4::probe(&**device);
    let _ = diskfs_volume::read_table(&**device);
    let options = OpenOptions {
        gate: Gate::closed(),
        ..OpenOptions::default()
    };
    if let Ok(image) = Image::from_device(Arc::clone(device), &options) {
        let disk = image.device();
        let _ = diskfs_ext4::Ext4::probe(&*disk);
        let _ = diskfs_volume::read_table(&*disk);
    }
}

/// Reads a qcow2 image and each of its snapshots: tables and contents.
pub(crate) fn qcow2(device: &Arc<dyn BlockRead>) {
    visit(device, read);
}

/// Reads a qcow2 image without contents.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    visit(device, |image| {
        let _ = image.map().take(MAX_RUNS).count();
    });
}

fn visit(device: &Arc<dyn BlockRead>, look: impl Fn(&Image)) {
    let options = |snapshot| OpenOptions {
        format: Some(Format::Qcow2),
        gate: Gate::closed(),
        snapshot,
        unlock: Some(Arc::new(NoCipher)),
        cache_bytes: 4 << 20,
        ..OpenOptions::default()
    };
    let Ok(image) = Image::from_device(Arc::clone(device), &options(None)) else {
        return;
    };
    look(&image);
    let details = image.description().qcow2.iter();
    for snapshot in details.flat_map(|qcow2| &qcow2.snapshots).take(3) {
        if let Ok(image) =
            Image::from_device(Arc::clone(device), &options(Some(snapshot.id.clone())))
        {
            look(&image);
        }
    }
}

/// Reads some bytes at the start and the end of each extent.
pub(crate) fn read(image: &Image) {
    let _ = format!("{:?}", image.description());
    let disk = image.device();
    let mut buf = vec![0; 16 << 10];
    for run in image.map().take(MAX_RUNS) {
        let Ok(run) = run else {
            break;
        };
        let len = usize::try_from(run.len_bytes)
            .unwrap_or(usize::MAX)
            .min(buf.len());
        let _ = disk.read_at(run.start, &mut buf[..len]);
        let end = run.start.saturating_add(run.len_bytes);
        let _ = disk.read_at(end.saturating_sub(len as u64), &mut buf[..len]);
        let _ = disk.extent_at(run.start);
    }
    for start in [
        0,
        disk.size_bytes() / 2,
        disk.size_bytes().saturating_sub(buf.len() as u64),
    ] {
        let _ = disk.read_at(start, &mut buf);
        let _ = disk.extent_at(start);
    }
    let mut large = vec![0; usize::try_from(disk.size_bytes().min(1 << 20)).unwrap_or(0)];
    let _ = disk.read_at(0, &mut large);
}
