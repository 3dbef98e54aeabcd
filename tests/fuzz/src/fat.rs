//! FAT, read and written.

use std::sync::Arc;

use diskfs_block::{BlockRead, Overlay};
use diskfs_fat::{Fat, WritableFat, WriteOptions};
use diskfs_vfs::{FsRead, FsWrite, InodeNumber};

use crate::change::{self, CHANGED_MAX_BYTES};

/// The maximum number of files to visit; the fixtures have fewer.
const MAX_FILES: usize = 400;

/// The offset of the seed for changes: an unused place in the boot sector.
pub(crate) const SEED_OFFSET: u64 = 100;

/// Reads the whole tree, makes random changes, and reads it again.
pub(crate) fn all(device: &Arc<dyn BlockRead>) {
    let mut buf = vec![0; 32 << 10];
    visit(device, |fs, inode| {
        for offset in [0, 5000, u64::MAX - 1] {
            let _ = fs.read_at(inode, offset, &mut buf);
        }
    });
    let written = Arc::new(Overlay::in_memory(Arc::clone(device), CHANGED_MAX_BYTES));
    write(&written);
    let written: Arc<dyn BlockRead> = written;
    survey(&written);
}

/// Reads the tree without contents.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    visit(device, |_, _| ());
}

fn visit(device: &Arc<dyn BlockRead>, mut contents: impl FnMut(&Fat, InodeNumber)) {
    let Ok(fs) = Fat::open(Arc::clone(device)) else {
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
    for number in [0, 1, 2, 600, 1 << 16, u64::MAX / 32, u64::MAX] {
        let _ = fs.metadata(InodeNumber(number));
    }
}

fn write(device: &Arc<Overlay>) {
    let options = WriteOptions {
        // No commits at intervals, so that a case is reproducible.
        commit_interval: None,
        ..WriteOptions::default()
    };
    let Ok(fs) = WritableFat::open(Arc::<Overlay>::clone(device), &options) else {
        return;
    };
    change::some(&fs, &mut change::chance(&**device, SEED_OFFSET));
    let _ = fs.close();
}
