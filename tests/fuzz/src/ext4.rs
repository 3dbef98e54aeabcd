//! ext2, ext3 and ext4.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_ext4::{Ext4, Options};
use diskfs_vfs::{FileType, FsRead, InodeNumber};

/// The maximum number of files to visit. The fixtures have fewer, except those with large
/// directories.
const MAX_FILES: usize = 400;

/// The maximum number of extents of a file to visit.
const MAX_RUNS: usize = 300;

/// Reads the whole tree: metadata, attributes, contents.
pub(crate) fn walk(device: &Arc<dyn BlockRead>) {
    let mut buf = vec![0; 32 << 10];
    visit(device, |fs, inode| read(fs, inode, &mut buf));
}

/// Reads the tree without contents.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    visit(device, |fs, inode| {
        let _ = fs
            .extents_of(inode, 0)
            .map(|all| all.take(MAX_RUNS).count());
    });
}

/// Visits every file that has a name, and calls `contents` for those with contents.
fn visit(device: &Arc<dyn BlockRead>, mut contents: impl FnMut(&Ext4, InodeNumber)) {
    let options = Options {
        cache_bytes: 4 << 20,
    };
    let Ok(fs) = Ext4::open(Arc::clone(device), &options) else {
        return;
    };
    let _ = format!("{:?}", fs.identity());
    let _ = fs.statistics();
    let _ = fs.free_ranges().map(|ranges| ranges.take(300).count());
    for entry in diskfs_vfs::walk(&fs, fs.root()).take(MAX_FILES).flatten() {
        attributes(&fs, entry.inode);
        match entry.metadata.file_type {
            FileType::Symlink => {
                let _ = fs.read_link(entry.inode);
            }
            FileType::Directory => look_up(&fs, entry.inode),
            _ => contents(&fs, entry.inode),
        }
    }
    // Inode numbers that no name leads to.
    for number in [0, 1, 3, 7, 8, 11, 12, 1000, u64::from(u32::MAX), u64::MAX] {
        let _ = fs.metadata(InodeNumber(number));
    }
}

fn attributes(fs: &Ext4, inode: InodeNumber) {
    for name in fs.list_xattrs(inode).unwrap_or_default() {
        let _ = fs.xattr(inode, &name);
    }
    let _ = fs.xattr(inode, b"user.none");
}

fn look_up(fs: &Ext4, dir: InodeNumber) {
    let _ = fs.lookup(dir, b"no such name");
    let _ = fs.lookup(dir, &[0xff; 255]);
    let Ok(entries) = fs.read_dir(dir, 0) else {
        return;
    };
    let mut cookie = 0;
    for entry in entries.take(40).flatten() {
        cookie = entry.cookie;
        let _ = fs.lookup(dir, &entry.name);
    }
    if let Ok(mut rest) = fs.read_dir(dir, cookie) {
        let _ = rest.next();
    }
}

fn read(fs: &Ext4, inode: InodeNumber, buf: &mut [u8]) {
    let size = fs.metadata(inode).map_or(0, |metadata| metadata.size_bytes);
    for offset in [0, size / 2, size.saturating_sub(4096), u64::MAX - 1] {
        let _ = fs.read_at(inode, offset, buf);
    }
    if let Ok(extents) = fs.extents_of(inode, 0) {
        for extent in extents.take(MAX_RUNS).flatten() {
            let _ = fs.read_at(inode, extent.offset, &mut buf[..4096]);
        }
    }
}
