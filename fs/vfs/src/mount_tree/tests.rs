use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::testing::{MemoryFs, WritableMemoryFs};
use crate::{NewAttributes, NewKind, RenameMode, SetMetadata, walk};

fn reader(fs: MemoryFs) -> Driver {
    Driver::ReadOnly(Arc::new(fs))
}

fn memory(dirs: &[&str], files: &[&str]) -> MemoryFs {
    let mut fs = MemoryFs::new();
    for dir in dirs {
        fs.dir(dir);
    }
    for file in files {
        fs.file(file, file.as_bytes());
    }
    fs
}

/// Returns a tree with `/boot`, `/boot/efi` and `/home`, and the number of filesystems that are
/// open.
fn guest() -> (MountTree, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let root = memory(
        &["/boot", "/home", "/etc", "/boot/below"],
        &["/etc/fstab", "/boot/hidden"],
    );
    let mut tree = MountTree::new(reader(root));
    let mut mount = |path: &str, dirs: &'static [&str], files: &'static [&str]| {
        let count = Arc::clone(&count);
        let open = move || {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(reader(memory(dirs, files)))
        };
        tree.mount(path, open).unwrap();
    };
    mount("/boot", &["/efi", "/grub"], &["/vmlinuz"]);
    mount("/boot/efi/", &["/EFI"], &["/EFI/x.efi"]);
    mount("//home", &["/ann"], &["/ann/letter"]);
    (tree, count)
}

fn paths(tree: &MountTree) -> Vec<String> {
    let mut paths: Vec<String> = walk(tree, tree.root())
        .map(|entry| String::from_utf8(entry.unwrap().path).unwrap())
        .collect();
    paths.sort();
    paths
}

fn at(tree: &MountTree, path: &str) -> Result<InodeNumber> {
    resolve(tree, path, Follow::All)
}

#[test]
fn what_is_mounted_hides_what_is_below() {
    let (tree, _) = guest();
    let expected = [
        "",
        "boot",
        "boot/efi",
        "boot/efi/EFI",
        "boot/efi/EFI/x.efi",
        "boot/grub",
        "boot/vmlinuz",
        "etc",
        "etc/fstab",
        "home",
        "home/ann",
        "home/ann/letter",
    ];
    assert_eq!(paths(&tree), expected);
    let file = at(&tree, "/boot/efi/EFI/x.efi").unwrap();
    let mut contents = [0; 32];
    let len = tree.read_at(file, 0, &mut contents).unwrap();
    assert_eq!(&contents[..len], b"/EFI/x.efi");
    assert_eq!(tree.metadata(file).unwrap().inode, file);
    // Out of it again, across two mounts.
    let root = at(&tree, "/boot/efi/EFI/../../..").unwrap();
    assert_eq!(root, tree.root());
    let efi = at(&tree, "/boot/efi").unwrap();
    let up = tree.read_dir(efi, 0).unwrap();
    let up = up.map(Result::unwrap).find(|entry| entry.name == b"..");
    assert_eq!(up.unwrap().inode, at(&tree, "/boot").unwrap());
}

#[test]
fn nothing_is_opened_before_somebody_comes_there() {
    let (tree, opened) = guest();
    let opened = || opened.load(Ordering::SeqCst);
    at(&tree, "/etc/fstab").unwrap();
    assert_eq!(opened(), 0);
    at(&tree, "/boot/vmlinuz").unwrap();
    assert_eq!(opened(), 1);
    for mount in 1..4 {
        tree.check(MountHandle(mount)).unwrap();
    }
    at(&tree, "/boot/efi/EFI").unwrap();
    assert_eq!(opened(), 3);
}

