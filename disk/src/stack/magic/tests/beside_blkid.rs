//! The results of the probes compared with those of util-linux' `blkid`: kind, label and UUID.

use std::os::unix::fs::FileExt;
use std::path::Path;

use diskfs_block::File;
use diskfs_fixtures::require;

use super::blkid;
use super::made::{At, GeneratedVolume, MADE, MADE_ALONE};
use crate::Content;

/// The identity of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct VolumeIdentity {
    pub(super) kind: String,
    pub(super) label: String,
    pub(super) uuid: String,
}

fn ours(image: &Path) -> VolumeIdentity {
    let content = Content::probe(&File::open(image).unwrap()).unwrap();
    content.map_or_else(VolumeIdentity::default, |content| VolumeIdentity {
        kind: content.kind.to_owned(),
        label: content.label().unwrap_or_default(),
        uuid: content.uuid.unwrap_or_default(),
    })
}

/// Compares the identity of each image.
///
/// # Panics
/// If any image differs; the message lists all differences.
fn compare<'a>(images: impl Iterator<Item = (&'a str, std::path::PathBuf)>) {
    let mut differences = Vec::new();
    for (name, image) in images {
        let (ours, theirs) = (ours(&image), blkid::told(&image));
        if ours != theirs {
            differences.push(format!("{name}:\n  ours   {ours:?}\n  blkid's {theirs:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Headers that were written by the descriptions of formats for which no program is installed here.
#[test]
fn made_headers_are_identified_as_blkid_does() {
    if require("blkid").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    compare(MADE.iter().map(|made| {
        let path = directory.path().join(made.name.replace('/', "-"));
        write(made, &path);
        (made.name, path)
    }));
}

fn write(made: &GeneratedVolume, path: &Path) {
    let file = std::fs::File::create(path).unwrap();
    file.set_len(made.size_bytes).unwrap();
    for (offset, bytes) in made.parts {
        let at = match offset {
            At::Start(at) => *at,
            At::End(before) => made.size_bytes - before,
        };
        file.write_all_at(bytes, at).unwrap();
    }
}

#[test]
fn what_blkid_does_not_find_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let told = MADE_ALONE.iter().map(|made| {
        let path = directory.path().join(made.name);
        write(made, &path);
        let VolumeIdentity { kind, label, uuid } = ours(&path);
        format!("{kind} {label} {uuid}")
    });
    let expected = [
        "ocfs ocfs label 01020304-0506-0708-090a-0b0c0d0e0f10",
        "xenix fname ",
        "exfs exfslabel 01020304-0506-0708-090a-0b0c0d0e0f10",
        "befs befs label 0102030405060708",
        "bcachefs old label 01020304-0506-0708-090a-0b0c0d0e0f10",
        "scoutfs_data  01020304-0506-0708-090a-0b0c0d0e0f10",
        "scoutfs_meta  01020304-0506-0708-090a-0b0c0d0e0f10",
        "BitLocker C: 04030201-0605-0807-090a-0b0c0d0e0f10",
        "VMFS_volume_member  49edf842-dcb35d37-b383-0021280083cf",
        "swsuspend  01020304-0506-0708-090a-0b0c0d0e0f10",
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

/// Images that the programs of the formats created.
#[test]
fn filesystems_of_all_makers_are_identified_as_blkid_does() {
    if require("blkid").is_none() {
        return;
    }
    let fixtures = diskfs_fixtures::all().iter();
    let images: Vec<_> = fixtures
        .filter(|fixture| fixture.name.starts_with("kind-"))
        .map(|fixture| (fixture.name.as_str(), diskfs_fixtures::image(&fixture.name)))
        .collect();
    assert!(images.len() > 20, "{}", images.len());
    compare(images.iter().map(|(name, image)| (*name, image.path())));
}

/// Checks that images for the tests of our other crates agree, too.
#[test]
fn filesystems_that_are_read_are_identified_as_blkid_does() {
    if require("blkid").is_none() {
        return;
    }
    let names = [
        "ext2",
        "ext3",
        "ext4-default",
        "fat12",
        "fat16",
        "fat32",
        "iso9660-plain.iso",
    ];
    let images = names.map(|name| (name, diskfs_fixtures::image(name)));
    compare(images.iter().map(|(name, image)| (*name, image.path())));
}
