//! Compares the driver with the kernel's mount.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use common::differences;
use diskfs_btrfs::Options;
use diskfs_fixtures::{
    BtrfsMount, Reference, TempImage, expected_tree, image, make_btrfs, pattern, require,
    require_root, run, seeds, stress,
};

/// Returns the names of the fixtures with a tree.
fn fixtures() -> impl Iterator<Item = &'static str> {
    let fixtures = diskfs_fixtures::all().iter();
    fixtures
        .filter(|fixture| fixture.name.starts_with("btrfs-"))
        .filter(|fixture| fixture.reference != Reference::None)
        .map(|fixture| fixture.name.as_str())
}

/// Returns the images of all devices of a fixture.
fn images(name: &str) -> Vec<TempImage> {
    let all = diskfs_fixtures::all()
        .iter()
        .map(|fixture| fixture.name.as_str());
    let set = name.strip_suffix("-a");
    let is_member = |other: &str| match set {
        Some(set) => other.strip_prefix(set).is_some_and(|rest| rest.len() == 2),
        None => other == name,
    };
    all.filter(|other| is_member(other)).map(image).collect()
}

fn paths(images: &[TempImage]) -> Vec<PathBuf> {
    images.iter().map(TempImage::path).collect()
}

#[test]
fn each_fixture_is_as_the_kernel_showed_it() {
    let mut failed = Vec::new();
    for name in fixtures() {
        let images = images(name);
        let lines = differences(&expected_tree(name), &paths(&images), &Options::default());
        if !lines.is_empty() {
            failed.push(format!(
                "{name}: {}",
                lines[..lines.len().min(8)].join("\n    ")
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Linux uses the first superblock, also if a crash came after the write of another.
#[test]
fn a_newer_copy_of_the_superblock_is_not_used() {
    const COPY_AT: u64 = 64 << 20;
    const GENERATION_AT: usize = 72;
    const ROOT_AT: usize = 80;
    let image = image("btrfs-default");
    let mut copy = vec![0; 4096];
    let file = File::options()
        .read(true)
        .write(true)
        .open(image.path())
        .unwrap();
    file.read_exact_at(&mut copy, COPY_AT).unwrap();
    copy[GENERATION_AT] += 1;
    copy[ROOT_AT..ROOT_AT + 8].copy_from_slice(&4096_u64.to_le_bytes());
    let sum = crc32c::crc32c(&copy[32..]).to_le_bytes();
    copy[..4].copy_from_slice(&sum);
    file.write_all_at(&copy, COPY_AT).unwrap();
    let expected = expected_tree("btrfs-default");
    let lines = differences(&expected, &[image.path()], &Options::default());
    assert_eq!(lines, Vec::<String>::new());
}

/// Returns options of `mkfs.btrfs` and of two mounts, which depend on the seed.
fn options(seed: u64) -> (&'static str, [&'static str; 2]) {
    match seed % 6 {
        0 => ("-n 4096", ["", "compress-force=zstd"]),
        1 => ("-O ^no-holes,^extref", ["compress=lzo", ""]),
        2 => ("--csum xxhash", ["compress-force=zlib", "nodatasum"]),
        3 => ("--mixed -n 4096", ["", "compress=zstd"]),
        4 => ("-n 65536 -R ^free-space-tree", ["nodatacow", ""]),
        _ => ("--csum blake2", ["compress-force=lzo", "compress=zlib"]),
    }
}

/// Changes a filesystem in two mounts, with subvolumes, snapshots and clones.
fn random_tree(image: &Path, seed: u64) -> Result<()> {
    let images = [image.to_owned()];
    let (mkfs, [first, second]) = options(seed);
    make_btrfs(&image.display().to_string(), &images, mkfs)?;
    let subvolume = |words: &str, root: &Path, paths: &[&str]| {
        let words = words.split(' ').map(PathBuf::from);
        let paths = paths.iter().map(|path| root.join(path));
        run("btrfs", words.chain(paths)).map(drop)
    };
    let mount = BtrfsMount::of(&images, &format!("noatime,{first}"))?;
    let root = mount.path();
    fs::create_dir(root.join("directory"))?;
    stress(&root.join("directory"), seed, 60)?;
    subvolume("subvolume create", root, &["subvolume"])?;
    stress(&root.join("subvolume"), seed + 1, 60)?;
    subvolume("subvolume create", root, &["subvolume/nested"])?;
    stress(&root.join("subvolume/nested"), seed + 2, 20)?;
    subvolume("subvolume snapshot", root, &["subvolume", "snapshot"])?;
    overwrite(&root.join("snapshot"))?;
    mount.unmount()?;
    let mount = BtrfsMount::of(&images, &format!("noatime,{second}"))?;
    let root = mount.path();
    let clones = [root.join("directory"), root.join("clones")];
    run(
        "cp",
        ["-a", "--reflink=auto"]
            .map(PathBuf::from)
            .into_iter()
            .chain(clones),
    )?;
    overwrite(&root.join("clones"))?;
    fs::create_dir(root.join("subvolume/again"))?;
    stress(&root.join("subvolume/again"), seed + 3, 40)?;
    subvolume("subvolume snapshot -r", root, &["subvolume", "read-only"])?;
    File::open(root)?.sync_all()?;
    mount.unmount()
}

/// Overwrites parts of files, whose extents others share.
fn overwrite(directory: &Path) -> Result<()> {
    for (nth, entry) in (0_u64..).zip(fs::read_dir(directory)?) {
        let entry = entry?;
        if entry.file_type()?.is_file() && nth % 2 == 0 {
            let file = File::options().write(true).open(entry.path())?;
            file.write_all_at(&pattern("overwritten", 6000), nth * 1717)?;
        } else if nth % 5 == 1 && !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[test]
fn random_trees_are_as_the_kernel_shows_them() {
    if require_root().is_none() || require("mkfs.btrfs").is_none() {
        return;
    }
    let mut failed = Vec::new();
    for seed in seeds(1..3) {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        File::create(&image).unwrap().set_len(1 << 30).unwrap();
        random_tree(&image, seed).unwrap();
        let images = [image];
        let mount = BtrfsMount::of(&images, "ro").unwrap();
        let expected = mount.tree().unwrap();
        mount.unmount().unwrap();
        let lines = differences(&expected, &images, &Options::default());
        if !lines.is_empty() {
            let lines = lines[..lines.len().min(12)].join("\n    ");
            failed.push(format!("seed {seed} {:?}: {lines}", options(seed)));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