#[test]
fn numbers_are_apart() {
    let (tree, _) = guest();
    let mut numbers: Vec<InodeNumber> = walk(&tree, tree.root())
        .map(|entry| entry.unwrap().metadata.inode)
        .collect();
    let count = numbers.len();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), count);
    let large = InodeNumber(1 << INODE_BITS);
    assert_eq!(join(1, large).unwrap_err().kind(), ErrorKind::Unsupported);
    let nobodys = tree.metadata(InodeNumber(200 << INODE_BITS));
    assert_eq!(nobodys.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_mount_needs_a_directory() {
    let (mut tree, _) = guest();
    let other = || Ok(reader(MemoryFs::new()));
    let kind = |outcome: Result<MountHandle>| outcome.unwrap_err().kind();
    assert_eq!(kind(tree.mount("/data", other)), ErrorKind::NotFound);
    let on_a_file = tree.mount("/etc/fstab", other);
    assert_eq!(kind(on_a_file), ErrorKind::NotADirectory);
    // Below a filesystem that is not open yet, the error occurs later.
    let below = tree.mount("/home/bob", other).unwrap();
    assert_eq!(tree.check(below).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(paths(&tree).len(), 12);
}

#[test]
fn what_does_not_open_says_so_and_hides_what_is_below() {
    let root = memory(&["/boot", "/etc"], &["/boot/hidden"]);
    let mut tree = MountTree::new(reader(root));
    tree.mount("/boot", || {
        Err(Error::new(ErrorKind::Unsupported, "xfs is not read"))
    })
    .unwrap();
    let error = at(&tree, "/boot/hidden").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("xfs"), "{error}");
    // The directory is listed nevertheless, with the other entries.
    let entries = tree.read_dir(tree.root(), 0).unwrap();
    let entries: Vec<DirEntryOf> = entries
        .map(Result::unwrap)
        .map(|entry| (entry.name.clone(), tree.metadata(entry.inode).is_ok()))
        .collect();
    assert!(entries.contains(&(b"boot".to_vec(), false)));
    assert!(entries.contains(&(b"etc".to_vec(), true)));
}

type DirEntryOf = (Vec<u8>, bool);

#[test]
fn a_later_mount_covers_an_earlier_one() {
    let (mut tree, _) = guest();
    tree.mount("/boot", || Ok(reader(memory(&[], &["/second"]))))
        .unwrap();
    at(&tree, "/boot/second").unwrap();
    assert!(at(&tree, "/boot/vmlinuz").is_err());
    let up = at(&tree, "/boot/..").unwrap();
    assert_eq!(up, tree.root());
}

#[test]
fn a_bound_directory_is_at_two_places() {
    let (mut tree, _) = guest();
    assert!(!tree.has_aliases());
    tree.bind("/home/ann", "/etc").unwrap();
    assert!(tree.has_aliases());
    let (here, there) = (at(&tree, "/home/ann").unwrap(), at(&tree, "/etc").unwrap());
    assert_ne!(here, there);
    let file = at(&tree, "/etc/letter").unwrap();
    assert_eq!(file, at(&tree, "/home/ann/letter").unwrap());
    assert_eq!(at(&tree, "/etc/..").unwrap(), tree.root());
    assert_eq!(
        at(&tree, "/home/ann/..").unwrap(),
        at(&tree, "/home").unwrap()
    );
}

#[test]
fn a_directory_can_be_the_root() {
    let fs = memory(&["/deploy/1/sysroot", "/deploy/1/etc"], &["/outside"]);
    let mut tree = MountTree::below(reader(fs), "/deploy/1").unwrap();
    tree.mount_same("/sysroot", "", MountHandle::ROOT).unwrap();
    assert_eq!(at(&tree, "/../..").unwrap(), tree.root());
    assert!(at(&tree, "/outside").is_err());
    at(&tree, "/sysroot/outside").unwrap();
    tree.mount_dir("/etc", "a/b", || Ok(reader(memory(&["/a/b"], &["/a/b/c"]))))
        .unwrap();
    at(&tree, "/etc/c").unwrap();
    assert_eq!(at(&tree, "/etc/..").unwrap(), tree.root());
}

#[test]
fn what_is_mounted_twice_is_open_once() {
    let (mut tree, opened) = guest();
    let open = || Ok(reader(memory(&["/sub"], &["/sub/file"])));
    let first = tree.mount("/etc", open).unwrap();
    tree.mount_same("/boot/grub", "sub", first).unwrap();
    let file = at(&tree, "/boot/grub/file").unwrap();
    assert_eq!(file, at(&tree, "/etc/sub/file").unwrap());
    assert_eq!(opened.load(Ordering::SeqCst), 1);
    assert_eq!(
        at(&tree, "/boot/grub/..").unwrap(),
        at(&tree, "/boot").unwrap()
    );
}

/// Returns a tree of two filesystems that can be written, and one that can't.
fn writable() -> (MountTree, [Arc<WritableMemoryFs>; 2]) {
    let fs = [(); 2].map(|()| Arc::new(WritableMemoryFs::new()));
    let attributes = NewAttributes::for_root(0o755);
    for name in ["home", "ro"] {
        fs[0]
            .create(
                fs[0].root(),
                name.as_bytes(),
                NewKind::Directory,
                &attributes,
            )
            .unwrap();
    }
    let mut tree = MountTree::new(Driver::Writable(fs[0].clone()));
    let home = fs[1].clone();
    tree.mount("/home", move || Ok(Driver::Writable(home.clone())))
        .unwrap();
    tree.mount("/ro", || Ok(reader(memory(&[], &["/file"]))))
        .unwrap();
    (tree, fs)
}

#[test]
fn a_change_goes_to_one_filesystem() {
    let (tree, [root_fs, home_fs]) = writable();
    let attributes = NewAttributes::for_root(0o644);
    let home = at(&tree, "/home").unwrap();
    let made = tree
        .create(home, b"letter", NewKind::Regular, &attributes)
        .unwrap();
    assert_eq!(tree.write_at(made, 0, b"dear").unwrap(), 4);
    assert_eq!(made, at(&tree, "/home/letter").unwrap());
    assert_eq!((root_fs.file_count(), home_fs.file_count()), (3, 2));
    let kind = |outcome: Result<()>| outcome.unwrap_err().kind();
    let root = tree.root();
    let away = tree.rename(home, b"letter", root, b"letter", RenameMode::Replace);
    assert_eq!(kind(away), ErrorKind::CrossesDevices);
    assert_eq!(
        kind(tree.link(made, root, b"other")),
        ErrorKind::CrossesDevices
    );
    assert_eq!(kind(tree.rmdir(root, b"home")), ErrorKind::Busy);
    let moved = tree.rename(root, b"ro", root, b"rw", RenameMode::Replace);
    assert_eq!(kind(moved), ErrorKind::Busy);
    tree.rename(home, b"letter", home, b"mail", RenameMode::Replace)
        .unwrap();
    let ro = at(&tree, "/ro").unwrap();
    let refused = tree.create(ro, b"x", NewKind::Regular, &attributes);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ReadOnly);
    let file = at(&tree, "/ro/file").unwrap();
    let touched = tree.set_metadata(file, &SetMetadata::default());
    assert_eq!(kind(touched), ErrorKind::ReadOnly);
}

