//! Layers of tar archives, as a tree that is written.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use diskfs::archive::tree::{Limits, WriteOptions};
use diskfs::archive::{Layer, Tree};
use diskfs_block::{BlockRead, read_within};
use diskfs_vfs::testing::WritableMemoryFs;

use crate::Sparse;

/// The maximum length of an input. No seed is longer.
const MAX_BYTES: usize = 64 << 10;

const BLOCK_BYTES: usize = 512;

/// The offset of the checksum in a header, and of the magic.
const CHECKSUM: usize = 148;
const MAGIC: usize = 257;

const LIMITS: Limits = Limits {
    unpacked_bytes: 1 << 20,
    files: 1000,
    memory_bytes: 1 << 20,
};

/// Writes the tree of the layers in an input. A block of zeroes ends a layer. Headers get valid
/// checksums, which mutations never hit.
pub(crate) fn tree(device: &Arc<dyn BlockRead>) {
    let len = device.size_bytes().min(MAX_BYTES as u64);
    let len = usize::try_from(len).unwrap_or(0);
    let Some(mut input) = read_within(&**device, 0, len).ok().flatten() else {
        return;
    };
    input.chunks_exact_mut(BLOCK_BYTES).for_each(seal);
    let blocks: Vec<_> = input.chunks(BLOCK_BYTES).collect();
    let layers = blocks.split(|block| block.iter().all(|byte| *byte == 0));
    let layers = layers.map(|blocks| {
        let layer = Layer::from_stream(&*blocks.concat(), Path::new("layer"), 1 << 20);
        layer.expect("the temporary directory has space")
    });
    let layers: Vec<_> = layers.map(|layer| layer.of_image(None, None)).collect();
    let go_on = &mut |_| ControlFlow::Continue(());
    let Ok(tree) = Tree::plan(&layers, &LIMITS, go_on) else {
        return;
    };
    assert!(tree.nodes().count() <= LIMITS.files as usize);
    // Sparse files can be larger than the filesystem allows.
    let _ = tree.write_to(&WritableMemoryFs::new(), &WriteOptions::default(), go_on);
}

/// Sets the checksum of a block that has the magic of a header.
fn seal(block: &mut [u8]) {
    if !block[MAGIC..].starts_with(b"ustar") {
        return;
    }
    block[CHECKSUM..CHECKSUM + 8].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[CHECKSUM..CHECKSUM + 7].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

/// Adds a member to an archive.
fn add(archive: &mut Vec<u8>, name: &str, kind: u8, link: &str, data: &str) {
    let mut block = [0; BLOCK_BYTES];
    let size = format!("{:011o}", data.len());
    let fields: [(usize, &[u8]); 11] = [
        (0, name.as_bytes()),
        (100, b"0000755"),
        (108, b"0000007"),
        (116, b"0000007"),
        (124, size.as_bytes()),
        (136, b"13727262700"),
        (156, &[kind]),
        (157, link.as_bytes()),
        (MAGIC, b"ustar\x0000"),
        (329, b"0000001"),
        (337, b"0000003"),
    ];
    for (offset, field) in fields {
        block[offset..offset + field.len()].copy_from_slice(field);
    }
    seal(&mut block);
    archive.extend(block);
    archive.extend(data.as_bytes());
    archive.resize(archive.len().next_multiple_of(BLOCK_BYTES), 0);
}

fn lower() -> Vec<u8> {
    let mut tar = Vec::new();
    let attributes = "25 SCHILY.xattr.user.a=b\n22 mtime=1600000000.5\n";
    let sparse = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n29 GNU.sparse.realsize=10000\n";
    add(&mut tar, "d", b'5', "", "");
    add(&mut tar, "pax", b'x', "", attributes);
    add(&mut tar, "d/file", b'0', "", "contents");
    add(&mut tar, "l", b'2', "d", "");
    add(&mut tar, "link", b'1', "l/file", "");
    add(&mut tar, "null", b'3', "", "");
    add(&mut tar, "fifo", b'6', "", "");
    add(&mut tar, "pax", b'x', "", sparse);
    let map = format!("1\n512\n3\n{}abc", "\0".repeat(504));
    add(&mut tar, "sparse", b'0', "", &map);
    tar
}

fn upper() -> Vec<u8> {
    let mut tar = Vec::new();
    add(&mut tar, "d/.wh..wh..opq", b'0', "", "");
    add(&mut tar, "l/new", b'0', "", "new");
    add(&mut tar, ".wh.fifo", b'0', "", "");
    add(&mut tar, "d/link", b'1', "link", "");
    add(&mut tar, "null", b'5', "", "");
    tar
}

fn layers() -> Vec<u8> {
    [lower(), vec![0; BLOCK_BYTES], upper()].concat()
}

/// Returns the input for two layers with all types of members.
pub(crate) fn seed() -> Sparse {
    let input = layers();
    let mut sparse = Sparse::zeroes(input.len() as u64);
    sparse.write(0, &input);
    sparse
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the target would never get past the headers.
    #[test]
    fn the_seed_is_written() {
        let seeds = [lower(), upper()];
        let layers = seeds.map(|tar| {
            let layer = Layer::from_stream(&tar[..], Path::new("layer"), 1 << 20);
            layer.unwrap().of_image(None, None)
        });
        let go_on = &mut |_| ControlFlow::Continue(());
        let tree = Tree::plan(&layers, &LIMITS, go_on).unwrap();
        let fs = WritableMemoryFs::new();
        let written = tree.write_to(&fs, &WriteOptions::default(), go_on).unwrap();
        // d/file (by its other name, link), d/new and sparse.
        assert_eq!((written.regular_files, written.hard_links), (3, 1));
        assert_eq!((written.directories, written.symlinks), (2, 1));
    }
}
