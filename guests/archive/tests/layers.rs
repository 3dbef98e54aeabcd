//! Layers applied in memory, compared with layers that Python applies to a directory of the kernel.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{judge, listing, python, require_judge, same};
use diskfs_archive::tree::{Limits, WriteOptions, Written};
use diskfs_archive::{Layer, Tree};
use diskfs_fixtures::require;
use diskfs_vfs::Recorder;
use diskfs_vfs::testing::WritableMemoryFs;

fn layers(dir: &Path) -> Vec<PathBuf> {
    let paths = (0..).map(|n| dir.join(format!("{n}.tar")));
    paths.take_while(|path| path.exists()).collect()
}

fn unpack(paths: &[PathBuf]) -> diskfs_disk::Result<(WritableMemoryFs, Written)> {
    let open = |path: &PathBuf| Ok(Layer::open(path, 0)?.of_image(None, None));
    let layers = paths
        .iter()
        .map(open)
        .collect::<diskfs_disk::Result<Vec<_>>>()?;
    let go_on = &mut |_| ControlFlow::Continue(());
    let tree = Tree::plan(&layers, &Limits::default(), go_on)?;
    let fs = WritableMemoryFs::new();
    let mut bytes = 0;
    let count = &mut |piece| {
        bytes += piece;
        ControlFlow::Continue(())
    };
    let written = tree.write_to(&fs, &WriteOptions::default(), count)?;
    assert!(bytes <= tree.stream_bytes());
    let files = written.regular_files + written.symlinks + written.special_files;
    let nodes = u64::try_from(tree.nodes().count()).unwrap();
    assert_eq!(nodes, files + written.directories + 1);
    Ok((fs, written))
}

fn compare(paths: &[PathBuf], dir: &Path, what: &str) {
    let expected = judge("apply", &dir.join("root"), paths);
    let (fs, _) = unpack(paths).unwrap_or_else(|error| panic!("{what}: {error}"));
    same(&listing(&fs), &expected, what);
}

#[test]
fn fixed_layers_make_the_tree_of_the_kernel() {
    if !require_judge() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    python(&["cases".as_ref(), dir.path().as_ref()]);
    for name in ["kinds", "whiteouts", "replaced", "links", "parents"] {
        let case = dir.path().join(name);
        compare(&layers(&case), &case, name);
    }
}

#[test]
fn random_layers_make_the_tree_of_the_kernel() {
    if !require_judge() {
        return;
    }
    let count = std::env::var("DISKFS_LAYERS").map_or(6, |count| count.parse().unwrap());
    for seed in 0..count {
        let dir = tempfile::tempdir().unwrap();
        let seed_text = seed.to_string();
        python(&["random".as_ref(), dir.path().as_ref(), seed_text.as_ref()]);
        compare(&layers(dir.path()), dir.path(), &format!("seed {seed}"));
    }
}

#[test]
fn the_same_layers_make_the_same_calls() {
    let dir = tempfile::tempdir().unwrap();
    if require("python3").is_none() {
        return;
    }
    python(&["cases".as_ref(), dir.path().as_ref()]);
    let changes = || {
        let paths = layers(&dir.path().join("links"));
        let open = |path: &PathBuf| Layer::open(path, 0).unwrap().of_image(None, None);
        let layers: Vec<_> = paths.iter().map(open).collect();
        let go_on = &mut |_| ControlFlow::Continue(());
        let tree = Tree::plan(&layers, &Limits::default(), go_on).unwrap();
        let recorder = Recorder::new(Arc::new(WritableMemoryFs::new()));
        let written = tree.write_to(&recorder, &WriteOptions::default(), go_on);
        written.unwrap();
        recorder.changes()
    };
    let first = changes();
    assert!(!first.is_empty());
    assert_eq!(first, changes());
}
