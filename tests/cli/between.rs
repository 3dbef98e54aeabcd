//! Copies and moves between images and between filesystems.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use diskfs_fixtures::image;

use crate::changing::Guest;
use crate::{diskfs, diskfs_in};

/// Returns the hash manifest of a tree, without inode times and location.
fn manifest(guest: &Guest, image: &str, path: &str) -> String {
    let text = guest.diskfs(&["hash", &format!("{image}:{path}")]).text();
    text.replace(&format!("\t{path}"), "\t")
}

/// Makes a guest whose `/tree` has files of all types, and an empty image `other.img`.
fn two_guests() -> Option<Guest> {
    let guest = Guest::new()?;
    fs::copy(guest.at("disk.img"), guest.at("other.img")).unwrap();
    let at = |name: &str| guest.at(&format!("tree/{name}"));
    fs::create_dir_all(at("sub")).unwrap();
    fs::write(at("sub/file"), "contents").unwrap();
    fs::set_permissions(at("sub/file"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(at("sub/file"), at("second")).unwrap();
    symlink("sub/file", at("link")).unwrap();
    let sparse = fs::File::create(at("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    guest.all(&[
        "cp -a tree disk.img:/tree",
        "chown 1000:100 disk.img:/tree/sub/file",
        "xattr set user.mime text disk.img:/tree/sub/file",
    ]);
    Some(guest)
}

#[test]
fn cp_goes_from_image_to_image_with_all_there_is_to_a_file() {
    let Some(guest) = two_guests() else { return };
    let tree = manifest(&guest, "disk.img", "/tree");
    assert!(tree.contains("\t1000\t100\t"), "{tree}");
    guest.all(&[
        "cp -a disk.img:/tree disk.img:/copy",
        "cp -a disk.img:/tree other.img:/copy",
        "cp -a ./disk.img:/tree/. disk.img:/inside",
        "cp disk.img:/tree/sub/file /tree/link other.img:/",
        "cp -r disk.img:/tree/link tree/sub/file other.img:/copy/sub",
    ]);
    for image in ["disk.img", "other.img"] {
        if image == "disk.img" {
            assert_eq!(manifest(&guest, image, "/copy"), tree);
            assert_eq!(manifest(&guest, image, "/inside"), tree);
        }
        let names = guest.diskfs(&["stat", "--json", &format!("{image}:/copy/second")]);
        assert_eq!(names.json()["entries"][0]["links"], 2);
        let sparse = guest.diskfs(&["stat", "--json", &format!("{image}:/copy/sparse")]);
        assert_eq!(sparse.json()["entries"][0]["allocated_bytes"], 0);
    }
    // Without -a, the copies belong to root, and links are followed.
    for path in ["other.img:/file", "other.img:/link"] {
        let text = guest.diskfs(&["find", path, "-printf", "%y %U %s\\n"]);
        assert_eq!(text.text(), "f 0 8\n");
    }
    let link = guest.diskfs(&["find", "other.img:/copy/sub/link", "-printf", "%l\\n"]);
    assert_eq!(link.text(), "sub/file\n");
    guest.is_sound();
    fs::rename(guest.at("other.img"), guest.at("disk.img")).unwrap();
    guest.is_sound();
}

#[test]
fn nothing_is_copied_onto_or_into_itself() {
    let Some(guest) = two_guests() else { return };
    let tree = manifest(&guest, "disk.img", "/tree");
    for words in [
        &["cp", "-r", "disk.img:/tree", "disk.img:/tree/sub"][..],
        &["cp", "-rT", "disk.img:/tree", "./disk.img:/tree"],
        &["cp", "disk.img:/tree/second", "disk.img:/tree/sub/file"],
        &["mv", "disk.img:/tree", "disk.img:/tree/sub/"],
    ] {
        let (code, stderr) = guest.diskfs(words).failure();
        assert!([1, 2].contains(&code), "{words:?}: {stderr}");
        assert_eq!(manifest(&guest, "disk.img", "/tree"), tree, "{words:?}");
    }
    let run = guest.diskfs(&["cp", "disk.img:/tree/sub", "disk.img:/x"]);
    assert!(run.failure().1.contains("give -r"));
}

#[test]
fn mv_goes_from_image_to_image() {
    let Some(guest) = two_guests() else { return };
    let tree = manifest(&guest, "disk.img", "/tree");
    guest.all(&["mv disk.img:/tree other.img:/moved"]);
    assert_eq!(manifest(&guest, "other.img", "/moved"), tree);
    assert_eq!(guest.names("/"), ["lost+found"]);
    // An existing file is replaced, as by rename(2); with -n it is kept.
    guest.all(&[
        "mkdir disk.img:/full",
        "cp tree/sub/file disk.img:/full/file",
        "mv -n disk.img:/full/file other.img:/moved/second",
    ]);
    assert_eq!(guest.cat("/full/file"), "contents");
    for words in [
        ["mv", "-T", "disk.img:/full", "other.img:/moved"],
        ["mv", "-T", "disk.img:/full/file", "other.img:/moved"],
        ["mv", "-T", "disk.img:/full", "other.img:/moved/second"],
    ] {
        let (code, stderr) = guest.diskfs(&words).failure();
        assert_eq!(code, 1, "{stderr}");
        assert_eq!(guest.cat("/full/file"), "contents");
    }
    guest.all(&["mv -T disk.img:/full/file other.img:/moved/second"]);
    let links = guest.diskfs(&["stat", "--json", "other.img:/moved/sub/file"]);
    assert_eq!(links.json()["entries"][0]["links"], 1);
    guest.is_sound();
    fs::rename(guest.at("other.img"), guest.at("disk.img")).unwrap();
    guest.is_sound();
}

#[test]
fn a_copy_that_fails_removes_nothing() {
    let Some(guest) = Guest::new() else { return };
    let large = fs::File::create(guest.at("large")).unwrap();
    large.set_len(8 << 20).unwrap();
    fs::write(guest.at("large"), vec![1; 8 << 20]).unwrap();
    guest.all(&["cp large disk.img:/large"]);
    let small = guest.at("small.img");
    fs::File::create(&small).unwrap().set_len(4 << 20).unwrap();
    let words = ["mkfs", "fat", "small.img"];
    let made = guest.diskfs(&words);
    assert_eq!(made.code(), Some(0), "{}", made.stderr());
    let (code, stderr) = guest
        .diskfs(&["mv", "disk.img:/large", "small.img:/large"])
        .failure();
    assert_eq!(code, 1, "{stderr}");
    let size = guest.diskfs(&["find", "disk.img:/large", "-printf", "%s"]);
    assert_eq!(size.text(), (8 << 20).to_string());
    guest.is_sound();
}

#[test]
fn a_dry_run_between_images_changes_neither() {
    let Some(guest) = two_guests() else { return };
    let before = |name: &str| fs::read(guest.at(name)).unwrap();
    let (disk, other) = (before("disk.img"), before("other.img"));
    let words = ["mv", "--dry-run", "disk.img:/tree", "other.img:/tree"];
    let text = guest.diskfs(&words).text();
    assert!(text.contains("/tree: created, directory"), "{text}");
    assert!(text.contains("/tree: removed"), "{text}");
    assert!(disk == before("disk.img") && other == before("other.img"));
}

#[test]
fn a_snapshot_is_a_source() {
    let name = "qcow2-snapshots.qcow2";
    let image = image(name);
    let info = diskfs(&image, &["info", "--json", name]).json();
    let first = info["image"]["qcow2"]["snapshots"][0]["name"].clone();
    let from = format!("{name},snapshot={}", first.as_str().unwrap());
    let words = ["ls", &from];
    if diskfs(&image, &words).code() != Some(0) {
        return; // The fixture has no filesystem.
    }
    let Some(guest) = Guest::new() else { return };
    let into = format!("{}:/", guest.at("disk.img").display());
    let words = ["cp", "-r", &format!("{from}:/"), &into];
    diskfs_in(image.directory(), &words).text();
    guest.is_sound();
}
