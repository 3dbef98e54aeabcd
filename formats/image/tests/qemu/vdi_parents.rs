//! VDIs with parents, which are found by their UUIDs: made by hand, because qemu-img makes none.

use std::path::Path;

use diskfs_block::{Error, ErrorKind};
use diskfs_fixtures::{HandMadeVdi, require_root};
use diskfs_image::{Gate, Image, OpenOptions, StaleBase};

use crate::mapped::compare_bytes;
use crate::tools::{converted, have_qemu};

const BLOCK: usize = 1 << 20;

fn options(gate: Gate) -> OpenOptions {
    OpenOptions {
        gate,
        ..OpenOptions::default()
    }
}

fn open(path: &Path) -> diskfs_block::Result<Image> {
    Image::open(path, &options(Gate::default()))
}

fn refused(path: &Path, kind: ErrorKind, words: &str) -> Error {
    let error = open(path).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
    error
}

/// Writes a base of two filled blocks, and a child of it that changes one of them.
fn write_pair(dir: &Path) {
    let mut base = HandMadeVdi::new(4, 1, 2, None);
    base.fill(0, 10);
    base.fill(1, 11);
    std::fs::write(dir.join("base.vdi"), base.build()).unwrap();
    let mut child = HandMadeVdi::new(4, 3, 4, Some((1, 2)));
    child.fill(1, 21);
    std::fs::write(dir.join("child.vdi"), child.build()).unwrap();
}

#[test]
fn a_chain_of_vdis() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    write_pair(dir.path());
    let mut top = HandMadeVdi::new(5, 5, 6, Some((3, 4)));
    top.discard(0);
    top.fill(4, 34);
    // Names of other files, and of one that is not an image.
    std::fs::write(path("A.VDI"), top.build()).unwrap();
    std::fs::write(path("other.vdi"), "not an image").unwrap();
    std::fs::create_dir(path("directory.vdi")).unwrap();
    std::fs::copy(path("base.vdi"), path("copy.raw")).unwrap();
    let disk = |fills: &[u8]| {
        fills
            .iter()
            .flat_map(|it| vec![*it; BLOCK])
            .collect::<Vec<_>>()
    };
    for (name, fills, depth) in [
        ("base.vdi", &[10, 11, 0, 0][..], 1),
        ("child.vdi", &[10, 21, 0, 0], 2),
        ("A.VDI", &[0, 21, 0, 0, 34], 3),
    ] {
        let image = open(&path(name)).unwrap();
        compare_bytes(image.device().as_ref(), &disk(fills), 3, name);
        let top = Some(image.description());
        let chain = std::iter::successors(top, |image| image.backing.as_deref());
        assert_eq!(chain.count(), depth, "{name}");
    }
    if have_qemu() {
        let theirs = converted(dir.path(), "base.vdi", &[]).unwrap();
        assert!(theirs == disk(&[10, 11, 0, 0]));
    }
    let details = open(&path("child.vdi")).unwrap();
    let details = details.description().mapped.clone().unwrap();
    assert_eq!(details.variant.as_deref(), Some("differencing"));
    let uuid = "01010101-0101-0101-0101-010101010101";
    assert_eq!(details.parent_name.as_deref(), Some(uuid));
}

/// VirtualBox has the children of a machine's disk in a directory below it.
#[test]
fn a_parent_in_another_directory_must_be_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let snapshots = dir.path().join("Snapshots");
    std::fs::create_dir(&snapshots).unwrap();
    write_pair(dir.path());
    let child = snapshots.join("{03030303}.vdi");
    std::fs::rename(dir.path().join("child.vdi"), &child).unwrap();
    let words = "no VDI with the UUID 01010101-0101-0101-0101-010101010101";
    let error = refused(&child, ErrorKind::NotFound, words);
    assert!(
        error.next_step().unwrap().contains("--allow-backing"),
        "{error}"
    );
    let allowed = options(Gate::default().allow(dir.path()));
    let image = Image::open(&child, &allowed).unwrap();
    let mut bytes = [0; 2];
    image.device().read_at((1 << 20) - 1, &mut bytes).unwrap();
    assert_eq!(bytes, [10, 21]);
    drop(image);

    // The directory is that of the image, too.
    write_pair(dir.path());
    Image::open(&dir.path().join("child.vdi"), &allowed).unwrap();
    let closed = Image::open(&child, &options(Gate::closed())).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Denied);
    let text = closed.to_string();
    assert!(
        text.contains("`01010101-") && text.contains("--no-backing"),
        "{text}"
    );
    // A hidden file is not looked at.
    let base = dir.path().join("base.vdi");
    std::fs::rename(base, dir.path().join(".base.vdi")).unwrap();
    refused(&dir.path().join("child.vdi"), ErrorKind::NotFound, "no VDI");
}

