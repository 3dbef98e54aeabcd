//! Check and repair of damaged images, compared with `qemu-img check`.

use std::path::Path;

use diskfs_image::{CheckReport, FindingKind, Image, OpenOptions, Repair, repair};
use serde_json::Value;

use crate::case::Case;
use crate::encryption::options;
use crate::hand_made::{CLUSTER, DATA, HandMade, L1, L2};
use crate::tools::{Random, converted, have_qemu, number, try_run};

const COPIED: u64 = 1 << 63;

/// The numbers of a check, in the order of the names in [`NAMES`].
type Numbers = [u64; 8];

const NAMES: [&str; 8] = [
    "leaks",
    "corruptions",
    "check-errors",
    "image-end-offset",
    "total-clusters",
    "allocated-clusters",
    "fragmented-clusters",
    "compressed-clusters",
];

fn numbers_of(report: &CheckReport) -> Numbers {
    let statistics = &report.statistics;
    [
        report.leaked_clusters,
        report.corruptions,
        report.check_errors,
        statistics.image_end_bytes,
        statistics.total_clusters,
        statistics.allocated_clusters,
        statistics.fragmented_clusters,
        statistics.compressed_clusters,
    ]
}

/// Returns the result of `qemu-img check`; `None` if it cannot check the image.
fn theirs(dir: &Path, image: &str, extra: &[&str]) -> (Option<Numbers>, String) {
    let args = [&["check", "--output=json"], extra, &[image]].concat();
    let output = try_run(dir, "qemu-img", &args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let value: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let number = |name: &str, value: &Value| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    let numbers = value.map(|value| NAMES.map(|name| number(name, &value)));
    (numbers, errors)
}

fn ours(dir: &Path, image: &str) -> diskfs_block::Result<CheckReport> {
    let opened = Image::open(&dir.join(image), &options())?;
    opened.check().map(Option::unwrap)
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .map_or(0, |word| u64::from_be_bytes(word.try_into().unwrap()))
}

fn be32(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())).unwrap()
}

fn place(entry: u64) -> usize {
    usize::try_from(entry & 0x00ff_ffff_ffff_fe00).unwrap()
}

/// Returns the words of all tables, by kind: refcount table, refcount blocks, L1, L2.
fn words_of_tables(bytes: &[u8]) -> [Vec<usize>; 4] {
    let cluster = 1_usize << be32(bytes, 20);
    let table = usize::try_from(be64(bytes, 48)).unwrap();
    let l1 = usize::try_from(be64(bytes, 40)).unwrap();
    let words = |at: usize, len: usize| (at..(at + len).min(bytes.len())).step_by(8);
    let table_words: Vec<usize> = words(table, be32(bytes, 56) * cluster).collect();
    let l1_words: Vec<usize> = words(l1, be32(bytes, 36) * 8).collect();
    let below = |entries: &[usize], len: usize| -> Vec<usize> {
        let named = entries.iter().map(|&at| place(be64(bytes, at)));
        let named = named.filter(|&at| at != 0);
        named.flat_map(|at| words(at, len)).collect()
    };
    let blocks = below(&table_words, cluster);
    let l2 = below(&l1_words, cluster);
    [table_words, blocks, l1_words, l2]
}

/// Damages an image at one place.
fn mutate(bytes: &mut [u8], r: &mut Random) -> String {
    let all = words_of_tables(bytes);
    let kind = usize::try_from(r.below(4)).unwrap();
    let words = &all[kind];
    // Most words of a table are zero, and most damage is elsewhere.
    let used: Vec<usize> = words
        .iter()
        .copied()
        .filter(|&at| be64(bytes, at) != 0)
        .collect();
    let words = if r.one_in(5) || used.is_empty() {
        words
    } else {
        &used
    };
    if words.is_empty() {
        return "nothing".to_owned();
    }
    let at = r.one_of(words);
    if at < 512 {
        // Damage may have pointed a table to the header.
        return "nothing".to_owned();
    }
    let old = be64(bytes, at);
    let cluster = 1_u64 << be32(bytes, 20);
    let len = bytes.len() as u64;
    let new = match r.below(9) {
        0 => 0,
        1 | 2 => old ^ (1 << r.below(64)),
        3 => old ^ COPIED,
        4 => be64(bytes, r.one_of(words)),
        5 => (r.below(len.div_ceil(cluster)) * cluster) | COPIED,
        6 => old + cluster,
        7 => old + 512,
        _ => len.next_multiple_of(cluster) + r.below(3) * cluster,
    };
    bytes[at..at + 8].copy_from_slice(&new.to_be_bytes());
    format!("kind {kind}, word at {at:#x}: {old:#018x} to {new:#018x}")
}

