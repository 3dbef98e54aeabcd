//! Random ext2, ext3 and ext4 filesystems: made by mke2fs of a random tree, or fixtures. Most have
//! changed metadata with correct checksums.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use diskfs_block::BlockRead;

use super::{command, output, write_image};
use crate::random::Random;
use crate::seeds::Seed;
use crate::{Sparse, Target, ext4_seal, mutate, seeds};

/// The file name of the filesystem.
pub(super) const IMAGE: &str = "disk";

/// Creates a filesystem in `directory`, and returns it.
pub(super) fn build(random: &mut Random, directory: &Path) -> Result<Sparse> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/images");
    let image = if random.below(2) == 0 {
        let paths = names(&fixtures)?;
        let path = random.pick(&paths);
        seeds::decompress(path)?
    } else {
        make(random, directory)?
    };
    let image = change(image, random);
    write_image(&directory.join(IMAGE), &image)?;
    Ok(image)
}

/// Returns the paths of the fixtures. Encrypted files have no contents without a key, and the
/// contents of those with a large cluster or block are large.
fn names(fixtures: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(fixtures)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_left_out = ["encrypt", "64k", "huge"]
            .iter()
            .any(|word| name.contains(word));
        if name.starts_with("ext") && !is_left_out && path.metadata()?.len() < 100 << 10 {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Changes structures in three of four cases, and corrects their checksums.
fn change(mut image: Sparse, random: &mut Random) -> Sparse {
    if random.below(4) == 0 {
        return image;
    }
    let touched = ext4_seal::seal(&mut image);
    let mut seed = Seed::new(Target::Ext4Walk, String::new(), image);
    seed.touched = touched;
    let mut changed = mutate::mutate(&seed, random);
    // A truncated file would be another case for the device, not for the reader.
    changed.set_len(seed.image.size_bytes());
    ext4_seal::seal(&mut changed);
    changed
}

/// Runs mke2fs with a random tree and random features.
fn make(random: &mut Random, directory: &Path) -> Result<Sparse> {
    let tree = directory.join("tree");
    std::fs::create_dir(&tree)?;
    fill(&tree, random, 0)?;
    let kind = *random.pick(&["ext2", "ext3", "ext4", "ext4", "ext4"]);
    let mut features = vec![*random.pick(&["^resize_inode", "dir_index", "^dir_index"])];
    if kind == "ext4" {
        let choices: [&[&str]; 5] = [
            &[
                "metadata_csum",
                "^metadata_csum,uninit_bg",
                "metadata_csum,metadata_csum_seed",
            ],
            &["64bit", "^64bit"],
            &["extent", "extent", "^extent,^64bit"],
            &["^inline_data", "inline_data"],
            &[
                "^sparse_super2",
                "ea_inode",
                "^flex_bg",
                "^has_journal",
                "orphan_file",
            ],
        ];
        features.extend(choices.iter().map(|choices| *random.pick(choices)));
    }
    let mut mke2fs = command("mke2fs");
    mke2fs.args([
        "-q",
        "-F",
        "-t",
        kind,
        "-d",
        "tree",
        "-O",
        &features.join(","),
    ]);
    mke2fs.args(["-b", *random.pick(&["1024", "2048", "4096"])]);
    mke2fs.args(["-I", *random.pick(&["128", "256", "256", "512"])]);
    mke2fs.args(["-N", "256", IMAGE, "6M"]);
    let out = output(mke2fs.current_dir(directory))?;
    if !out.status.success() {
        // Some features exclude others.
        let mut plain = command("mke2fs");
        plain.args(["-q", "-F", "-t", kind, "-d", "tree", IMAGE, "6M"]);
        let out = output(plain.current_dir(directory))?;
        ensure!(out.status.success(), "{plain:?}: {out:?}");
    }
    seeds::of_file(&directory.join(IMAGE))
}

/// Creates files of many sizes, with holes, links and names of all lengths.
fn fill(directory: &Path, random: &mut Random, depth: u32) -> Result<()> {
    for n in 0..=random.below(12) {
        let mut name = format!("{n}-").into_bytes();
        let len = *random.pick(&[0, 3, 20, 200, 252]);
        name.extend((0..len).map(|_| *random.pick(b"aZ0.~\xc3\xbc \\\"")));
        let path = directory.join(OsStr::from_bytes(&name));
        match random.below(10) {
            0 | 1 if depth < 2 => {
                std::fs::create_dir(&path)?;
                fill(&path, random, depth + 1)?;
            }
            2 => {
                let len = *random.pick(&[1, 59, 60, 61, 500, 1000]);
                std::os::unix::fs::symlink("t".repeat(len), &path)?;
            }
            3 => {
                let first = directory.join("0-");
                if first.is_file() {
                    std::fs::hard_link(first, &path)?;
                }
            }
            _ => file(&path, random)?,
        }
    }
    Ok(())
}

fn file(path: &Path, random: &mut Random) -> Result<()> {
    use std::os::unix::fs::FileExt;

    let file = std::fs::File::create(path)?;
    for _ in 0..random.below(5) {
        let end = *random.pick(&[60, 160, 5000, 60_000, 300_000]);
        let len = *random.pick(&[1, 60, 1024, 4096, 30_000]);
        let byte = u8::try_from(random.below(256)).unwrap_or(1);
        file.write_all_at(&vec![byte; len], random.below(end))?;
    }
    Ok(())
}