#[test]
fn a_parent_that_has_changed_is_stale() {
    let dir = tempfile::tempdir().unwrap();
    write_pair(dir.path());
    let child = dir.path().join("child.vdi");
    let base = HandMadeVdi::new(4, 1, 9, None).build();
    std::fs::write(dir.path().join("base.vdi"), base).unwrap();
    let words = "its modification UUID is 09090909-0909-0909-0909-090909090909";
    let error = refused(&child, ErrorKind::Denied, words);
    assert!(
        error.next_step().unwrap().contains("--force-stale"),
        "{error}"
    );
    let forced = OpenOptions {
        stale_base: StaleBase::Open,
        ..OpenOptions::default()
    };
    let image = Image::open(&child, &forced).unwrap();
    assert!(image.description().warnings[0].contains("may be damaged"));
}

/// Of several files with the UUID, the one with the right contents is the parent.
#[test]
fn copies_of_a_parent_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    write_pair(dir.path());
    let child = dir.path().join("child.vdi");
    let older = HandMadeVdi::new(4, 1, 9, None).build();
    std::fs::write(dir.path().join("a-copy.vdi"), &older).unwrap();
    let image = open(&child).unwrap();
    let backing = image.description().backing.as_deref().unwrap();
    assert_eq!(backing.path, dir.path().join("base.vdi"));
    drop(image);
    std::fs::copy(dir.path().join("base.vdi"), dir.path().join("same.vdi")).unwrap();
    let error = refused(&child, ErrorKind::Invalid, "several files have the UUID");
    let text = error.to_string();
    assert!(
        text.contains("base.vdi") && text.contains("same.vdi"),
        "{text}"
    );
}

#[test]
fn circles_of_parents_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, vdi: HandMadeVdi| {
        std::fs::write(dir.path().join(name), vdi.build()).unwrap();
    };
    write("own.vdi", HandMadeVdi::new(1, 1, 2, Some((1, 2))));
    write("a.vdi", HandMadeVdi::new(1, 3, 4, Some((5, 6))));
    write("b.vdi", HandMadeVdi::new(1, 5, 6, Some((3, 4))));
    for name in ["own.vdi", "a.vdi", "b.vdi"] {
        refused(&dir.path().join(name), ErrorKind::Corrupt, "loop");
    }
}

/// A link to a file elsewhere, and a file of another owner.
#[test]
fn the_gate_holds_for_files_that_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    write_pair(dir.path());
    let (base, child) = (dir.path().join("base.vdi"), dir.path().join("child.vdi"));
    let elsewhere = outside.path().join("base.vdi");
    std::fs::rename(&base, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &base).unwrap();
    refused(&child, ErrorKind::NotFound, "no VDI");
    std::fs::remove_file(&base).unwrap();
    std::fs::rename(&elsewhere, &base).unwrap();
    open(&child).unwrap();
    if require_root().is_none() {
        return;
    }
    std::os::unix::fs::chown(&base, Some(12345), None).unwrap();
    refused(&child, ErrorKind::NotFound, "no VDI");
    let allowed = options(Gate::default().allow(dir.path()));
    Image::open(&child, &allowed).unwrap();
}

/// An image that looks like a raw disk names no files.
#[test]
fn a_disguised_image_finds_no_parent() {
    let dir = tempfile::tempdir().unwrap();
    write_pair(dir.path());
    let disguised = dir.path().join("disk.img");
    std::fs::copy(dir.path().join("child.vdi"), &disguised).unwrap();
    refused(&disguised, ErrorKind::Denied, "format=vdi");
}
