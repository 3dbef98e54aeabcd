//! The images of e2fsprogs' own tests, judged by e2fsck and by the check. `DISKFS_E2FSPROGS` names
//! a directory with the sources of e2fsprogs, which are not part of this repository:
//!
//! ```sh
//! DISKFS_E2FSPROGS=dir cargo test -p diskfs-ext4 --test check e2fsprogs -- --nocapture
//! ```
//!
//! Each test `tests/f_*` is run with a script in place of e2fsck, which keeps a copy of each image
//! before the real e2fsck gets it. So images that a test makes or prepares are compared, too, and
//! those that e2fsck has repaired.

#![expect(clippy::print_stdout, reason = "the comparison is the result")]

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use diskfs_ext4::{CheckReport, Finding, FindingKind};
use diskfs_fixtures::have;

use crate::image::{check_file, lines};

/// Tests that are left out, with the reason.
const LEFT_OUT: [(&str, &str); 5] = [
    (
        "f_bad_local_jnl",
        "gives e2fsck the device of an external journal",
    ),
    ("f_large_dir", "creates 65,000 directories with debugfs"),
    (
        "f_large_dir_csum",
        "creates 46,000 directories with debugfs",
    ),
    ("f_mmp", "looks for processes by their command lines"),
    ("f_mke2fs_baddisk", "needs a device-mapper device"),
];

/// Output of e2fsck about what is not an inconsistency, with the reason.
const IGNORED: [(&str, &str); 4] = [
    (
        "Superblock last ",
        "the clock that wrote the times does not matter",
    ),
    (
        "is in the future",
        "the clock that wrote the times does not matter",
    ),
    ("Optimize? no", "a suggestion"),
    ("likely pre-1970", "a suggestion: the times are valid"),
];

/// Output of e2fsck about counts of the superblock, which are out of date until the kernel unmounts.
const COUNTS: [&str; 2] = ["blocks count wrong (", "inodes count wrong ("];

/// Images about which e2fsck and the check disagree, with the reason. Without the number, all images
/// of a test.
const DIFFERENT: [(&str, &str); 12] = [
    (
        "f_bigalloc_orphan_list.1",
        "e2fsck does not read the orphan list if it may not write",
    ),
    (
        "f_inlinedata_repair.2",
        "e2fsck does not look at the attribute block of a symlink with inline data",
    ),
    (
        "f_jnl_errno.1",
        "e2fsck fails to clear the error that the journal's superblock records; here it is a note",
    ),
    (
        "f_ext_journal",
        "e2fsck needs the device of the external journal; here it is a note",
    ),
    (
        "f_orphan.1",
        "an orphan that recovery will delete is in use here, and a note counts it",
    ),
    (
        "f_orphquot.1",
        "an orphan that recovery will delete is in use here, and a note counts it",
    ),
    (
        "f_clear_orphan_file",
        "an older e2fsck empties the orphan file wrongly when it replays the journal",
    ),
    (
        "f_bad_fname",
        "an older e2fsck accepts the flag of values in a directory",
    ),
    (
        "f_ea_inode_dir_ref",
        "an older e2fsck accepts a name of an inode with an attribute value",
    ),
    (
        "f_ea_inode_no_feature",
        "an older e2fsck accepts values in inodes without the feature",
    ),
    (
        "f_ea_inode_",
        "an older e2fsck accepts the flag of values in a directory, and none in a symlink",
    ),
    (
        "f_ea_zero_size",
        "an older e2fsck accepts a value of 0 bytes in an inode",
    ),
];

/// A structure of a filesystem, as precisely as both name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Filesystem,
    Journal,
    Bitmap,
    Quota,
    Group(u64),
    Inode(u64),
}