/// Returns true if QEMU counts other errors, although both find some: it follows L2 tables that do
/// not begin with a cluster, and accepts the zero flag where the specification reserves it.
fn counts_differ(case: &Case, report: &CheckReport) -> bool {
    let is_zero_reserved = case.version == 2 || case.extended_l2;
    report.findings.iter().any(|finding| match finding.kind {
        FindingKind::L1Entry => finding.reason.contains("not the offset of a cluster"),
        FindingKind::L2Entry => is_zero_reserved && finding.reason.contains("reserved bits"),
        _ => false,
    })
}

fn compare(dir: &Path, case: &Case, what: &str) -> Option<CheckReport> {
    let (expected, errors) = theirs(dir, "disk.qcow2", &[]);
    match (ours(dir, "disk.qcow2"), expected) {
        (Ok(report), Some(_)) if counts_differ(case, &report) => Some(report),
        (Ok(report), Some(expected)) => {
            assert_eq!(
                numbers_of(&report),
                expected,
                "{what}\n{NAMES:?}\n{errors}\n{:#?}",
                report.findings
            );
            Some(report)
        }
        (Err(_), None) => None,
        (ours, theirs) => panic!("{what}: {ours:?}, {theirs:?}: {errors}"),
    }
}

fn all_kinds(report: &CheckReport, is_one: impl Fn(FindingKind) -> bool) -> bool {
    report.omitted() == 0 && report.findings.iter().all(|finding| is_one(finding.kind))
}

fn is_clean(numbers: Option<Numbers>) -> bool {
    numbers.is_some_and(|numbers| numbers[..3] == [0, 0, 0])
}

/// Repairs the image, and a copy with QEMU: both must be clean and show the same disk, unless
/// damage is left that cannot be repaired.
fn repair_both(dir: &Path, before: &CheckReport, what: &str) {
    let path = dir.join("disk.qcow2");
    std::fs::copy(&path, dir.join("theirs.qcow2")).unwrap();
    let bytes = converted(dir, "disk.qcow2", &["-U"]);
    let repaired = repair(&path, Repair::All, &OpenOptions::default())
        .unwrap_or_else(|e| panic!("{what}\n{e}\n{:#?}", before.findings));
    let after = &repaired.after;
    assert_eq!(&repaired.before, before, "{what}");
    assert!(
        converted(dir, "disk.qcow2", &["-U"]) == bytes,
        "{what}: the bytes changed"
    );
    let (by_qemu, errors) = theirs(dir, "theirs.qcow2", &["-r", "all"]);
    let what = format!(
        "{what}\n{errors}\n{:#?}\nafter: {:#?}",
        before.findings, after.findings
    );
    let is_repairable = all_kinds(before, FindingKind::is_repairable);
    // A table that is also used for something else keeps its flags, as in QEMU.
    let keeps_flags = all_kinds(after, |kind| kind == FindingKind::CopiedFlag);
    if is_repairable && (is_clean(by_qemu) || !keeps_flags) {
        assert!(after.is_clean(), "{what}");
        assert!(is_clean(theirs(dir, "disk.qcow2", &[]).0), "{what}");
    } else {
        let is_left = !all_kinds(after, FindingKind::is_repairable);
        assert!(is_left || after.corruptions == 0 || keeps_flags, "{what}");
    }
    // A second repair finds nothing more to do.
    let image = std::fs::read(&path).unwrap();
    let again = repair(&path, Repair::All, &OpenOptions::default()).unwrap();
    assert_eq!(again.before, *after, "{what}");
    assert!(
        std::fs::read(&path).unwrap() == image,
        "{what}: changed again"
    );
}

