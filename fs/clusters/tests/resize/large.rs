//! Large sparse filesystems: time and memory do not depend on the free space alone.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use diskfs_block::{BlockWrite, File};
use diskfs_fat::FatKind;

use crate::common::{fsck, tree};
use crate::forms::{Form, Random, fill};

const MIB: u64 = 1 << 20;

/// Grows and shrinks a sparse file.
fn grow_and_shrink(form: Form, small: u64, large: u64) {
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(small).unwrap();
    let open = || -> Arc<dyn BlockWrite> { Arc::new(File::open_read_write(image.path()).unwrap()) };
    form.format(&*open()).unwrap();
    fill(form, open(), &mut Random(3), 1);
    let read = || {
        let device = open();
        match form.fat {
            Some(_) => tree(&diskfs_fat::Fat::open(device).unwrap()),
            None => tree(&diskfs_exfat::Exfat::open(device).unwrap()),
        }
    };
    let stored = || image.as_file().metadata().unwrap().blocks() * 512;
    let (expected, before) = (read(), stored());
    image.as_file().set_len(large).unwrap();
    let resized = form.resize(&open(), large).unwrap();
    assert_eq!(resized.new_bytes, large);
    fsck(form.checker(), image.path());
    assert!(read() == expected);
    // The record is discarded, and tables without entries are not written.
    let more = stored() - before;
    assert!(more < large / 1000 + 8 * MIB, "{more}");
    let resized = form.resize(&open(), small).unwrap();
    image.as_file().set_len(resized.new_bytes).unwrap();
    fsck(form.checker(), image.path());
    assert!(read() == expected);
}

/// The sizes in MiB before and after.
fn sizes(usual: [u64; 2], large: [u64; 2]) -> [u64; 2] {
    match std::env::var("DISKFS_LARGE") {
        Ok(_) => large.map(|size| size * MIB),
        Err(_) => usual.map(|size| size * MIB),
    }
}

#[test]
fn a_sparse_fat32() {
    let form = Form {
        fat: Some(FatKind::Fat32),
        cluster_bytes: 4096,
        sector_bytes: 512,
    };
    let [small, large] = sizes([600, 4096], [2048, 64 << 10]);
    grow_and_shrink(form, small, large);
}

#[test]
fn a_sparse_exfat() {
    let form = Form {
        fat: None,
        cluster_bytes: 32 << 10,
        sector_bytes: 512,
    };
    let [small, large] = sizes([600, 40 << 10], [4096, 1 << 20]);
    grow_and_shrink(form, small, large);
}
