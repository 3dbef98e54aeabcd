//! squashfs filesystems.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_squashfs::Squashfs;
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

/// Reads the tree without contents.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    visit(device, |_, _| ());
}

fn visit(device: &Arc<dyn BlockRead>, mut contents: impl FnMut(&Squashfs, InodeNumber)) {
    let Ok(fs) = Squashfs::open(Arc::clone(device)) else {
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
    for number in [0, 1, 2, 96, 1 << 16, u64::MAX] {
        let _ = fs.metadata(InodeNumber(number));
    }
}
