//! Random trees, packed by mksquashfs: the driver shows what the kernel's mount shows.
//!
//! `DISKFS_SEEDS=0..1000` tries more trees.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use diskfs_block::File;
use diskfs_fixtures::{Mount, Random, Tree, random_tree, require, require_root, run, seeds};
use diskfs_squashfs::Squashfs;

/// Options of mksquashfs, of which each image gets some.
const COMPRESSORS: [&str; 9] = [
    "-comp gzip",
    "-comp gzip -Xcompression-level 1 -Xwindow-size 10",
    "-comp lzo",
    "-comp lzo -Xalgorithm lzo1x_1",
    "-comp xz",
    "-comp xz -Xbcj x86",
    "-comp lz4 -Xhc",
    "-comp lz4",
    "-comp zstd",
];
const BLOCKS: [&str; 4] = ["-b 4K", "-b 16K", "-b 128K", "-b 1M"];
const OTHERS: [&str; 11] = [
    "-no-fragments",
    "-no-exports",
    "-noI",
    "-noD",
    "-noF",
    "-noX",
    "-noId",
    "-no-sparse",
    "-no-xattrs",
    "-no-duplicates",
    "-nopad",
];

fn options(random: &mut Random) -> String {
    let mut words = vec![*random.pick(&COMPRESSORS), *random.pick(&BLOCKS)];
    words.extend(OTHERS.iter().filter(|_| random.below(4) == 0));
    words.join(" ")
}

fn pack(tree: &Path, image: PathBuf, options: &str) -> Result<PathBuf> {
    let paths = [tree, &image].map(|path| path.display().to_string());
    let fixed = "-noappend -quiet -no-progress -no-recovery";
    let words = options.split(' ').chain(fixed.split(' '));
    run(
        "mksquashfs",
        paths
            .into_iter()
            .chain(words.map(str::to_owned))
            .collect::<Vec<_>>(),
    )?;
    Ok(image)
}

fn shown(image: &Path) -> Result<Tree> {
    let fs = Squashfs::open(Arc::new(File::open(image)?))?;
    Tree::of_filesystem(&fs)
}

fn compare(seed: u64) -> Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    let tree = directory.path().join("tree");
    std::fs::create_dir(&tree)?;
    random_tree(&tree, seed)?;
    let options = options(&mut Random::new(seed));
    let image = pack(&tree, directory.path().join("image"), &options)?;
    // A loop device has whole sectors only.
    let file = std::fs::OpenOptions::new().write(true).open(&image)?;
    file.set_len(file.metadata()?.len().next_multiple_of(4096))?;
    let mount = Mount::of_image(&image, "ro")?;
    let mut expected = Tree::of_directory(mount.path())?;
    let found = shown(&image)?;
    if options.contains("-no-exports") {
        expected = expected.without_inode_numbers();
    }
    let lines = expected.differences(&found);
    Ok(lines
        .into_iter()
        .map(|line| format!("seed {seed} ({options}): {line}"))
        .collect())
}

#[test]
fn random_trees_are_as_the_kernel_shows_them() {
    if require_root().is_none() || require("mksquashfs").is_none() {
        return;
    }
    let mut failed = Vec::new();
    for seed in seeds(0..10) {
        match compare(seed) {
            Ok(lines) => failed.extend(lines),
            Err(error) => failed.push(format!("seed {seed}: {error:#}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// No kernel reads LZMA, and Linux 6.18 fails to seek in files of several blocks and a fragment. So
/// the same tree with gzip and without such files is the reference.
#[test]
fn what_no_kernel_reads_shows_the_same_as_gzip() -> Result<()> {
    if require_root().is_none() || require("mksquashfs").is_none() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let tree = directory.path().join("tree");
    std::fs::create_dir(&tree)?;
    random_tree(&tree, 1)?;
    let at = |name: &str| directory.path().join(name);
    let gzip = without_layout(shown(&pack(&tree, at("gzip"), "-comp gzip")?)?);
    for (name, options) in [
        ("lzma", "-comp lzma"),
        ("fragments", "-always-use-fragments -b 4K -comp zstd"),
        ("fragments2", "-always-use-fragments -noF -b 8K -comp lz4"),
    ] {
        let found = without_layout(shown(&pack(&tree, at(name), options)?)?);
        assert_eq!(gzip.differences(&found), [""; 0]);
    }
    Ok(())
}

/// Removes what depends on the sizes of blocks, and where they are.
fn without_layout(tree: Tree) -> Tree {
    let mut tree = tree.without_holes();
    tree.statfs = None;
    for entry in &mut tree.entries {
        entry.allocated = 0;
        if entry.kind == 'd' {
            entry.size = 0;
        }
    }
    tree
}
