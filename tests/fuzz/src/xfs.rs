//! XFS.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_vfs::{FileType, FsRead, InodeNumber};
use diskfs_xfs::Xfs;

use crate::xfs_seal::Sealed;

/// The maximum number of files to visit.
const MAX_FILES: usize = 400;
/// The maximum number of extents, entries or attributes of a file to visit.
const MAX_ITEMS: usize = 300;

/// Reads the whole tree: metadata, attributes, contents.
pub(crate) fn walk(device: &Arc<dyn BlockRead>) {
    let mut buf = vec![0; 32 << 10];
    visit(device, |fs, inode| {
        for offset in [0, 5000, 1 << 40, u64::MAX - 1] {
            let _ = fs.read_at(inode, offset, &mut buf);
        }
    });
}

/// Reads the tree without contents.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    visit(device, |_, _| ());
}

fn visit(device: &Arc<dyn BlockRead>, mut contents: impl FnMut(&Xfs, InodeNumber)) {
    let sealed = Arc::new(Sealed::new(Arc::clone(device)));
    let Ok(fs) = Xfs::open(sealed) else {
        return;
    };
    let _ = (format!("{:?}", fs.identity()), fs.statistics());
    let _ = fs
        .free_ranges()
        .map(|ranges| ranges.take(MAX_ITEMS).count());
    for entry in diskfs_vfs::walk(&fs, fs.root()).take(MAX_FILES).flatten() {
        attributes(&fs, entry.inode);
        match entry.metadata.file_type {
            FileType::Symlink => drop(fs.read_link(entry.inode)),
            FileType::Directory => look_up(&fs, entry.inode),
            _ => {
                let extents = fs.extents_of(entry.inode, 0);
                let _ = extents.map(|extents| extents.take(MAX_ITEMS).count());
                contents(&fs, entry.inode);
            }
        }
    }
    // Inode numbers that no name leads to.
    for number in [0, 1, 128, 129, 191, 1 << 20, u64::MAX] {
        let _ = fs.metadata(InodeNumber(number));
    }
}

fn attributes(fs: &Xfs, inode: InodeNumber) {
    for name in fs
        .list_xattrs(inode)
        .unwrap_or_default()
        .iter()
        .take(MAX_ITEMS)
    {
        let _ = fs.xattr(inode, name);
    }
    let _ = fs.xattr(inode, b"system.posix_acl_access");
}

fn look_up(fs: &Xfs, directory: InodeNumber) {
    let _ = fs.lookup(directory, b"no such name");
    let Ok(entries) = fs.read_dir(directory, 0) else {
        return;
    };
    for entry in entries.take(MAX_ITEMS).flatten() {
        let _ = fs.lookup(directory, &entry.name);
        let _ = fs
            .read_dir(directory, entry.cookie)
            .map(|mut rest| rest.next());
    }
}