#[test]
fn random_damage() {
    if !have_qemu() {
        return;
    }
    let rounds = number("DISKFS_QEMU_ROUNDS", 1);
    let seed = number("DISKFS_QEMU_SEED", 1);
    for (index, case) in Case::of_each_feature().into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        case.make(dir);
        let path = dir.join("disk.qcow2");
        let sound = std::fs::read(&path).unwrap();
        for round in seed..seed + rounds {
            let mut r = Random::new(round * 100 + index as u64);
            let mut bytes = sound.clone();
            let mut what = format!("{case:?}, round {round}");
            for _ in 0..=r.below(3) {
                what = format!("{what}\n{}", mutate(&mut bytes, &mut r));
            }
            std::fs::write(&path, &bytes).unwrap();
            if let Some(report) = compare(dir, &case, &what) {
                repair_both(dir, &report, &what);
            }
        }
    }
}

/// A damaged image by its name, the kinds of its findings, and whether a repair leaves none.
type Damage = (
    &'static str,
    fn(&mut HandMade),
    &'static [FindingKind],
    bool,
);

const REFCOUNT_TABLE: usize = CLUSTER;
const REFCOUNT_BLOCK: usize = 2 * CLUSTER;

const DAMAGE: &[Damage] = &[
    (
        "a leaked cluster",
        |image| image.set64(L2 + 16, 0),
        &[FindingKind::LeakedCluster],
        true,
    ),
    (
        "a count of zero",
        |image| image.bytes[REFCOUNT_BLOCK + 11] = 0,
        &[FindingKind::LowCount, FindingKind::CopiedFlag],
        true,
    ),
    (
        "a count that is too high",
        |image| image.bytes[REFCOUNT_BLOCK + 9] = 7,
        &[FindingKind::LeakedCluster, FindingKind::CopiedFlag],
        true,
    ),
    (
        "missing flags",
        |image| {
            image.set64(L1, L2 as u64);
            image.set64(L2, DATA as u64);
        },
        &[FindingKind::CopiedFlag, FindingKind::CopiedFlag],
        true,
    ),
    (
        "a shared cluster",
        |image| image.set64(L2 + 8, COPIED | DATA as u64),
        &[FindingKind::LowCount],
        true,
    ),
    (
        "a lost refcount block",
        |image| image.set64(REFCOUNT_TABLE, 0),
        &[],
        true,
    ),
    (
        "a refcount block that is a data cluster",
        |image| image.set64(REFCOUNT_TABLE, DATA as u64),
        &[],
        true,
    ),
    (
        "a refcount block past the end",
        |image| image.set64(REFCOUNT_TABLE, 1 << 40),
        &[],
        true,
    ),
    (
        "a refcount block off a cluster",
        |image| image.set64(REFCOUNT_TABLE, REFCOUNT_BLOCK as u64 + 512),
        &[],
        true,
    ),
    (
        "reserved bits of a refcount table entry",
        |image| image.set64(REFCOUNT_TABLE, REFCOUNT_BLOCK as u64 + 1),
        &[FindingKind::RefcountBlock, FindingKind::LeakedCluster],
        true,
    ),
    (
        "two entries with one refcount block",
        |image| image.set64(REFCOUNT_TABLE + 8, REFCOUNT_BLOCK as u64),
        &[FindingKind::RefcountBlock, FindingKind::LowCount],
        true,
    ),
    (
        "a lost refcount table",
        |image| image.set64(48, 1 << 40),
        &[],
        true,
    ),
    (
        "an L2 entry past the end",
        |image| image.set64(L2 + 8, COPIED | (1 << 40)),
        &[FindingKind::PastEnd, FindingKind::CopiedFlag],
        false,
    ),
    (
        "an L2 entry off a cluster",
        |image| image.set64(L2 + 16, COPIED | (DATA + 512) as u64),
        &[],
        false,
    ),
    (
        "reserved bits of an L2 entry",
        |image| image.set64(L2, COPIED | (1 << 56) | DATA as u64),
        &[FindingKind::L2Entry],
        false,
    ),
    (
        "reserved bits of an L1 entry",
        |image| image.set64(L1, COPIED | (1 << 57) | L2 as u64),
        &[FindingKind::L1Entry],
        false,
    ),
    (
        "an L2 table past the end",
        |image| image.set64(L1, COPIED | (1 << 40)),
        &[],
        false,
    ),
    (
        "a missing refcount block, and an entry that points to where a new one would be",
        |image| {
            image.set64(REFCOUNT_TABLE, 0);
            image.set64(L2, COPIED | (7 * CLUSTER) as u64);
        },
        &[],
        false,
    ),
];

