//! Opening a filesystem that was cleanly unmounted.

use std::sync::Arc;

use diskfs_block::{Counting, File};
use diskfs_fixtures::image;
use diskfs_vfs::FsRead;
use diskfs_xfs::Xfs;

#[test]
fn a_clean_filesystem_is_opened_with_few_reads() {
    for name in ["xfs-default", "xfs-block-65536", "xfs-v4", "xfs-v4-old"] {
        let image = image(name);
        let device = Arc::new(Counting::new(Arc::new(File::open(image.path()).unwrap())));
        let fs = Xfs::open(device.clone()).unwrap();
        assert!(fs.identity().notes.is_empty(), "{name}");
        let counts = device.counts();
        assert!(counts.reads <= 20, "{name}: {counts:?}");
        assert!(counts.read_bytes <= 200 << 10, "{name}: {counts:?}");
    }
}
