//! Directories that have reached their maximum size.

use diskfs_fixtures::have;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind};

use crate::common::{debugfs, e2fsck, mke2fs_empty, open, open_for_writing};
use crate::model::Model;

#[test]
#[ignore = "takes minutes"]
fn an_index_that_is_full() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut counts = Vec::new();
    for args in [
        "-t ext4 -b 1024 -N 64",
        "-t ext4 -b 1024 -N 64 -O large_dir",
        "-t ext4 -b 1024 -N 64 -O large_dir,^metadata_csum",
    ] {
        let image = mke2fs_empty(dir.path(), args, "96M");
        let fs = open_for_writing(&image);
        let mut model = Model::new(&fs, 7);
        let mut refused = None;
        while model.names.len() < 40_000 && refused.is_none() {
            let name = format!("{:a>250}", model.names.len()).into_bytes();
            let nth = model.names.len() % model.files.len();
            match fs.link(model.files[nth], model.dir, &name) {
                Ok(()) => _ = model.names.insert(name, nth),
                Err(e) => refused = Some(e),
            }
        }
        if let Some(e) = refused {
            assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
            assert!(e.to_string().contains("large_dir"), "{e}");
            // There may be room elsewhere in the index.
            model.remove(&fs);
        }
        counts.push(model.names.len());
        fs.close().unwrap();
        drop(fs);
        e2fsck(&image);
        model.compare(&open(&image), args);
        model.take_turns(&image, 20, args);
    }
    assert!(counts[0] < 40_000, "{counts:?}");
    assert_eq!(counts[1..], [40_000, 40_000]);
}

fn subdirectory(fs: &dyn FsWrite, dir: InodeNumber, n: u32) -> diskfs_vfs::Result<InodeNumber> {
    let attributes = NewAttributes::for_root(0o755);
    fs.create(
        dir,
        format!("sub-{n}").as_bytes(),
        NewKind::Directory,
        &attributes,
    )
}

/// Checks that subdirectories are counted up to 65,000 links. After that they are no longer
/// counted, or no more can be created.
#[test]
fn subdirectories_beyond_the_count() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (args, counts_on) in [
        ("-t ext4 -b 1024", true),
        ("-t ext4 -b 1024 -O ^dir_nlink", false),
        ("-t ext4 -b 1024 -O ^dir_index", false),
    ] {
        let image = mke2fs_empty(dir.path(), args, "24M");
        let fs = open_for_writing(&image);
        let parent = subdirectory(&fs, fs.root(), 0).unwrap();
        // Enough for an index.
        for n in 0..100 {
            subdirectory(&fs, parent, n).unwrap();
        }
        fs.close().unwrap();
        drop(fs);
        debugfs(&image, &["sif /sub-0 links_count 64999"]);

        let fs = open_for_writing(&image);
        let links = || fs.metadata(parent).unwrap().links;
        subdirectory(&fs, parent, 1000).unwrap();
        assert_eq!(links(), 65_000, "{args}");
        let more = subdirectory(&fs, parent, 1001);
        if counts_on {
            more.unwrap();
            assert_eq!(links(), 1);
            fs.rmdir(parent, b"sub-1001").unwrap();
            assert_eq!(links(), 1);
        } else {
            assert_eq!(more.unwrap_err().kind(), ErrorKind::TooManyNames, "{args}");
            assert_eq!(links(), 65_000);
            fs.rmdir(parent, b"sub-1000").unwrap();
            assert_eq!(links(), 64_999);
        }
        fs.close().unwrap();
    }
}

/// Creates seventy thousand subdirectories that exist at the same time.
#[test]
#[ignore = "takes minutes"]
fn seventy_thousand_subdirectories() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-t ext4 -b 1024 -N 80000", "200M");
    let fs = open_for_writing(&image);
    let parent = subdirectory(&fs, fs.root(), 0).unwrap();
    for n in 0..70_000 {
        subdirectory(&fs, parent, n).unwrap();
    }
    assert_eq!(fs.metadata(parent).unwrap().links, 1);
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
    assert_eq!(open(&image).read_dir(parent, 0).unwrap().count(), 70_002);
}

/// Fills the disk: without room for another block the directory stays consistent, and takes names
/// again later.
#[test]
fn a_full_disk() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for args in [
        "-t ext4 -b 1024 -N 64 -m 0 -O ^has_journal",
        "-t ext4 -b 1024 -N 64 -m 0 -O ^has_journal,^dir_index",
        "-t ext4 -b 1024 -N 64 -m 0 -O ^has_journal,inline_data -I 256",
        "-t ext2 -b 1024 -N 64 -m 0",
    ] {
        let image = mke2fs_empty(dir.path(), args, "400k");
        let fs = open_for_writing(&image);
        let mut model = Model::new(&fs, 3);
        let mut refused = 0;
        while refused < 20 {
            let name = [&model.random.name()[..], &[b'-'; 200]].concat()[..201].to_vec();
            let nth = model.random.below(model.files.len());
            match fs.link(model.files[nth], model.dir, &name) {
                Ok(()) => _ = model.names.insert(name, nth),
                Err(e) if e.kind() == ErrorKind::Exists => {}
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::NoSpace, "{args}: {e}");
                    refused += 1;
                    if refused % 2 == 0 {
                        model.remove(&fs);
                    }
                }
            }
        }
        model.compare(&fs, args);
        fs.close().unwrap();
        drop(fs);
        e2fsck(&image);
        model.compare(&open(&image), args);
    }
}
