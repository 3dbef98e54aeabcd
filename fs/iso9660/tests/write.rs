//! Volumes that the writer makes: our own reader finds everything in them, and so do isoinfo and
//! bsdtar.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::Memory;
use diskfs_fixtures::have;
use diskfs_iso9660::{Iso9660, NewFile, NewVolume};
use diskfs_vfs::{ErrorKind, FileType, Follow, FsRead, resolve, walk};
use proptest::prelude::*;

fn file(path: &str, contents: &[u8]) -> NewFile {
    NewFile {
        path: path.to_owned(),
        contents: contents.to_vec(),
    }
}

fn volume(files: Vec<NewFile>) -> NewVolume {
    NewVolume {
        identifier: "config-2".to_owned(),
        files,
        time_seconds: 1_700_000_000,
        align_bytes: 1 << 20,
    }
}

/// Returns all files of an image, by their paths, as our own reader finds them.
fn read(image: Vec<u8>) -> BTreeMap<String, Vec<u8>> {
    let fs = Iso9660::open(Arc::new(Memory::new(image))).unwrap();
    let mut files = BTreeMap::new();
    for found in walk(&fs, fs.root()) {
        let found = found.unwrap();
        assert_eq!(found.metadata.modified.seconds, 1_700_000_000);
        assert_eq!((found.metadata.uid, found.metadata.gid), (0, 0));
        if found.metadata.file_type != FileType::Regular {
            continue;
        }
        let len = usize::try_from(found.metadata.size_bytes).unwrap();
        let mut contents = vec![0; len];
        assert_eq!(fs.read_at(found.inode, 0, &mut contents).unwrap(), len);
        let path = String::from_utf8(found.path).unwrap();
        files.insert(path.trim_start_matches('/').to_owned(), contents);
    }
    files
}

/// Hides Rock Ridge, so that readers use Joliet.
fn without_rock_ridge(mut image: Vec<u8>) -> Vec<u8> {
    let place = image.windows(2).position(|bytes| bytes == b"SP").unwrap();
    image[place] = b'X';
    image
}

#[test]
fn our_own_reader_finds_everything() {
    let files = vec![
        file("meta-data", b"instance-id: i\n"),
        file("empty", b""),
        file("openstack/latest/meta_data.json", b"{}"),
        file("openstack/latest/user_data", &[7; 10_000]),
        file("a/b/c/d/e/f/g/deep", b"deep"),
        file(&format!("long/{}", "x".repeat(64)), b"long"),
    ];
    let expected: BTreeMap<_, _> = files
        .iter()
        .map(|file| (file.path.clone(), file.contents.clone()))
        .collect();
    let image = volume(files).image().unwrap();
    assert_eq!(image.len(), 1 << 20);
    assert_eq!(read(image.clone()), expected);
    let fs = Iso9660::open(Arc::new(Memory::new(without_rock_ridge(image)))).unwrap();
    for (path, contents) in &expected {
        let inode = resolve(&fs, path, Follow::All).unwrap();
        let mut read = vec![0; contents.len()];
        fs.read_at(inode, 0, &mut read).unwrap();
        assert_eq!(&read, contents, "{path}");
    }
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let refused = |files: &[&str]| {
        let files = files.iter().map(|path| file(path, b"")).collect();
        let error = volume(files).image().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    for (files, reason) in [
        (&["a", "a"][..], "twice"),
        (&["a", "a/b"], "twice"),
        (&["a/b", "a"], "twice"),
        (&["a/../b"], "invalid file name"),
        (&["/a"], "invalid file name"),
        (&["a b"], "invalid file name"),
        (&["a;1"], "invalid file name"),
        (&["é"], "invalid file name"),
        (&["1/2/3/4/5/6/7/8/9"], "too many directories"),
    ] {
        let message = refused(files);
        assert!(message.contains(reason), "{files:?}: {message}");
    }
    for identifier in ["", "12345678901234567", "a\n", "é"] {
        let new = NewVolume {
            identifier: identifier.to_owned(),
            ..volume(Vec::new())
        };
        assert!(new.image().is_err(), "{identifier}");
    }
    assert!(
        volume(vec![file("a", &vec![0; (64 << 20) + 1])])
            .image()
            .is_err()
    );
}

fn tool(directory: &Path, words: &[&str]) -> Vec<String> {
    let mut command = diskfs_fixtures::command(words[0]);
    let output = command
        .args(&words[1..])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn others_find_everything() {
    if !have(&["isoinfo", "bsdtar"]) {
        return;
    }
    let scene = tempfile::tempdir().unwrap();
    let at = scene.path();
    // Directories of several sectors, and names of which the first 8 characters are the same.
    let path = |number: u32| format!("directory-{}/file-number-{number}.text", number % 3);
    let files = (0..300).map(|number| file(&path(number), number.to_string().as_bytes()));
    let image = volume(files.collect()).image().unwrap();
    std::fs::write(at.join("a.iso"), image).unwrap();
    let mut expected: Vec<String> = (0..300)
        .map(|number| format!("/{}", path(number)))
        .collect();
    expected.extend((0..3).map(|number| format!("/directory-{number}")));
    expected.sort();
    assert_eq!(tool(at, &["isoinfo", "-i", "a.iso", "-R", "-f"]), expected);
    assert_eq!(tool(at, &["isoinfo", "-i", "a.iso", "-J", "-f"]), expected);
    for tree in ["!joliet", "!rockridge"] {
        let found = tool(at, &["bsdtar", "-tf", "a.iso", "--options", tree]);
        let found: Vec<_> = found
            .iter()
            .filter(|path| *path != ".")
            .map(|path| format!("/{path}"))
            .collect();
        assert_eq!(found, expected, "{tree}");
        let name = path(250);
        let text = tool(at, &["bsdtar", "-xOf", "a.iso", "--options", tree, &name]);
        assert_eq!(text, ["250"]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_tree_is_read_back(
        files in prop::collection::btree_map(
            "[a-zA-Z0-9_.-]{1,12}x(/[a-z]{1,3}[a-zA-Z0-9_.-]{0,60}){0,4}",
            prop::collection::vec(any::<u8>(), 0..5000),
            0..30,
        )
    ) {
        let new = files.iter().map(|(path, contents)| file(path, contents)).collect();
        // A path can be a file and a directory.
        if let Ok(image) = volume(new).image() {
            prop_assert_eq!(read(image), files);
        }
    }
}
