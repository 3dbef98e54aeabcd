//! The corpus: mutations that reach lines which no seed reaches, as differences from their seeds.
//!
//! A file for each target has a line for each mutation: the name of the seed, the size of the image,
//! and the changed ranges as `OFFSET=HEX`, separated by tabs. `tests/fuzz/coverage --grow` finds them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use diskfs_block::BlockRead;

use crate::seeds::{self, Seed};
use crate::{Sparse, Target};

/// The number of equal bytes that may be between two changes of one range.
const MAX_GAP_BYTES: u64 = 4;

/// Returns the directory of the corpus in this repository.
pub fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn file_of(directory: &Path, target: Target) -> PathBuf {
    directory.join(format!("{}.txt", target.name()))
}

/// Loads the seeds, the mutations of the corpus after them, and the places of all that further
/// mutations change.
///
/// # Errors
/// Fails for an image or a file of the corpus that cannot be read.
pub fn load_with_seeds(images: &Path, target: Option<Target>) -> Result<Vec<Seed>> {
    let mut all = seeds::load(images, target)?;
    all.extend(load(&directory(), &all)?);
    all.iter_mut().for_each(Seed::find_places);
    Ok(all)
}

/// Loads the mutations of these seeds. Those of seeds that no longer exist are left out.
///
/// # Errors
/// Fails for a file that cannot be read or parsed. A target may have no file.
pub fn load(directory: &Path, seeds: &[Seed]) -> Result<Vec<Seed>> {
    let mut by_target: BTreeMap<&str, Vec<&Seed>> = BTreeMap::new();
    for seed in seeds {
        by_target.entry(seed.target.name()).or_default().push(seed);
    }
    let mut mutations = Vec::new();
    for seeds in by_target.values() {
        let file = file_of(directory, seeds[0].target);
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        for (number, line) in (1..).zip(text.lines()) {
            let parsed = parse(line, number, seeds);
            let place = || format!("{}: line {number}", file.display());
            mutations.extend(parsed.with_context(place)?);
        }
    }
    Ok(mutations)
}

fn parse(line: &str, number: u32, seeds: &[&Seed]) -> Result<Option<Seed>> {
    let mut fields = line.split('\t');
    let name = fields.next().unwrap_or_default();
    let Some(seed) = seeds.iter().find(|seed| seed.name == name) else {
        return Ok(None);
    };
    let mut seed = (*seed).clone();
    seed.name = format!("{name}, mutation {number}");
    let size = fields.next().context("no size")?;
    seed.image.set_len(size.parse()?);
    for range in fields {
        let (offset, hex) = range.split_once('=').context("no `=`")?;
        seed.image.write(offset.parse()?, &from_hex(hex)?);
    }
    Ok(Some(seed))
}

fn from_hex(hex: &str) -> Result<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    let bytes = digits.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?));
    bytes.collect()
}

/// Writes the mutations of a target: pairs of a seed's name and image with the mutation.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn save<'a>(
    directory: &Path,
    target: Target,
    mutations: impl Iterator<Item = (&'a Seed, &'a Sparse)>,
) -> Result<()> {
    let mut lines: Vec<_> = mutations
        .map(|(seed, image)| line_of(seed, image))
        .collect();
    lines.sort();
    let file = file_of(directory, target);
    if lines.is_empty() {
        let _ = std::fs::remove_file(&file); // There may be none.
        return Ok(());
    }
    std::fs::create_dir_all(directory)?;
    std::fs::write(&file, lines.concat()).with_context(|| file.display().to_string())
}

/// Returns the line of a mutation in the file of its target.
pub fn line_of(seed: &Seed, image: &Sparse) -> String {
    let mut line = format!("{}\t{}", seed.name, image.size_bytes());
    for (start, end) in changed_ranges(&seed.image, image) {
        let _ = write!(line, "\t{start}=");
        for at in start..end {
            let _ = write!(line, "{:02x}", image.byte(at));
        }
    }
    line.push('\n');
    line
}

/// Returns the ranges of bytes that differ, up to the end of `new`.
fn changed_ranges(old: &Sparse, new: &Sparse) -> Vec<(u64, u64)> {
    let mut blocks: Vec<u64> = old.block_offsets().chain(new.block_offsets()).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let bytes = blocks.into_iter().flat_map(|block| block..block + 4096);
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for at in bytes.filter(|&at| at < new.size_bytes() && old.byte(at) != new.byte(at)) {
        match ranges.last_mut() {
            Some((_, end)) if at <= *end + MAX_GAP_BYTES => *end = at + 1,
            _ => ranges.push((at, at + 1)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_are_kept_as_differences() {
        let mut image = Sparse::zeroes(100_000);
        image.write(50, b"superblock");
        let seed = Seed::new(Target::Gpt, "a seed".to_owned(), image.clone());
        let mut changed = image;
        changed.set_len(90_000);
        changed.write(52, &[0, 0, b'e', 1]);
        changed.write(8190, &[1, 2, 3, 4]);
        assert_eq!(
            line_of(&seed, &changed),
            "a seed\t90000\t52=00006501\t8190=01020304\n"
        );
        let directory = tempfile::tempdir().unwrap();
        save(
            directory.path(),
            Target::Gpt,
            [(&seed, &changed)].into_iter(),
        )
        .unwrap();
        let loaded = load(directory.path(), std::slice::from_ref(&seed)).unwrap();
        assert_eq!(loaded.len(), 1);
        assert!(loaded[0].image.to_input() == changed.to_input());
        save(directory.path(), Target::Gpt, std::iter::empty()).unwrap();
        assert!(load(directory.path(), &[seed]).unwrap().is_empty());
    }

    /// A mutation of a seed that was renamed or removed would silently test nothing.
    #[test]
    fn all_mutations_have_their_seed() {
        let images = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/images");
        let seeds = seeds::load(images.as_ref(), None).unwrap();
        let lines = |target| std::fs::read_to_string(file_of(&directory(), target));
        let expected: usize = Target::ALL
            .into_iter()
            .map(|target| lines(target).map_or(0, |text| text.lines().count()))
            .sum();
        assert_eq!(load(&directory(), &seeds).unwrap().len(), expected);
    }
}
