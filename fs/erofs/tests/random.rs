//! Random trees, packed by mkfs.erofs: the driver shows what the kernel's mount shows.
//!
//! `DISKFS_SEEDS=0..1000` tries more trees, and `DISKFS_MKFS_EROFS` another mkfs.erofs: that of
//! Debian lacks the newer features, which are then tried, too.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use diskfs_block::File;
use diskfs_erofs::Erofs;
use diskfs_fixtures::{Mount, Random, Tree, random_tree, require, require_root, run, seeds};

/// Options of mkfs.erofs, of which each image gets one of each group.
const COMPRESSION: [&str; 7] = [
    "",
    "",
    "-zlz4",
    "-zlz4hc,12",
    "-zlz4hc -C65536",
    "-zlz4hc -Eztailpacking",
    "-zlz4 -Elegacy-compress",
];
const INODES: [&str; 4] = [
    "",
    "-Eforce-inode-compact",
    "-Eforce-inode-extended",
    "-T1234567890",
];
const CHUNKS: [&str; 3] = [
    "--chunksize=4096",
    "--chunksize=65536",
    "--chunksize=1048576",
];
const XATTRS: [&str; 3] = ["", "-x-1", "-x1"];

/// Options of newer versions. Of several shared attributes in the metabox, Linux 6.18 shows only
/// some; so none are shared there.
const NEW_COMPRESSION: [&str; 14] = [
    "-zlzma -C65536",
    "-zlzma,9 -Eztailpacking",
    "-zdeflate -C65536",
    "-zdeflate,9 -Efragments",
    "-zzstd -C262144",
    "-zzstd,12 -Eall-fragments -C65536",
    "-zlz4hc:zstd,5 -C16384 --compress-hints=HINTS",
    "-zlz4hc -Ededupe,fragments -C16384",
    "-zzstd -Ededupe -C65536",
    "-zlz4 -Eall-fragments,dedupe,ztailpacking",
    "-zlz4hc -E48bit -C65536",
    "-zzstd -E48bit,fragments -C65536 -m65536:zstd",
    "-E48bit -m4096 -x1000",
    "-zlzma -Efragments,ztailpacking -C1048576",
];
const NEW_OTHERS: [&str; 5] = [
    "",
    "--xattr-prefix=user.common.long. -x-1",
    "--xattr-prefix=user.common.",
    "-Exattr-name-filter",
    "-b512",
];

fn new_mkfs() -> Option<String> {
    std::env::var("DISKFS_MKFS_EROFS").ok()
}

fn options(random: &mut Random) -> String {
    let mut words = Vec::new();
    if new_mkfs().is_some() && random.below(3) != 0 {
        words.push(*random.pick(&NEW_COMPRESSION));
        words.push(*random.pick(&NEW_OTHERS));
    } else {
        words.push(*random.pick(&COMPRESSION));
        words.push(*random.pick(&XATTRS));
        if words[0].is_empty() && random.below(2) == 0 {
            words.push(*random.pick(&CHUNKS));
        }
    }
    let inodes = *random.pick(&INODES);
    // Newer versions refuse what does not fit into a compact inode.
    if new_mkfs().is_none() || !inodes.contains("compact") {
        words.push(inodes);
    }
    words.join(" ")
}

fn pack(tree: &Path, image: PathBuf, options: &str) -> Result<PathBuf> {
    let mut words: Vec<_> = options
        .split_ascii_whitespace()
        .map(str::to_owned)
        .collect();
    words.retain(|word| !word.starts_with("--compress-hints"));
    words.extend([&image, tree].map(|path| path.display().to_string()));
    run(new_mkfs().unwrap_or("mkfs.erofs".to_owned()), words)?;
    Ok(image)
}

fn shown(image: &Path) -> Result<Tree> {
    let fs = Erofs::open(Arc::new(File::open(image)?))?;
    Tree::of_filesystem(&fs)
}

/// Returns what the kernel shows, except that every file is immutable. The contents are those that
/// were packed: Linux 6.18 shows others for some ends of files.
fn expected(mount: &Path, packed: &Path) -> Result<Tree> {
    let packed = Tree::of_directory(packed)?;
    let mut tree = Tree::of_directory(mount)?;
    for entry in &mut tree.entries {
        entry.flags.clear();
        entry.btime = None;
        let source = packed.entry(&entry.path);
        entry.content = source.and_then(|source| source.content.clone());
    }
    Ok(tree)
}

fn compare(seed: u64) -> Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    let tree = directory.path().join("tree");
    std::fs::create_dir(&tree)?;
    random_tree(&tree, seed)?;
    let options = options(&mut Random::new(seed));
    let named = |text: String| format!("seed {seed} ({options}): {text}");
    let compared = || {
        let image = pack(&tree, directory.path().join("image"), &options)?;
        let mount = Mount::of_image(&image, "ro")?;
        anyhow::Ok(expected(mount.path(), &tree)?.differences(&shown(&image)?))
    };
    match compared() {
        Ok(lines) => Ok(lines.into_iter().map(named).collect()),
        Err(error) => anyhow::bail!(named(format!("{error:#}"))),
    }
}

#[test]
fn random_trees_are_as_the_kernel_shows_them() {
    if require_root().is_none() || require("mkfs.erofs").is_none() {
        return;
    }
    let mut failed = Vec::new();
    for seed in seeds(0..10) {
        match compare(seed) {
            Ok(lines) => failed.extend(lines),
            Err(error) => failed.push(error.to_string()),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
