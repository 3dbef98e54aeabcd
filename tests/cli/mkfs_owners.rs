//! mkfs --from-dir with an owner map and with a manifest of another program.

use diskfs_fixtures::{have, require_root};

use crate::diskfs_in;
use crate::resize_stacks::shell;

#[test]
fn a_manifest_of_bsdtar_restores_owners_modes_and_devices() {
    if !have(&["bsdtar", "mknod", "e2fsck"]) || require_root().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let run = |words: &[&str]| diskfs_in(path, words);
    shell(
        path,
        "mkdir -p tree/dev tree/etc 'tree/with blank' tree/empty
         echo secret > tree/etc/shadow; chown 0:42 tree/etc/shadow; chmod 640 tree/etc/shadow
         echo program > tree/su; chown 7:8 tree/su; chmod 4755 tree/su
         echo x > 'tree/with blank/a#b=c'; chown 1000:1000 'tree/with blank/a#b=c'
         mknod tree/dev/null c 1 3; chmod 666 tree/dev/null
         mknod tree/dev/sda1 b 8 1; chown 0:6 tree/dev/sda1; mkfifo tree/dev/initctl
         ln -s etc/shadow tree/link; chown 5:5 tree/empty; chmod 1777 tree/empty
         bsdtar --format=mtree -cf manifest -C tree .
         mkdir plain; tar -C tree --exclude=./dev/null --exclude=./dev/sda1 --exclude=./dev/initctl \
             --exclude=./empty -c . | tar -C plain --no-same-owner --no-same-permissions -x
         : > plain/dev/null; chown -hR 1000:1000 plain
         find plain -mindepth 1 -newermt 1970-01-02 -exec touch -hd @1000000000 {} +
         find tree -exec touch -hd @1000000000 {} +; find plain -exec touch -hd @1000000000 {} +",
    );
    let with_all = [
        "mkfs",
        "ext4",
        "--size",
        "16M",
        "--from-dir",
        "tree",
        "all.img",
    ];
    run(&with_all).bytes();
    let with_manifest = [
        "mkfs",
        "ext4",
        "--size",
        "fit",
        "--from-dir",
        "plain",
        "--manifest",
        "manifest",
        "plain.img",
    ];
    run(&with_manifest).bytes();
    shell(path, "e2fsck -fn plain.img");
    let listing = |image: &str| {
        let place = format!("{image}:/");
        let format = "%p %y %m %U %G %s %l\\n";
        let listed = run(&[
            "find",
            &place,
            "-path",
            "/lost+found",
            "-prune",
            "-o",
            "-printf",
            format,
        ]);
        let text = listed.text();
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.contains(" d ")).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    assert_eq!(listing("plain.img"), listing("all.img"));
    for (path_in_image, device) in [("/dev/null", "1,"), ("/dev/sda1", "8,")] {
        let place = format!("plain.img:{path_in_image}");
        let listed = run(&["ls", "-l", &place]).text();
        assert!(listed.contains(device), "{listed}");
    }
    let modes = run(&["find", "plain.img:/empty", "-printf", "%m %U %G\\n"]).text();
    assert_eq!(modes, "1777 5 5\n");

    // What the manifest names must exist.
    std::fs::write(path.join("wrong"), "./nothing type=file uid=0\n").unwrap();
    let words = [
        "mkfs",
        "ext4",
        "--size",
        "16M",
        "--from-dir",
        "plain",
        "--manifest",
        "wrong",
        "x.img",
    ];
    let (code, said) = run(&words).failure();
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("/nothing"), "{said}");
    assert!(!path.join("x.img").exists());
}

#[test]
fn an_owner_map_changes_ranges_of_owners() {
    if !have(&["e2fsck", "chown"]) || require_root().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let run = |words: &[&str]| diskfs_in(path, words);
    shell(
        path,
        "mkdir tree; echo a > tree/a; echo b > tree/b; ln tree/b tree/c
         chown 100000:100000 tree tree/a; chmod 4711 tree/a; chown 100033:100033 tree/b; chmod 4755 tree/b
         printf '100000 0 65536\n' > map; printf '100000:100000 0:0\n' > short",
    );
    let words = [
        "mkfs",
        "ext4",
        "--size",
        "16M",
        "--from-dir",
        "tree",
        "--owner-map",
        "map",
        "disk.img",
    ];
    run(&words).bytes();
    shell(path, "e2fsck -fn disk.img");
    let format = "%p %m %U:%G\\n";
    let listed = run(&["find", "disk.img:/", "-printf", format]).text();
    for line in ["/a 4711 0:0", "/b 4755 33:33", "/c 4755 33:33"] {
        assert!(listed.lines().any(|listed| listed == line), "{listed}");
    }
    let words = [
        "mkfs",
        "ext4",
        "--size",
        "16M",
        "--from-dir",
        "tree",
        "--owner-map",
        "short",
        "x.img",
    ];
    let (code, said) = run(&words).failure();
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("user 100033 is not in the owner map"),
        "{said}"
    );
    assert!(!path.join("x.img").exists());
}

#[test]
fn a_tree_that_does_not_fit_keeps_the_old_contents() {
    if !have(&["e2fsck"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let run = |words: &[&str]| diskfs_in(path, words);
    std::fs::create_dir(path.join("tree")).unwrap();
    std::fs::write(path.join("tree/large"), vec![7; 20 << 20]).unwrap();
    run(&["mkfs", "ext4", "--size", "16M", "disk.img"]).bytes();
    let before = std::fs::read(path.join("disk.img")).unwrap();
    let words = ["mkfs", "ext4", "--force", "--from-dir", "tree", "disk.img"];
    let (_, said) = run(&words).failure();
    assert!(said.contains("nothing was changed"), "{said}");
    assert!(before == std::fs::read(path.join("disk.img")).unwrap());
    // A tar that ends early is found before anything is overwritten.
    shell(path, "tar -c tree | head -c 1000000 > cut.tar");
    let words = [
        "mkfs",
        "ext4",
        "--force",
        "--from-tar",
        "cut.tar",
        "disk.img",
    ];
    run(&words).failure();
    assert!(before == std::fs::read(path.join("disk.img")).unwrap());
    // A failure that only filling finds leaves the volume empty, and says so.
    let words = [
        "mkfs",
        "ext4",
        "--force",
        "-N",
        "16",
        "--from-dir",
        "tree",
        "disk.img",
    ];
    std::fs::remove_file(path.join("tree/large")).unwrap();
    (0..200).for_each(|n| std::fs::write(path.join(format!("tree/{n}")), b"").unwrap());
    let (_, said) = run(&words).failure();
    assert!(
        said.contains("is left empty") || said.contains("nothing was changed"),
        "{said}"
    );
}
