//! EROFS filesystems.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Overlay};
use diskfs_erofs::Erofs;
use diskfs_vfs::{FsRead, InodeNumber};

/// The maximum number of files to visit; the fixtures have fewer.
const MAX_FILES: usize = 400;

/// Reads the whole tree: metadata, targets, contents.
pub(crate) fn walk(device: &Arc<dyn BlockRead>) {
    let mut buf = vec![0; 32 << 10];
    visit(device, |fs, inode| {
        for offset in [0, 5000, u64::MAX - 1] {
            let _ = fs.read_at(inode, offset, &mut buf);
        }
    });
}

/// The place of the byte with the bit of the checksum's feature.
const FEATURE_COMPAT: u64 = 1024 + 8;

/// Returns the device without the feature of a checksum, which mutations never hit.
fn unsealed(device: &Arc<dyn BlockRead>) -> Arc<dyn BlockRead> {
    let overlay = Overlay::in_memory(Arc::clone(device), 1 << 20);
    let mut byte = [0];
    // A device that is too small is refused anyhow.
    if overlay.read_at(FEATURE_COMPAT, &mut byte).is_ok() {
        let _ = overlay.write_at(FEATURE_COMPAT, &[byte[0] & !1]);
    }
    Arc::new(overlay)
}

/// Reads the tree without contents.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    visit(device, |_, _| ());
}

fn visit(device: &Arc<dyn BlockRead>, mut contents: impl FnMut(&Erofs, InodeNumber)) {
    let Ok(fs) = Erofs::open(unsealed(device)) else {
        return;
    };
    let _ = (format!("{:?}", fs.identity()), fs.statistics());
    for entry in diskfs_vfs::walk(&fs, fs.root()).take(MAX_FILES).flatten() {
        let _ = fs.read_link(entry.inode);
        let _ = fs.lookup(entry.inode, b"no such name");
        for name in fs.list_xattrs(entry.inode).unwrap_or_default() {
            let _ = fs.xattr(entry.inode, &name);
        }
        let _ = fs.extents_of(entry.inode, 0).map(Iterator::count);
        contents(&fs, entry.inode);
    }
    // Inode numbers that no name leads to.
    for number in [0, 1, 32, 36, 1 << 31, u64::MAX] {
        let _ = fs.metadata(InodeNumber(number));
    }
}
