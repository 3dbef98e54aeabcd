use std::io::Write;

use ::tar::{Builder, EntryType, Header};
use diskfs_disk::ErrorKind;
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

use super::super::super::testing::{after, apply, attributes, guest, text};
use crate::EntryKind;
use crate::guest::Guest;

const GUEST: &str = "-- /etc/passwd --\nroot:x:0:0::/root:/bin/sh\nann:x:1000:1001::/home/ann:/bin/sh\n\
    -- /etc/group --\nroot:x:0:\n-- /lib -> usr/lib --\n-- /usr/lib/x --\nx\n-- /srv/data -> /var/data --\n-- /var/data/x --\n\
    -- /srv/old -> x --\n";

/// An archive under construction.
struct Tree(Builder<Vec<u8>>);

impl Tree {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    fn add(mut self, name: &str, kind: EntryType, mode: u32, link: &str, data: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(7);
        header.set_gid(8);
        header.set_size(data.len() as u64);
        header.set_device_major(1).unwrap();
        header.set_device_minor(3).unwrap();
        if !link.is_empty() {
            header.set_link_name_literal(link).unwrap();
        }
        // The target is used unchanged, wherever it points.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        self.0.append(&header, data).unwrap();
        self
    }

    fn file(self, name: &str, data: &[u8]) -> Self {
        self.add(name, EntryType::Regular, 0o640, "", data)
    }

    fn dir(self, name: &str) -> Self {
        self.add(name, EntryType::Directory, 0o700, "", b"")
    }

    fn symlink(self, name: &str, target: &str) -> Self {
        self.add(name, EntryType::Symlink, 0o777, target, b"")
    }

    fn hard_link(self, name: &str, first: &str) -> Self {
        self.add(name, EntryType::Link, 0o640, first, b"")
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }

    fn at(self) -> NamedTempFile {
        archive(&self.bytes())
    }
}

