//! mkfs ext4 with a tree that is large in every direction: a file of 3 GiB, many files, many links to
//! one file, long names, and a filesystem that is nearly full.

use std::fs;
use std::path::Path;

use diskfs_fixtures::{Mount, have, require_root};

use crate::diskfs_in;

/// Makes the tree in a directory `tree`, and `tree.tar`. The first word is the number of files.
const SCRIPT: &str = r#"set -e
mkdir tree tree/links tree/names
printf first | dd of=tree/large bs=1M conv=notrunc status=none
printf middle | dd of=tree/large bs=1M seek=2100 conv=notrunc status=none
printf last | dd of=tree/large bs=1M seek=3071 conv=notrunc status=none
python3 - "$0" <<'END'
import os, sys
open("tree/links/0", "w").write("linked\n")
for nth in range(1, 64000):
    os.link("tree/links/0", "tree/links/%d" % nth)
for nth in range(100):
    open("tree/names/" + ("%03d" % nth) + "n" * 252, "w").write("x" * nth)
for nth in range(int(sys.argv[1])):
    if nth % 1000 == 0:
        directory = "tree/many-%d" % (nth // 1000)
        os.mkdir(directory)
    open("%s/%d" % (directory, nth), "w").write("%d\n" % nth)
END
tar -cf tree.tar --format=posix --sparse -C tree .
"#;

/// Prints type, mode, links, length, allocated blocks of regular files, time, link target and path.
const LIST: &str = r#"cd "$0" && find . -mindepth 1 -path ./lost+found -prune -o \
    -printf '%y %m %n %l %p ' \( -type d -printf '\n' -o -printf '%s %T@\n' \) | sort"#;

fn shell(directory: &Path, script: &str, word: &str) -> String {
    let mut command = diskfs_fixtures::command("sh");
    command.args(["-c", script, word]).current_dir(directory);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the number of files; 200,000 with `DISKFS_FORMAT_LARGE=1`.
fn files() -> &'static str {
    match std::env::var_os("DISKFS_FORMAT_LARGE") {
        Some(_) => "200000",
        None => "2000",
    }
}

#[test]
fn a_large_tree_becomes_a_filesystem() {
    if !have(&["e2fsck", "python3", "tar", "find"]) || require_root().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    shell(path, SCRIPT, files());
    let expected = shell(path, LIST, "tree");
    for source in [["--from-tar", "tree.tar"], ["--from-dir", "tree"]] {
        let head = ["mkfs", "ext4", "--force", "--size", "fit"];
        diskfs_in(path, &[&head[..], &source, &["image.raw"]].concat()).bytes();
        shell(path, "e2fsck -fn \"$0\"", "image.raw");
        let mount = Mount::of_image(&path.join("image.raw"), "ro").unwrap();
        let root = mount.path().to_str().unwrap().to_owned();
        let found = shell(path, LIST, &root);
        let difference = expected.lines().zip(found.lines()).find(|(a, b)| a != b);
        assert!(found == expected, "{source:?}: {difference:?}");
        shell(path, "cmp tree/large \"$0/large\"", &root);
        let allocated = std::os::unix::fs::MetadataExt::blocks(
            &fs::metadata(mount.path().join("large")).unwrap(),
        );
        assert!(
            allocated < 8192,
            "{allocated} sectors for three pieces of data"
        );
        mount.unmount().unwrap();
    }
}

#[test]
fn a_filesystem_is_filled_to_the_last_percent() {
    if !have(&["e2fsck", "dumpe2fs"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::create_dir(path.join("tree")).unwrap();
    for nth in 0..118_u8 {
        fs::write(path.join(format!("tree/{nth}")), vec![nth; 1 << 20]).unwrap();
    }
    let words =
        "mkfs ext4 -O ^has_journal -b 4096 -m 0 -N 256 --size 120M --from-dir tree image.raw";
    let words: Vec<&str> = words.split(' ').collect();
    diskfs_in(path, &words).bytes();
    shell(path, "e2fsck -fn \"$0\"", "image.raw");
    let counts = shell(path, "dumpe2fs -h \"$0\" 2>&1", "image.raw");
    let count = |name: &str| {
        let line = counts.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let (all, free) = (count("Block count:"), count("Free blocks:"));
    assert!(free * 50 < all, "{free} of {all} blocks are free");
}