/// The comparison of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Agreement {
    Clean,
    /// Both find the same structure first.
    SameFirst,
    /// The structure that e2fsck finds first is not the first one here.
    OtherOrder,
    /// Both find something, but not the same structure.
    OtherStructure,
    /// Only e2fsck finds something.
    Missed,
    /// Only the check finds something.
    OnlyHere,
    /// A difference with a known reason.
    Known,
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[test]
fn e2fsprogs() {
    let Some(sources) = std::env::var_os("DISKFS_E2FSPROGS") else {
        // The test harness hides the output of eprintln!.
        let reason = "DISKFS_E2FSPROGS does not name the sources of e2fsprogs";
        let _ = writeln!(std::io::stderr(), "SKIP: e2fsprogs: {reason}");
        return;
    };
    if !have(&["e2fsck", "mke2fs", "debugfs", "tune2fs", "gzip", "bzip2"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let images = collect_images(&PathBuf::from(sources).join("tests"), dir.path());
    assert!(images.len() > 100, "{} images", images.len());
    let mut totals = BTreeMap::new();
    let mut problems = Vec::new();
    for image in &images {
        let name = image.file_stem().unwrap().to_str().unwrap();
        let (agreement, text) = compare(image);
        let is_known = DIFFERENT.iter().any(|(known, _)| name.starts_with(known));
        let agreement = match agreement {
            Agreement::Missed | Agreement::OnlyHere | Agreement::OtherStructure if is_known => {
                Agreement::Known
            }
            other => other,
        };
        if agreement > Agreement::SameFirst {
            println!("{name}: {agreement}\n{text}");
        }
        if matches!(
            agreement,
            Agreement::Missed | Agreement::OnlyHere | Agreement::OtherStructure
        ) {
            problems.push(format!("{name}: {agreement}\n{text}"));
        }
        *totals.entry(agreement).or_insert(0) += 1;
    }
    println!("{} images: {totals:?}", images.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Runs the tests, and returns the images that they gave to e2fsck, in order.
fn collect_images(tests: &Path, dir: &Path) -> Vec<PathBuf> {
    let kept = dir.join("images");
    for folder in [
        "images", "e2fsck", "misc", "debugfs", "resize", "tests", "lib",
    ] {
        fs::create_dir(dir.join(folder)).unwrap();
    }
    make_e2fsck(&dir.join("e2fsck/e2fsck"), &kept);
    for (place, program) in [
        ("misc", "mke2fs"),
        ("misc", "tune2fs"),
        ("misc", "dumpe2fs"),
        ("misc", "e2image"),
        ("misc", "chattr"),
        ("misc", "lsattr"),
        ("debugfs", "debugfs"),
        ("resize", "resize2fs"),
    ] {
        if let Some(found) = which(program) {
            symlink(found, dir.join(place).join(program)).unwrap();
        }
    }
    fs::copy(tests.join("mke2fs.conf.in"), dir.join("tests/mke2fs.conf")).unwrap();
    fs::write(dir.join("lib/config.h"), "").unwrap();
    let mut names: Vec<_> = fs::read_dir(tests)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("f_"))
        .collect();
    names.sort_unstable();
    for name in names {
        if let Some((_, reason)) = LEFT_OUT.iter().find(|(left_out, _)| *left_out == name) {
            println!("left out {name}: it {reason}");
            continue;
        }
        run_test(tests, dir, &name);
    }
    let mut images: Vec<PathBuf> = fs::read_dir(kept)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    images.sort_unstable();
    images
}

/// Creates the script in place of e2fsck: it keeps the first four images of a test, unless they are
/// large.
fn make_e2fsck(script: &Path, kept: &Path) {
    let real = which("e2fsck").unwrap();
    let text = format!(
        "#!/bin/sh\n\
         for image in \"$@\"; do :; done\n\
         for arg in \"$@\"; do [ -f \"$arg\" ] && image=$arg; done\n\
         if [ -f \"$image\" ] && [ $(stat -c %b \"$image\") -lt 400000 ]; then\n\
         for n in 1 2 3 4; do\n\
         kept={}/$TEST_NAME.$n.img\n\
         [ -e $kept ] || {{ cp --sparse=always \"$image\" $kept; break; }}\n\
         done\nfi\n\
         exec {} \"$@\"\n",
        kept.display(),
        real.display()
    );
    fs::write(script, text).unwrap();
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
}

fn which(program: &str) -> Option<PathBuf> {
    let path = search_path();
    let files = std::env::split_paths(&path).map(|place| place.join(program));
    files.into_iter().find(|file| file.exists())
}

fn search_path() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path);
    std::env::join_paths(places.chain(["/usr/sbin", "/sbin"].map(PathBuf::from))).unwrap()
}

/// Runs a test. Its result does not matter: it compares texts of another version of e2fsck.
fn run_test(tests: &Path, dir: &Path, name: &str) {
    let script = r"
        test_dir=$SRCDIR/$TEST_NAME; cmd_dir=$SRCDIR; test_name=$TEST_NAME
        test_description=$TEST_NAME; HTREE=y
        . $SRCDIR/test_config
        TMPFILE=$WORK/$TEST_NAME.tmp; : > $TMPFILE
        script=$test_dir/script; [ -f $script ] || script=$SRCDIR/defaults/f_script
        . $script
        rm -f $TMPFILE
    ";
    let status = Command::new("timeout")
        .args(["60", "bash", "-c", script])
        .current_dir(dir.join("tests"))
        .env("SRCDIR", tests)
        .env("TEST_NAME", name)
        .env("WORK", dir)
        .env("TMPDIR", dir)
        .env("DD", "dd")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    if status.code() == Some(124) {
        println!("{name}: stopped after 60 s");
    }
}

/// Compares the findings about an image. Returns the texts, too.
fn compare(image: &Path) -> (Agreement, String) {
    let report = check_file(image);
    let mut text = e2fsck_text(image);
    let is_journal = |finding: &Finding| finding.kind == FindingKind::Journal;
    let mut counts_matter = true;
    if text.contains("skipping journal recovery") && !report.findings.iter().any(is_journal) {
        text = after_recovery(image);
        counts_matter = false;
    }
    let is_count = |line: &&str| COUNTS.iter().any(|part| line.contains(part));
    let complaints: Vec<_> = complaints(&text)
        .into_iter()
        .filter(|line| counts_matter || !is_count(line))
        .collect();
    let agreement = match (complaints.first(), report.findings.first()) {
        (None, None) => Agreement::Clean,
        (None, Some(_)) => Agreement::OnlyHere,
        (Some(_), None) => Agreement::Missed,
        (Some(theirs), Some(_)) => agreement(theirs, &report),
    };
    let theirs = complaints.join("\n    ");
    let ours = lines(&report).replace('\n', "\n    ");
    (
        agreement,
        format!("  e2fsck:\n    {theirs}\n  here:\n    {ours}"),
    )
}

/// Returns the first lines of what e2fsck says. It tries to write to some images, and repeats that
/// for a long time.
fn e2fsck_text(image: &Path) -> String {
    const LINES: usize = 200;
    let output = Command::new("timeout")
        .args(["10", "e2fsck", "-f", "-n"])
        .arg(image)
        .env("PATH", search_path())
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|text| {
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().take(LINES).collect::<Vec<_>>().join("\n")
    });
    text.join("\n")
}