#[test]
fn a_sync_is_for_all_that_are_open_and_opens_none() {
    let (tree, [root_fs, home_fs]) = writable();
    tree.sync().unwrap();
    assert_eq!(root_fs.take_synced().len(), 1);
    assert_eq!(home_fs.take_synced().len(), 0);
    at(&tree, "/home").unwrap();
    root_fs.refuse(Some(ErrorKind::Io));
    assert_eq!(tree.sync().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(home_fs.take_synced().len(), 1);
}

#[test]
fn folders_are_empty_but_for_folders() {
    let mut dirs = MountPointFs::default();
    for path in ["vg0/root", "/vg0/home", "p1", "../p1/."] {
        dirs.add(path);
    }
    let mut tree = MountTree::new(Driver::ReadOnly(Arc::new(dirs)));
    tree.mount("vg0/root", || Ok(reader(memory(&["/etc"], &[]))))
        .unwrap();
    assert_eq!(
        paths(&tree),
        ["", "p1", "vg0", "vg0/home", "vg0/root", "vg0/root/etc"]
    );
    let mut listed = tree.read_dir(tree.root(), 0).unwrap().map(Result::unwrap);
    let second = listed.nth(1).unwrap();
    let rest: Vec<Vec<u8>> = tree
        .read_dir(tree.root(), second.cookie)
        .unwrap()
        .map(|entry| entry.unwrap().name)
        .collect();
    assert_eq!(rest, [b"p1".to_vec(), b"vg0".to_vec()]);
}