/// Each kind of damage, also in an image that is marked dirty and corrupt.
#[test]
fn each_damage() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let path = dir.join("disk.qcow2");
    for &(what, damage, kinds, is_repaired) in DAMAGE {
        let mut image = HandMade::new();
        damage(&mut image);
        image.write(&path);
        let report = compare(dir, &Case::plain(), what).unwrap();
        let found: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
        assert!(
            kinds.is_empty() || found == kinds,
            "{what}: {:#?}",
            report.findings
        );
        for marks in [0, 3] {
            image.set64(72, marks);
            image.write(&path);
            let bytes = converted(dir, "disk.qcow2", &["-U"]);
            let repaired = repair(&path, Repair::All, &OpenOptions::default()).unwrap();
            let after = &repaired.after;
            assert_eq!(repaired.before, report, "{what}");
            assert_eq!(
                after.is_clean(),
                is_repaired,
                "{what}: {:#?}",
                after.findings
            );
            let (numbers, errors) = theirs(dir, "disk.qcow2", &[]);
            assert_eq!(is_clean(numbers), is_repaired, "{what}: {errors}");
            assert!(converted(dir, "disk.qcow2", &["-U"]) == bytes, "{what}");
            let left = std::fs::read(&path).unwrap()[79];
            let expected = if after.corruptions == 0 { 0 } else { marks };
            assert_eq!(u64::from(left), expected, "{what}: marks");
        }
    }
}

/// The repair of leaks lowers counts, and changes nothing else.
#[test]
fn leaks_only() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let path = dir.join("disk.qcow2");
    let mut image = HandMade::new();
    image.set64(L2 + 16, 0);
    image.set64(L1, L2 as u64);
    image.write(&path);
    let repaired = repair(&path, Repair::Leaks, &OpenOptions::default()).unwrap();
    assert_eq!(numbers_of(&repaired.before)[..3], [1, 1, 0]);
    assert_eq!(numbers_of(&repaired.after)[..3], [0, 1, 0]);
    image.bytes[REFCOUNT_BLOCK + 13] = 0;
    assert!(std::fs::read(&path).unwrap() == image.bytes);
    image.set64(L1, COPIED | L2 as u64);
    image.bytes[REFCOUNT_BLOCK + 13] = 1;
    image.set64(72, 2);
    image.write(&path);
    let repaired = repair(&path, Repair::Leaks, &OpenOptions::default()).unwrap();
    assert!(repaired.after.is_clean());
    assert_eq!(theirs(dir, "disk.qcow2", &[]).0.unwrap()[..3], [0, 0, 0]);
    assert_eq!(std::fs::read(&path).unwrap()[79], 0, "the corrupt bit");
}

/// While something cannot be followed, nothing is freed.
#[test]
fn nothing_is_freed_while_references_are_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.qcow2");
    let mut image = HandMade::new();
    image.set64(L1, COPIED | (L2 + 512) as u64);
    image.write(&path);
    for what in [Repair::Leaks, Repair::All] {
        let repaired = repair(&path, what, &OpenOptions::default()).unwrap();
        assert!(repaired.after.leaked_clusters >= 1, "{repaired:?}");
    }
    let bytes = std::fs::read(&path).unwrap();
    let counts = &bytes[REFCOUNT_BLOCK..REFCOUNT_BLOCK + 14];
    assert!(counts.chunks(2).all(|count| count[1] >= 1), "{counts:?}");
}

#[test]
fn raw_images_have_nothing_to_repair() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.raw");
    std::fs::write(&path, [0; 4096]).unwrap();
    let e = repair(&path, Repair::All, &OpenOptions::default()).unwrap_err();
    assert_eq!(e.kind(), diskfs_block::ErrorKind::Unsupported, "{e}");
}
