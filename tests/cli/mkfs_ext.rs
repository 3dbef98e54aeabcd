//! mkfs ext4 with the files of a tree: the kernel shows the source, e2fsck finds nothing, and a
//! failure leaves no image.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use diskfs_fixtures::{Mount, have, require_root};

use crate::diskfs_in;

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

fn make_tree(tree: &Path) {
    fs::create_dir_all(tree.join("etc/empty")).unwrap();
    fs::create_dir_all(tree.join("data")).unwrap();
    fs::write(tree.join("etc/hostname"), "guest\n").unwrap();
    fs::set_permissions(
        tree.join("etc/hostname"),
        fs::Permissions::from_mode(0o4751),
    )
    .unwrap();
    symlink("hostname", tree.join("etc/link")).unwrap();
    fs::hard_link(tree.join("etc/hostname"), tree.join("data/second-name")).unwrap();
    for nth in 0..500_usize {
        fs::write(tree.join(format!("data/{nth}")), vec![5; nth * 61]).unwrap();
    }
    let holes = fs::File::create(tree.join("data/holes")).unwrap();
    holes.set_len(5 << 20).unwrap();
    fs::write(tree.join("data").join("n".repeat(255)), "long\n").unwrap();
}

/// Runs a program in a directory; returns its output.
fn tool(directory: &Path, words: &[&str]) -> String {
    let mut command = diskfs_fixtures::command(words[0]);
    let output = command
        .args(&words[1..])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_tree_becomes_a_filesystem() {
    if !have(&["e2fsck", "diff", "tar"]) || require_root().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make_tree(&path.join("tree"));
    tool(
        path,
        &["tar", "-cf", "tree.tar", "--sparse", "-C", "tree", "."],
    );
    for (image, source) in [
        ("dir.img", ["--from-dir", "tree"]),
        ("tar.img", ["--from-tar", "tree.tar"]),
    ] {
        let words = ["mkfs", "ext4", "--size", "64M", source[0], source[1], image];
        let said = diskfs_in(path, &words).text();
        assert!(said.starts_with("disk: ext4, 64 MiB, UUID "), "{said}");
        assert!(said.contains(" files with "), "{said}");
        tool(path, &["e2fsck", "-fn", image]);
        let mount = Mount::of_image(&path.join(image), "ro").unwrap();
        let mounted = mount.path().to_str().unwrap().to_owned();
        let differences = ["diff", "-r", "--no-dereference", "--exclude=lost+found"];
        tool(path, &[&differences[..], &["tree", &mounted]].concat());
        let file = fs::metadata(mount.path().join("etc/hostname")).unwrap();
        assert_eq!((file.mode() & 0o7777, file.nlink()), (0o4751, 2), "{image}");
        let holes = fs::metadata(mount.path().join("data/holes")).unwrap();
        assert_eq!((holes.len(), holes.blocks()), (5 << 20, 0), "{image}");
        mount.unmount().unwrap();
    }
}

#[test]
fn the_same_tree_makes_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make_tree(&path.join("tree"));
    let make = |image: &str| {
        let seed = format!("hash_seed={UUID}");
        let options = ["-U", UUID, "-E", &seed, "--size", "32M"];
        let words = [
            &["mkfs", "ext4"],
            &options[..],
            &["--from-dir", "tree", image],
        ]
        .concat();
        let mut command = std::process::Command::new(crate::DISKFS);
        let command = command.args(words).current_dir(path);
        let output = command
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        fs::read(path.join(image)).unwrap()
    };
    assert!(make("one.img") == make("other.img"));
}