/// Returns the output of e2fsck about a copy whose journal it has replayed.
fn after_recovery(image: &Path) -> String {
    let copy = image.with_extension("recovered");
    fs::copy(image, &copy).unwrap();
    let _ = diskfs_fixtures::command("e2fsck")
        .args(["-y", "-E", "journal_only"])
        .arg(&copy)
        .output()
        .unwrap();
    let text = e2fsck_text(&copy);
    fs::remove_file(copy).unwrap();
    text
}

/// Returns the lines of e2fsck that name a problem.
fn complaints(text: &str) -> Vec<&str> {
    /// Lines that introduce a prompt or report what e2fsck does.
    const OTHER: [&str; 11] = [
        "e2fsck 1.",
        "Pass ",
        "Warning",
        "Running additional",
        "MMP",
        "Fix? no",
        "Clear? no",
        "Setting ",
        "Trying to load",
        "\tnow = ",
        "    ",
    ];
    let is_other = |line: &str| {
        OTHER.iter().any(|start| line.starts_with(start))
            || line.contains("*****")
            || (line.starts_with("Duplicate entry") && line.ends_with("' found."))
            || (line.contains(" files (") && line.ends_with(" blocks"))
            || IGNORED.iter().any(|(part, _)| line.contains(part))
    };
    let lines = text.lines().map(str::trim_end);
    lines
        .filter(|line| !line.is_empty() && !is_other(line))
        .collect()
}