fn archive(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn step(archive: &NamedTempFile, to: &str) -> String {
    format!("- tar: {{from: {}, to: {to}}}", archive.path().display())
}

fn error(tree: Tree, to: &str) -> String {
    let archive = tree.at();
    let error = apply(&mut guest(GUEST), &step(&archive, to)).unwrap_err();
    error.to_string()
}

fn is_same_as(guest: &Guest, path: &str, first: &str) -> bool {
    use crate::Contents;
    let entry = guest.stage.link_entry(path).unwrap().unwrap();
    entry.kind == EntryKind::File(Contents::HardLinkTo(first.to_owned()))
}

#[test]
fn members_go_where_they_belong() {
    let archive = Tree::new()
        .dir("./")
        .dir("app/")
        .file("app/conf", b"a=1\n")
        .file("deep/er/x", b"x\n")
        .symlink("app/current", "conf")
        .hard_link("app/other", "app/conf")
        .file("lib/y", b"y\n")
        .add("null", EntryType::Char, 0o666, "", b"")
        .at();
    let mut guest = after(GUEST, &step(&archive, "/"));
    assert_eq!(text(&guest, "/app/conf"), "a=1\n");
    assert_eq!(attributes(&guest, "/app/conf"), "0640 7:8");
    assert_eq!(attributes(&guest, "/app"), "0700 7:8");
    assert_eq!(attributes(&guest, "/deep/er"), "0755 0:0");
    assert_eq!(attributes(&guest, "/app/current"), "0777 7:8");
    // The file behind the guest's symlink.
    assert_eq!(text(&guest, "/usr/lib/y"), "y\n");
    assert!(is_same_as(&guest, "/app/other", "/app/conf"));
    assert_eq!(text(&guest, "/app/other"), "a=1\n");
    let notes = guest.report("tar").notes;
    assert!(notes[0].contains("1 devices and FIFOs"), "{notes:?}");
}

#[test]
fn an_owner_is_that_of_all() {
    let archive = Tree::new().file("a", b"").symlink("b", "a").at();
    let from = archive.path().display();
    let steps = format!("- tar: {{from: {from}, to: /opt, owner: \"ann:root\"}}");
    let owned = after(GUEST, &steps);
    assert_eq!(attributes(&owned, "/opt/a"), "0640 1000:0");
    assert_eq!(attributes(&owned, "/opt/b"), "0777 1000:0");
}

#[test]
fn a_file_takes_the_place_of_a_symlink() {
    let archive = Tree::new().file("old", b"new\n").at();
    let guest = after(GUEST, &step(&archive, "/srv"));
    assert_eq!(text(&guest, "/srv/old"), "new\n");
    assert!(!guest.stage.exists("/srv/x").unwrap());
}

#[test]
fn nothing_leaves_the_directory() {
    let out = error(Tree::new().file("../x", b""), "/srv");
    assert!(out.contains("with `..`"), "{out}");
    let out = error(Tree::new().file("/etc/passwd", b""), "/srv");
    assert!(out.contains("absolute"), "{out}");
    // A symlink from the archive, and one from the guest.
    let tree = Tree::new().symlink("d", "/etc").file("d/passwd", b"");
    assert!(error(tree, "/srv").contains("through a symlink"));
    let tree = Tree::new().symlink("d", "../..").dir("d/etc2");
    assert!(error(tree, "/srv").contains("through a symlink"));
    let tree = Tree::new().symlink("d", "/etc").dir("d");
    assert!(error(tree, "/srv").contains("through a symlink"));
    assert!(error(Tree::new().file("data/y", b""), "/srv").contains("through a symlink"));
    let tree = Tree::new()
        .symlink("d", "/etc")
        .hard_link("mine", "d/passwd");
    assert!(error(tree, "/srv").contains("through a symlink"));
    let tree = Tree::new().hard_link("mine", "../etc/passwd");
    assert!(error(tree, "/srv").contains("with `..`"));
}

#[test]
fn what_makes_no_sense_is_reported_with_its_place() {
    assert!(error(Tree::new().hard_link("a", "b"), "/srv").contains("/srv/b"));
    assert!(error(Tree::new().file("x", &vec![0; 5 << 20]), "/srv").contains("can hold"));
    let mut guest = guest(GUEST);
    let none = archive(b"no archive, but long enough to be one");
    assert!(apply(&mut guest, &step(&none, "/srv")).is_err());
    let bzip2 = archive(b"BZh91AY&SY");
    assert!(apply(&mut guest, &step(&bzip2, "/srv")).is_err());
}

/// Asserts that the archive is named, and not the image.
fn assert_damaged(bytes: &[u8], reason: &str) {
    let archive = archive(bytes);
    let error = apply(&mut guest(GUEST), &step(&archive, "/srv")).unwrap_err();
    let expected = format!("{}: {reason}", archive.path().display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn a_damaged_archive_is_named() {
    let small = Tree::new().file("x", &[0; 5000]).bytes();
    assert_damaged(&small[..2000], "the archive is truncated");
    // This one is not kept in memory.
    let large = Tree::new().file("x", &vec![1; 2 << 20]).bytes();
    assert_damaged(&large[..1 << 20], "the archive is truncated");
    for plain in [small, large] {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
        gzip.write_all(&plain).unwrap();
        let whole = gzip.finish().unwrap();
        assert_damaged(&whole[..whole.len() / 2], "damaged compressed data: ");
    }
}

#[test]
fn each_compression_and_large_files() {
    let large: Vec<u8> = (0..3_u32 << 18).flat_map(u32::to_le_bytes).collect();
    let plain = Tree::new()
        .file("large", &large)
        .file("small", b"s\n")
        .bytes();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&plain).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(&plain).unwrap();
    let zstd = zstd::encode_all(&plain[..], 1).unwrap();
    for bytes in [
        &plain,
        &gzip.finish().unwrap(),
        &lz4.finish().unwrap(),
        &zstd,
    ] {
        let guest = after(GUEST, &step(&archive(bytes), "/opt"));
        assert_eq!(guest.stage.bytes("/opt/large").unwrap().unwrap(), large);
        assert_eq!(text(&guest, "/opt/small"), "s\n");
        assert_eq!(attributes(&guest, "/opt/large"), "0640 7:8");
    }
}

#[test]
fn attributes_of_pax_headers_are_set() {
    let record = b"30 SCHILY.xattr.user.a=x\n=\n\x00\xff\n";
    let archive = Tree::new()
        .add("pax", EntryType::XHeader, 0o644, "", record)
        .file("a", b"")
        .at();
    let guest = after(GUEST, &step(&archive, "/opt"));
    let entry = guest.stage.entry("/opt/a").unwrap().unwrap();
    assert_eq!(entry.xattrs["user.a"], b"x\n=\n\x00\xff");
}