#[test]
fn layers_of_an_image_become_a_filesystem() {
    if !have(&["tar", "e2fsck", "sha256sum"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    // An archive of `docker save`: the second layer removes a file of the first, and adds one.
    let script = "set -e
        mkdir -p lower/etc upper/etc image/1 image/2
        echo old > lower/etc/removed; echo kept > lower/etc/kept
        : > upper/etc/.wh.removed; echo new > upper/etc/added
        tar -C lower -cf image/1/layer.tar . && tar -C upper -cf image/2/layer.tar .
        first=$(sha256sum image/1/layer.tar | cut -d' ' -f1)
        second=$(sha256sum image/2/layer.tar | cut -d' ' -f1)
        printf '{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:%s\",\"sha256:%s\"]}}' $first $second > image/config.json
        printf '[{\"Config\":\"config.json\",\"RepoTags\":[\"guest:1\"],\"Layers\":[\"1/layer.tar\",\"2/layer.tar\"]}]' > image/manifest.json
        tar -C image -cf image.tar .";
    tool(path, &["sh", "-c", script]);
    let words = [
        "mkfs",
        "ext4",
        "--size",
        "16M",
        "--from-oci",
        "image.tar:guest:1",
        "disk.img",
    ];
    diskfs_in(path, &words).bytes();
    tool(path, &["e2fsck", "-fn", "disk.img"]);
    let files = diskfs_in(path, &["find", "disk.img:/etc"]).text();
    let mut files: Vec<&str> = files.lines().collect();
    files.sort_unstable();
    assert_eq!(files, ["/etc", "/etc/added", "/etc/kept"]);
}

#[test]
fn a_fitting_size_is_small_and_enough() {
    if !have(&["e2fsck", "tar"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make_tree(&path.join("tree"));
    for nth in 0..4000_usize {
        fs::write(path.join(format!("tree/etc/{nth}")), vec![1; nth % 9000]).unwrap();
    }
    tool(path, &["tar", "-cf", "tree.tar", "-C", "tree", "."]);
    let size = |name: &str| fs::metadata(path.join(name)).unwrap().len();
    for source in [["--from-dir", "tree"], ["--from-tar", "tree.tar"]] {
        for (size, image) in [("fit", "fit.img"), ("fit+20%", "more.img")] {
            let head = ["mkfs", "ext4", "--force", "-m", "0", "--size", size];
            diskfs_in(path, &[&head[..], &source, &[image]].concat()).bytes();
            tool(path, &["e2fsck", "-fn", image]);
        }
        assert!(size("fit.img") < 64 << 20, "{}", size("fit.img"));
        assert!(size("more.img") > size("fit.img") * 119 / 100);
    }
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make_tree(&path.join("tree"));
    let full = [
        "mkfs",
        "ext4",
        "--size",
        "4M",
        "--from-dir",
        "tree",
        "new.img",
    ];
    let refused = diskfs_in(path, &full);
    assert_eq!(refused.code(), Some(1), "{}", refused.stderr());
    assert!(!path.join("new.img").exists());

    diskfs_in(path, &["create", "old.img", "4M"]).bytes();
    let full = ["mkfs", "ext4", "--from-dir", "tree", "old.img"];
    assert_eq!(diskfs_in(path, &full).code(), Some(1));
    // No filesystem is left that a second attempt would have to overwrite.
    diskfs_in(path, &["mkfs", "ext4", "old.img"]).bytes();
    let taken = ["mkfs", "ext4", "--size", "4M", "old.img"];
    assert_eq!(diskfs_in(path, &taken).code(), Some(1));

    fs::write(path.join("cut.tar"), [b'x'; 700]).unwrap();
    let broken = [
        "mkfs",
        "ext4",
        "--size",
        "8M",
        "--from-tar",
        "cut.tar",
        "new.img",
    ];
    assert_ne!(diskfs_in(path, &broken).code(), Some(0));
    assert!(!path.join("new.img").exists());
}

#[test]
fn a_failure_keeps_an_old_image() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make_tree(&path.join("tree"));
    fs::write(path.join("old.img"), "precious").unwrap();
    for words in [
        &["--size", "8M", "-L", "more than sixteen bytes"][..],
        &["--size", "4M", "--from-dir", "tree"],
        &["--size", "64M", "--from-dir", "."],
    ] {
        let words = [&["mkfs", "ext4", "--force"], words, &["old.img"]].concat();
        let failed = diskfs_in(path, &words);
        assert_ne!(failed.code(), Some(0), "{words:?}");
        assert!(!failed.stderr().contains(".old.img"), "{}", failed.stderr());
        assert_eq!(fs::read(path.join("old.img")).unwrap(), b"precious");
        assert_eq!(fs::read_dir(path).unwrap().count(), 2, "{words:?}");
    }
}

#[test]
fn partitions_are_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let run = |words: &[&str]| diskfs_in(path, words);
    run(&["create", "disk.img", "32M"]).bytes();
    run(&["partition", "create-table", "disk.img", "gpt"]).bytes();
    run(&["partition", "add", "disk.img", "--size", "8M"]).bytes();
    let before = fs::read(path.join("disk.img")).unwrap();
    for words in [
        &["mkfs", "ext4", "--volume", "disk", "disk.img"][..],
        &["mkfs", "fat", "--offset", "0", "disk.img"],
        &["mkfs", "swap", "--offset", "4M", "disk.img"],
    ] {
        let refused = run(words);
        assert_eq!(refused.code(), Some(1), "{words:?}: {}", refused.stderr());
        assert!(refused.stderr().contains("--force"), "{}", refused.stderr());
    }
    assert!(before == fs::read(path.join("disk.img")).unwrap());
    // A table of which both copies are damaged may be repaired, so it is kept, too.
    let mut damaged = before.clone();
    let backup = damaged.len() - 512;
    for header in [512, backup] {
        damaged[header + 16] ^= 1;
    }
    fs::write(path.join("disk.img"), &damaged).unwrap();
    for words in [
        &["partition", "create-table", "disk.img", "gpt"][..],
        &["mkfs", "ext4", "--volume", "disk", "disk.img"],
    ] {
        let refused = run(words);
        assert_ne!(refused.code(), Some(0), "{words:?}");
        assert!(
            damaged == fs::read(path.join("disk.img")).unwrap(),
            "{words:?}"
        );
    }
}
