//! A guest's files, as `inspect` reads them. An input is a tree in the format of Go's txtar.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use diskfs::Filesystem;
use diskfs::inspect::{Depth, Report, SbomFormat, sbom};
use diskfs_block::BlockRead;
use diskfs_vfs::Timestamp;
use diskfs_vfs::testing::MemoryFs;

use crate::Sparse;

/// The maximum length of an input. No seed is longer.
const TEXT_BYTES: u64 = 64 << 10;

/// Makes the whole report of the tree, and its bills of materials.
pub(crate) fn report(device: &Arc<dyn BlockRead>) {
    let len = device.size_bytes().min(TEXT_BYTES);
    let mut text = vec![0; usize::try_from(len).unwrap_or(0)];
    if device.read_at(0, &mut text).is_err() {
        return;
    }
    let tree = MemoryFs::of_txtar(&String::from_utf8_lossy(&text));
    let tree = Filesystem::new(Arc::new(tree), Path::new("guest.img"), "p1");
    let report = Report::of(&tree, Depth::Initramfs);
    for format in [SbomFormat::Spdx, SbomFormat::CycloneDx] {
        let _ = sbom(&report, format, "guest.img", Timestamp::default());
    }
}

/// Returns the trees of the `inspect` tests, by name.
pub(crate) fn seeds() -> Vec<(String, Sparse)> {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect");
    let folders = fs::read_dir(folders).into_iter().flatten().flatten();
    let seed = |folder: fs::DirEntry| {
        let tree = fs::read(folder.path().join("tree.txtar")).ok()?;
        let mut input = Sparse::zeroes(tree.len() as u64);
        input.write(0, &tree);
        Some((folder.file_name().to_string_lossy().into_owned(), input))
    };
    let mut seeds: Vec<_> = folders.filter_map(seed).collect();
    seeds.sort_by(|(a, _), (b, _)| a.cmp(b));
    seeds
}
