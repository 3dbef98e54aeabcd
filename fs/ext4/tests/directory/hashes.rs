//! Names with equal hashes, and names without regard to case.

use diskfs_fixtures::have;
use diskfs_vfs::{FsRead, FsWrite, NewAttributes, NewKind};

use crate::common::{debugfs, e2fsck, mke2fs_empty, open, open_for_writing, run};
use crate::model::{Model, Random};

/// After 232 times `x` these make names with the same legacy hash, whatever the seed: three of them
/// fill a block of 1 KiB.
const COLLIDING: [&str; 24] = [
    "eJ000dKf", "3T000m9n", "YQC00IuL", "EzC00B7f", "XfD00RFo", "hrF00AYc", "lWG00kwq", "48K003vM",
    "jlK00rgV", "g6L00TeN", "7BL00aKv", "5jN00H8q", "4pN006X8", "OxN00OHD", "UBO00Gk8", "yEP00UJC",
    "fIP00TSP", "j3S00Q2d", "nhU00avs", "UCZ00B7H", "fPa005rl", "tVb001Ok", "C1j00Jru", "sfl00gmD",
];

#[test]
fn names_that_collide_go_on_from_leaf_to_leaf() {
    if !have(&["mke2fs", "tune2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-t ext4 -b 1024", "24M");
    run(
        "tune2fs",
        &["-E", "hash_alg=legacy", image.to_str().unwrap()],
    );
    let fs = open_for_writing(&image);
    let mut model = Model::new(&fs, 11);
    let names = COLLIDING.map(|end| format!("{}{end}", "x".repeat(232)).into_bytes());
    for _ in 0..60 {
        model.add(&fs);
    }
    for name in &names {
        fs.link(model.files[1], model.dir, name).unwrap();
        model.names.insert(name.clone(), 1);
        model.compare(&fs, "collisions");
    }
    for _ in 0..60 {
        model.add(&fs);
    }
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
    model.compare(&open(&image), "collisions");
    model.take_turns(&image, 40, "collisions");

    let fs = open_for_writing(&image);
    for name in names.iter().step_by(2) {
        // The kernel may have removed it.
        if model.names.remove(name).is_some() {
            fs.unlink(model.dir, name).unwrap();
        }
        model.compare(&fs, "collisions");
    }
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
}

/// Returns random letters: some have two cases, and some consist of several characters.
fn some_letters(random: &mut Random, n: usize) -> String {
    const LETTERS: [&str; 12] = [
        "a",
        "B",
        "\u{e9}",
        "E\u{301}",
        "\u{df}",
        "\u{130}",
        "\u{3a3}",
        "\u{fb01}",
        "\u{1e9e}",
        "\u{ac01}",
        "\u{4e16}",
        "o\u{323}\u{302}",
    ];
    let letters = (0..=random.below(40)).map(|_| LETTERS[random.below(LETTERS.len())]);
    format!("{}{n}", letters.collect::<String>())
        .chars()
        .take(80)
        .collect()
}

#[test]
fn indexed_directories_without_regard_to_case() {
    if !have(&["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let args = "-t ext4 -b 1024 -O casefold -E encoding=utf8";
    let image = mke2fs_empty(dir.path(), args, "48M");
    let fs = open_for_writing(&image);
    let attributes = NewAttributes::for_root(0o755);
    let folded = fs
        .create(fs.root(), b"dir", NewKind::Directory, &attributes)
        .unwrap();
    let file = fs
        .create(fs.root(), b"file", NewKind::Regular, &attributes)
        .unwrap();
    fs.close().unwrap();
    drop(fs);
    debugfs(&image, &["sif /dir flags 0x40080000"]);

    let fs = open_for_writing(&image);
    assert!(fs.metadata(folded).unwrap().flags.casefold);
    let mut random = Random(3);
    let names: Vec<String> = (0..1000).map(|n| some_letters(&mut random, n)).collect();
    for (n, name) in names.iter().enumerate() {
        if fs.lookup(folded, name.as_bytes()).is_err() {
            fs.link(file, folded, name.as_bytes()).unwrap();
        }
        let other = &names[random.below(n + 1)];
        assert_eq!(
            fs.lookup(folded, other.as_bytes()).unwrap(),
            file,
            "{other}"
        );
        let upper = other.to_ascii_uppercase();
        assert_eq!(
            fs.lookup(folded, upper.as_bytes()).unwrap(),
            file,
            "{upper}"
        );
    }
    for name in names.iter().step_by(3) {
        // Two names may differ only in case.
        if fs.lookup(folded, name.as_bytes()).is_ok() {
            fs.unlink(folded, name.as_bytes()).unwrap();
        }
    }
    let listed = fs.read_dir(folded, 0).unwrap().count();
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
    assert_eq!(open(&image).read_dir(folded, 0).unwrap().count(), listed);
}
