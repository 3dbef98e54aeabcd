//! Trees of the fixtures, and random trees, as the kernel's mount shows them.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use diskfs_block::File;
use diskfs_fixtures::{
    Fixture, Mount, Reference, Tree, Workshop, all, expected_tree, have, image, require_root,
    seeds, stress,
};
use diskfs_xfs::Xfs;

fn open(image: &Path) -> Result<Xfs> {
    Ok(Xfs::open(Arc::new(File::open(image)?))?)
}

fn fixtures() -> impl Iterator<Item = &'static Fixture> {
    let fixtures = all()
        .iter()
        .filter(|fixture| fixture.name.starts_with("xfs-"));
    fixtures.filter(|fixture| fixture.reference != Reference::None)
}

/// Returns the differences between two trees, at most ten.
fn differences(expected: &Tree, actual: &Tree) -> Vec<String> {
    let mut differences = Vec::new();
    if expected.statfs.is_some() && expected.statfs != actual.statfs {
        differences.push(format!(
            "{:?}, expected {:?}",
            actual.statfs, expected.statfs
        ));
    }
    for entry in &expected.entries {
        match actual.entry(&entry.path) {
            Some(other) if other == entry => {}
            other => differences.push(format!("{other:?}\n  expected {entry:?}")),
        }
    }
    for entry in &actual.entries {
        if expected.entry(&entry.path).is_none() {
            differences.push(format!("unexpected {}", entry.path));
        }
    }
    differences.truncate(10);
    differences
}

#[test]
fn each_fixture_is_as_recorded() {
    let mut failed = Vec::new();
    for fixture in fixtures() {
        let image = image(&fixture.name);
        match open(&image.path()).and_then(|fs| Tree::of_filesystem(&fs)) {
            Ok(tree) => failed.extend(
                differences(&expected_tree(&fixture.name), &tree)
                    .into_iter()
                    .map(|difference| format!("{}: {difference}", fixture.name)),
            ),
            Err(error) => failed.push(format!("{}: {error:#}", fixture.name)),
        }
    }
    assert!(fixtures().next().is_some(), "no fixture was compared");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The geometries that the random trees go through, in turn.
const GEOMETRIES: [&str; 4] = [
    "-i size=512",
    "-b size=1024 -n size=4096",
    "-n size=16384 -i nrext64=1",
    "-i size=1024,sparse=0 -m rmapbt=1",
];

#[test]
fn random_trees_are_as_the_kernel_shows_them() {
    if require_root().is_none() || !have(&["mkfs.xfs"]) {
        return;
    }
    for seed in seeds(1..3) {
        let workshop = Workshop::new().unwrap();
        let image = workshop.sparse_file("image", 256 << 20).unwrap();
        let geometry = GEOMETRIES[usize::try_from(seed).unwrap() % GEOMETRIES.len()];
        workshop.mkfs_xfs(&image, geometry).unwrap();
        workshop
            .fill(&image, |root| stress(root, seed, 400))
            .unwrap();
        let mount = Mount::of_image(&image, "ro").unwrap();
        let expected = Tree::of_directory(mount.path()).unwrap();
        mount.unmount().unwrap();
        let tree = open(&image).and_then(|fs| Tree::of_filesystem(&fs));
        let tree = tree.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
        let differences = differences(&expected, &tree);
        assert!(
            differences.is_empty(),
            "seed {seed}:\n{}",
            differences.join("\n")
        );
    }
}
