//! Layers of files of the host, compared with what GNU tar makes of the same files.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use diskfs_archive::tree::Limits;
use diskfs_archive::{HostOptions, Layer, SmallFile, Tree};
use diskfs_fixtures::{require, run};
use diskfs_vfs::{FileType, Timestamp};

fn plan(layers: &[Layer]) -> Tree {
    Tree::plan(layers, &Limits::default(), &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap()
}

/// Returns a line for each name of the tree, with everything that is known about it.
fn listing(tree: &Tree) -> Vec<String> {
    let mut first = Vec::new();
    let mut lines: Vec<String> = tree
        .names()
        .map(|named| {
            let node = named.node;
            let path = String::from_utf8(named.path).unwrap();
            if first.get(named.number).is_none() {
                first.resize(named.number + 1, String::new());
                first[named.number].clone_from(&path);
            }
            format!(
                "{path} {:?} {} {} {} {} {:?}",
                node.file_type,
                node.size_bytes,
                node.allocated_bytes,
                node.links,
                node.xattrs.len(),
                named.target.map(String::from_utf8_lossy),
            )
        })
        .collect();
    lines.sort();
    lines
}

fn make_files(root: &Path) {
    fs::create_dir_all(root.join("a/deep/directory")).unwrap();
    fs::write(root.join("a/file"), "contents").unwrap();
    fs::write(root.join("a/empty"), "").unwrap();
    fs::write(root.join("a").join("n".repeat(150)), "long").unwrap();
    fs::hard_link(root.join("a/file"), root.join("second")).unwrap();
    symlink("a/file", root.join("link")).unwrap();
    symlink("x".repeat(200), root.join("long-link")).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_at(&sparse, b"data", 1 << 20).unwrap();
    sparse.set_len(3 << 20).unwrap();
    fs::set_permissions(root.join("a/file"), fs::Permissions::from_mode(0o4751)).unwrap();
}

#[test]
fn a_directory_is_the_tree_that_tar_packs() {
    if require("tar").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    make_files(&root);
    let archive = dir.path().join("root.tar");
    let (to, from) = (archive.to_str().unwrap(), root.to_str().unwrap());
    run(
        "tar",
        ["--sparse", "--format=posix", "-cf", to, "-C", from, "."],
    )
    .unwrap();
    let theirs = listing(&plan(&[Layer::open(&archive, u64::MAX).unwrap()]));
    let ours = listing(&plan(&[
        Layer::of_host(&root, HostOptions::default()).unwrap()
    ]));
    assert_eq!(ours, theirs);
    assert!(
        ours.iter()
            .any(|line| line.starts_with("sparse Regular 3145728 4096 ")),
        "{ours:?}"
    );
}

#[test]
fn layers_have_places_in_the_tree() {
    let dir = tempfile::tempdir().unwrap();
    make_files(&dir.path().join("root"));
    let small = SmallFile {
        path: b"/etc/motd".to_vec(),
        contents: Some(b"hello".to_vec()),
        permissions: 0o644,
        uid: 1,
        gid: 2,
        modified: Timestamp::default(),
    };
    let file = Layer::of_host(&dir.path().join("root/a/file"), HostOptions::default()).unwrap();
    let tree = plan(&[
        Layer::of_small_files(Path::new("plan"), &[small]),
        Layer::of_host(&dir.path().join("root"), HostOptions::default())
            .unwrap()
            .below(b"/srv/data"),
        file.below(b"/opt/program"),
    ]);
    let names: Vec<_> = tree.names().collect();
    let kind = |path: &str| {
        let found = names.iter().find(|named| named.path == path.as_bytes());
        found.map(|named| {
            (
                named.node.file_type,
                named.node.size_bytes,
                named.node.links,
            )
        })
    };
    assert_eq!(kind("etc/motd"), Some((FileType::Regular, 5, 1)));
    assert_eq!(kind("srv/data/second"), Some((FileType::Regular, 8, 2)));
    assert_eq!(kind("opt/program"), Some((FileType::Regular, 8, 1)));
    assert_eq!(kind("second"), None);
}
