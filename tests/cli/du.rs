//! du, compared with du(1) on the kernel's mount of the same image.

use std::path::Path;
use std::process::Command;

use diskfs_fixtures::{Mount, image, require_root};
use serde_json::json;

use crate::{diskfs, text_of};

/// The images, each with another way of allocating: bigalloc, holes, attributes in separate inodes,
/// many directories, inline data.
const IMAGES: [&str; 7] = [
    "ext4-default",
    "ext4-bigalloc",
    "ext4-sparse",
    "ext4-ea-inode",
    "ext4-directories",
    "ext4-inline-data",
    "ext3",
];

/// Returns the lines of du(1) in `directory`, sorted, because du(1) lists names in the directory's
/// order.
fn du(directory: &Path, words: &[&str]) -> Vec<Vec<u8>> {
    let output = Command::new("du")
        .args(words)
        .current_dir(directory)
        .env("LC_ALL", "C")
        .output()
        .expect("start du");
    assert!(output.status.success(), "{words:?}: {output:?}");
    lines(&output.stdout)
}

/// Splits output into lines, with the path after the dot that du(1) got. A name with a newline
/// makes two lines.
fn lines(output: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = output
        .split(|byte| *byte == b'\n')
        .map(|line| match line.strip_suffix(b"\t/") {
            Some(figure) => [figure, b"\t."].concat(),
            None => match line.iter().position(|byte| *byte == b'\t') {
                Some(tab) if line.get(tab + 1) == Some(&b'/') => {
                    [&line[..=tab], b".", &line[tab + 1..]].concat()
                }
                _ => line.to_vec(),
            },
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn du_prints_what_du_prints_of_the_mount() {
    if require_root().is_none() {
        return;
    }
    for name in IMAGES {
        let image = image(name);
        let mount = Mount::of_image(&image.path(), "ro,noload").expect("mount with the kernel");
        for words in [
            // The order of names decides in which directory a file with several names counts.
            &["-s"][..],
            &["-s", "--inodes"],
            &["-l"],
            &["-la"],
            &["-lc", "-d", "1"],
            &["-la", "--max-depth=2", "-h"],
            &["-lak"],
            &["-lhk"],
            &["-lkh"],
            &["-lS"],
            &["-la", "--inodes"],
            &["-lS", "--inodes"],
            &["-lax", "--exclude", "size-*"],
            &["-la", "--exclude", "d*y"],
        ] {
            let ours = diskfs(&image, &[&["du", name], words].concat());
            let theirs = du(mount.path(), words);
            assert!(theirs.len() > 1, "{name} {words:?}");
            assert_eq!(lines(ours.bytes()), theirs, "{name} {words:?}");
        }
        let sizes = diskfs(&image, &["du", "-b", name]);
        assert_eq!(lines(sizes.bytes()), apparent(mount.path()), "{name}");
    }
}

/// Computes from find(1) what `du -b` prints from coreutils 9.2 on, which ignores the sizes of all
/// but files and symlinks; older versions are still in use.
fn apparent(root: &Path) -> Vec<Vec<u8>> {
    let list = Command::new("find")
        .args([".", "-printf", "%y %i %s %p\\0"])
        .current_dir(root)
        .output()
        .expect("start find");
    let mut seen = std::collections::HashSet::new();
    let mut sums = std::collections::BTreeMap::<Vec<u8>, u64>::new();
    let mut entries: Vec<Vec<&[u8]>> = list
        .stdout
        .split(|byte| *byte == 0)
        .filter(|entry| !entry.is_empty())
        .map(|entry| entry.splitn(4, |byte| *byte == b' ').collect())
        .collect();
    // A file with several names counts in the directory of the first one.
    entries.sort_by(|a, b| components(a[3]).cmp(&components(b[3])));
    for entry in entries {
        let [kind, inode, size, path] = entry[..] else {
            panic!("find prints four fields");
        };
        if kind == b"d" {
            sums.insert(path.to_vec(), 0);
        } else if (kind == b"f" || kind == b"l") && seen.insert(inode.to_vec()) {
            let size: u64 = std::str::from_utf8(size).unwrap().parse().unwrap();
            for (end, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                *sums.get_mut(&path[..end]).expect("a directory comes first") += size;
            }
        }
    }
    let line = |(path, sum): (Vec<u8>, u64)| [sum.to_string().as_bytes(), b"\t", &path].concat();
    let mut lines: Vec<Vec<u8>> = sums.into_iter().map(line).chain([Vec::new()]).collect();
    lines.sort();
    lines
}

fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/').collect()
}

#[test]
fn du_counts_across_operands_and_says_where() {
    let image = image("ext4-default");
    let hardlinks = diskfs(&image, &["du", "-a", "ext4-default:/hardlinks"]).text();
    let names: Vec<&str> = hardlinks
        .lines()
        .map(|line| line.split_once('\t').unwrap().1)
        .collect();
    assert!(
        names.is_sorted_by(|a, b| a.starts_with(b) || a < b),
        "{names:?}"
    );
    assert_eq!(names.last(), Some(&"/hardlinks"));
    // A file that was counted before isn't counted again, as with du(1).
    let twice = diskfs(
        &image,
        &["du", "-sc", "ext4-default:/directory", "/directory"],
    )
    .text();
    assert_eq!(twice.lines().count(), 2, "{twice}");
    let json = diskfs(
        &image,
        &[
            "du",
            "--json",
            "-d",
            "0",
            "ext4-default",
            "ext4-default:/directory",
        ],
    );
    let json = json.json();
    let entries = json["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "the second path is inside the first");
    assert_eq!(text_of(&entries[0]["path"]), "/");
    assert_eq!(
        entries[0]["allocated_bytes"],
        json["total"]["allocated_bytes"]
    );
    assert_eq!(entries[0]["depth"], json!(0));
    std::fs::copy(image.path(), image.directory().join("other")).unwrap();
    let both = diskfs(&image, &["du", "-s", "ext4-default", "other:/directory"]).text();
    assert!(
        both.contains("\text4-default:/\n") && both.ends_with("\tother:/directory\n"),
        "{both}"
    );
}

#[test]
fn du_goes_on_behind_what_is_not_there() {
    let demo = image("demo.qcow2");
    let run = diskfs(&demo, &["du", "-s", "demo.qcow2:/nowhere", "/etc"]);
    let (code, error) = run.failure();
    assert_eq!(code, 3);
    assert!(error.contains("/nowhere"), "{error}");
    assert!(String::from_utf8_lossy(&run.output.stdout).ends_with("\t/etc\n"));
    assert_eq!(diskfs(&demo, &["du", "-sa", "demo.qcow2"]).failure().0, 2);
}

#[test]
fn a_tree_has_the_figures_of_du_and_the_largest_first() {
    let name = "ext4-directories";
    let image = image(name);
    let plain = diskfs(&image, &["du", "-k", "-d", "1", name]).text();
    let mut figures: Vec<u64> = plain
        .lines()
        .map(|line| line.split('\t').next().unwrap().parse().unwrap())
        .collect();
    figures.sort_unstable_by(|a, b| b.cmp(a));
    let tree = diskfs(&image, &["du", "--tree", "-k", "-d", "1", name]).text();
    let of_line = |line: &str| line.split_whitespace().next().unwrap().parse().unwrap();
    let drawn: Vec<u64> = tree.lines().map(of_line).collect();
    // At most 16 entries have a line of their own.
    let own = drawn.len().min(17);
    assert_eq!(drawn[..own], figures[..own], "{tree}");
    let others: u64 = figures[own..].iter().sum();
    assert_eq!(drawn.get(own).copied().unwrap_or(0), others, "{tree}");
    assert!(tree.lines().next().unwrap().ends_with(" /"), "{tree}");
}
