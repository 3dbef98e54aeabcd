//! exFAT, read and written.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Overlay};
use diskfs_exfat::{Exfat, WritableExfat, WriteOptions};
use diskfs_vfs::{FsRead, FsWrite, InodeNumber};

use crate::change::{self, CHANGED_MAX_BYTES};

/// The maximum number of files to visit; the fixtures have fewer.
const MAX_FILES: usize = 300;

/// The offset of the seed for changes: an unused place in the boot sector.
pub(crate) const SEED_OFFSET: u64 = 128;

/// The part of a filesystem whose checksums are corrected. The directories of our seeds are in it.
const SEALED_BYTES: u64 = 3 << 20;

/// Reads the whole tree with corrected checksums, makes random changes, and reads it again.
pub(crate) fn all(device: &Arc<dyn BlockRead>) {
    let sealed = Arc::new(Overlay::in_memory(Arc::clone(device), CHANGED_MAX_BYTES));
    // Structures that are outside of the device or invalid cannot be sealed.
    let _ = seal(&sealed);
    let disk: Arc<dyn BlockRead> = Arc::<Overlay>::clone(&sealed);
    let mut buf = vec![0; 32 << 10];
    visit(&disk, |fs, inode| {
        for offset in [0, 5000, u64::MAX - 1] {
            let _ = fs.read_at(inode, offset, &mut buf);
        }
    });
    write(&sealed);
    survey(&disk);
}

/// Reads the tree without contents.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    visit(device, |_, _| ());
}

fn visit(device: &Arc<dyn BlockRead>, mut contents: impl FnMut(&Exfat, InodeNumber)) {
    let Ok(fs) = Exfat::open(Arc::clone(device)) else {
        return;
    };
    let _ = (format!("{:?}", fs.identity()), fs.statistics());
    let _ = fs.free_ranges().map(|ranges| ranges.take(300).count());
    for entry in diskfs_vfs::walk(&fs, fs.root()).take(MAX_FILES).flatten() {
        let _ = fs.lookup(entry.inode, b"no such name");
        let _ = fs.extents_of(entry.inode, 0).map(Iterator::count);
        contents(&fs, entry.inode);
    }
    // Inode numbers that no name leads to.
    for number in [0, 1, 32768, 1 << 16, 65_700, u64::MAX / 32, u64::MAX] {
        let _ = fs.metadata(InodeNumber(number));
    }
}

fn write(device: &Arc<Overlay>) {
    let options = WriteOptions {
        // No commits at intervals, so that a case is reproducible.
        commit_interval: None,
        ..WriteOptions::default()
    };
    let Ok(fs) = WritableExfat::open(Arc::<Overlay>::clone(device), &options) else {
        return;
    };
    change::some(&fs, &mut change::chance(&**device, SEED_OFFSET));
    let _ = fs.close();
}

/// Corrects the checksums of the boot region and of entry sets, which mutations never hit.
fn seal(device: &Overlay) -> diskfs_block::Result<()> {
    let mut shift = [0];
    device.read_at(108, &mut shift)?;
    let sector = 512_usize << (shift[0].wrapping_sub(9) % 4);
    let mut region = vec![0; sector * 11];
    device.read_at(0, &mut region)?;
    let counted = region.iter().enumerate();
    let counted = counted.filter(|(at, _)| ![106, 107, 112].contains(at));
    let sum = counted.fold(0_u32, |sum, (_, byte)| {
        sum.rotate_right(1).wrapping_add(u32::from(*byte))
    });
    device.write_at(sector as u64 * 11, &sum.to_le_bytes())?;
    let len = usize::try_from(device.size_bytes().min(SEALED_BYTES)).unwrap_or(0);
    let mut bytes = vec![0; len];
    device.read_at(0, &mut bytes)?;
    for at in (0..len.saturating_sub(64)).step_by(32) {
        if bytes[at] == 0x85 && bytes[at + 32] == 0xc0 {
            seal_set(device, at as u64, &bytes[at..])?;
        }
    }
    Ok(())
}

fn seal_set(device: &Overlay, at: u64, bytes: &[u8]) -> diskfs_block::Result<()> {
    let len = (usize::from(bytes[1]) + 1) * 32;
    let Some(set) = bytes.get(..len) else {
        return Ok(());
    };
    let counted = set
        .iter()
        .enumerate()
        .filter(|(nth, _)| ![2, 3].contains(nth));
    let sum = counted.fold(0_u16, |sum, (_, byte)| {
        sum.rotate_right(1).wrapping_add(u16::from(*byte))
    });
    device.write_at(at + 2, &sum.to_le_bytes())
}