fn agreement(theirs: &str, report: &CheckReport) -> Agreement {
    let theirs = broken_of_line(theirs);
    let ours: Vec<_> = report.findings.iter().map(broken_of_finding).collect();
    if matches(theirs, ours[0]) {
        Agreement::SameFirst
    } else if ours.iter().any(|&ours| matches(theirs, ours)) {
        Agreement::OtherOrder
    } else {
        Agreement::OtherStructure
    }
}

fn matches(theirs: Broken, ours: Broken) -> bool {
    match (theirs, ours) {
        // e2fsck names the first group with a wrong checksum only in the next line.
        (Broken::Bitmap | Broken::Filesystem, Broken::Group(_))
        | (Broken::Journal, Broken::Inode(8))
        | (Broken::Inode(8), Broken::Journal) => true,
        (theirs, ours) => theirs == ours,
    }
}

fn broken_of_finding(finding: &Finding) -> Broken {
    let place = &finding.place;
    match (finding.kind, place.inode, place.group) {
        (FindingKind::Journal, ..) => Broken::Journal,
        (FindingKind::Quota, ..) => Broken::Quota,
        (_, Some(inode), _) => Broken::Inode(inode.into()),
        (_, None, Some(group)) => Broken::Group(group.into()),
        _ => Broken::Filesystem,
    }
}

/// Returns the structure that a line of e2fsck names.
fn broken_of_line(line: &str) -> Broken {
    let lower = line.to_lowercase();
    for (before, inode) in [
        ("resize inode", 7),
        ("root inode", 2),
        ("bad block inode", 1),
        ("bad blocks inode", 1),
        ("bad block list", 1),
    ] {
        if lower.contains(before) {
            return Broken::Inode(inode);
        }
    }
    let of_superblock = ["superblock has_journal", "invalid user quota inode"];
    if of_superblock.iter().any(|start| lower.starts_with(start)) {
        return Broken::Filesystem;
    }
    if lower.starts_with("update quota info") {
        return Broken::Quota;
    }
    if lower.starts_with("journal inode is not in use") {
        return Broken::Inode(8);
    }
    if lower.contains("journal") {
        return Broken::Journal;
    }
    // "Entry 'x' in /dir (12) ...", "'..' in /dir (12) is ...".
    if lower.starts_with("entry") || lower.starts_with("encrypted entry") || line.starts_with('\'')
    {
        let directory = line.split_once(" in ").map_or("", |(_, rest)| rest);
        if let Some(inode) = directory
            .split_once(" (")
            .and_then(|(_, rest)| number(rest))
        {
            return Broken::Inode(inode);
        }
    }
    if let Some((_, directory)) = line.split_once("Marking ") {
        let inode = directory
            .rsplit_once(" (")
            .and_then(|(_, rest)| number(rest));
        return inode.map_or(Broken::Filesystem, Broken::Inode);
    }
    for before in ["inode #", "inode ", "fast symlink "] {
        for (at, _) in lower.match_indices(before) {
            if let Some(inode) = number(&lower[at + before.len()..]) {
                return Broken::Inode(inode);
            }
        }
    }
    if lower.contains("differences") || lower.contains("padding") {
        return Broken::Bitmap;
    }
    for before in ["group descriptor ", "for group #", "group "] {
        let rest = lower.split_once(before).map(|(_, rest)| rest);
        if let Some(group) = rest.and_then(number) {
            return Broken::Group(group);
        }
    }
    Broken::Filesystem
}

/// Returns the number at the start of a text.
fn number(text: &str) -> Option<u64> {
    let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}
