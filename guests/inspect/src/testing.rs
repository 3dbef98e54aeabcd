//! Guests for tests.

use std::path::Path;
use std::sync::Arc;

use diskfs_vfs::testing::MemoryFs;

use diskfs_disk::Filesystem;

/// Returns a guest with these files.
pub(super) fn guest(files: &[(&str, &str)]) -> Filesystem {
    let mut tree = MemoryFs::new();
    for (path, text) in files {
        if let Some((dir, _)) = path.rsplit_once('/') {
            tree.dir(dir);
        }
        tree.file(path, text.as_bytes());
    }
    of(tree)
}

/// Returns a guest with a tree.
pub(super) fn of(tree: MemoryFs) -> Filesystem {
    Filesystem::new(Arc::new(tree), Path::new("guest.img"), "p1")
}
