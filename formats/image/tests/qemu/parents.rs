//! Differencing disks, and the logs of VHDX: made by hand, because qemu-img makes none.

use std::fs::FileTimes;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use diskfs_block::ErrorKind;
use diskfs_image::{Format, Gate, Image, OpenOptions, StaleBase};

use crate::hand_made_vhd::{HandMadeVhd, VhdParent};
use crate::hand_made_vhdx::{HandMadeVhdx, LogEntry};
use crate::mapped::compare_bytes;
use crate::tools::{Random, converted, have_qemu, run};

/// Seconds from 1970 to 2000.
const EPOCH: u64 = 946_684_800;

fn open(path: &Path) -> diskfs_block::Result<Image> {
    Image::open(path, &OpenOptions::default())
}

fn relative(name: &str) -> Vec<([u8; 4], String)> {
    vec![
        (*b"W2ku", format!(r"C:\elsewhere\{name}")),
        (*b"W2ru", format!(r".\{name}")),
    ]
}

fn parent(id: u8, locators: Vec<([u8; 4], String)>) -> VhdParent {
    VhdParent {
        id: [id; 16],
        time: 0,
        locators,
    }
}

fn linkage(id: u8) -> String {
    let byte = format!("{id:02X}");
    let part = |n: usize| byte.repeat(n);
    format!(
        "{{{}-{}-{}-{}-{}}}",
        part(4),
        part(2),
        part(2),
        part(2),
        part(6)
    )
}

fn vhdx_parent(id: u8, path: &str) -> Vec<(&'static str, String)> {
    vec![
        ("absolute_win32_path", r"\\?\C:\elsewhere\x.vhdx".to_owned()),
        ("parent_linkage", linkage(id)),
        ("relative_path", path.to_owned()),
    ]
}

/// Writes random sectors of the same contents to a disk and to the model of it.
fn random_writes(
    model: &mut [u8],
    sectors: usize,
    count: usize,
    r: &mut Random,
    mut write: impl FnMut(usize, u8),
) {
    for _ in 0..count {
        let sector = usize::try_from(r.below(sectors as u64)).unwrap();
        let fill = u8::try_from(r.below(255) + 1).unwrap();
        write(sector, fill);
        model[sector * 512..][..512].fill(fill);
    }
}

fn compare_chain(path: &Path, model: &[u8], depth: usize) {
    let image = open(path).unwrap();
    compare_bytes(image.device().as_ref(), model, 3, "chain");
    let mut description = image.description();
    for _ in 1..depth {
        description = description.backing.as_deref().unwrap();
    }
    assert!(description.backing.is_none());
    let deepest = image.map().map(|entry| entry.unwrap().depth).max().unwrap();
    assert_eq!(usize::try_from(deepest).unwrap(), depth - 1);
}

#[test]
fn a_chain_of_vhds() {
    let dir = tempfile::tempdir().unwrap();
    let mut r = Random::new(1);
    let (size, sectors) = (300 << 10, 600);
    let mut model = vec![0; size];
    for (n, name) in ["a.vhd", "b.vhd", "c.vhd"].iter().enumerate() {
        let id = u8::try_from(n).unwrap() + 1;
        let below = ["", "a.vhd", "b.vhd"][n];
        let parent = (n > 0).then(|| parent(id - 1, relative(below)));
        let mut vhd = HandMadeVhd::new(size, id, parent);
        random_writes(&mut model, sectors, 100, &mut r, |at, fill| {
            vhd.write(at, fill);
        });
        std::fs::write(dir.path().join(name), vhd.build()).unwrap();
        compare_chain(&dir.path().join(name), &model, n + 1);
    }
    let details = open(&dir.path().join("c.vhd")).unwrap();
    let details = details.description().mapped.clone().unwrap();
    assert_eq!(details.variant.as_deref(), Some("differencing"));
    assert_eq!(details.parent_name.as_deref(), Some(r".\b.vhd"));
}

/// The parent of a VHD can be a fixed one, which is never probed otherwise, and shorter.
#[test]
fn a_fixed_and_shorter_parent() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let args = [
        "create",
        "-q",
        "-f",
        "vpc",
        "-o",
        "subformat=fixed,force_size=on",
        "a.vhd",
        "100K",
    ];
    run(dir.path(), "qemu-img", &args);
    let mut fixed = std::fs::read(path("a.vhd")).unwrap();
    fixed[..100 << 10].fill(6);
    std::fs::write(path("a.vhd"), &fixed).unwrap();
    let mut child = HandMadeVhd::new(200 << 10, 9, None);
    let footer = fixed.len() - 512;
    let id = fixed[footer + 68..footer + 84].try_into().unwrap();
    child.parent = Some(VhdParent {
        id,
        time: 0,
        // Only the name of an absolute path is used.
        locators: vec![(*b"W2ku", r"D:\vm\a.vhd".to_owned())],
    });
    child.write(1, 1);
    std::fs::write(path("b.vhd"), child.build()).unwrap();
    let mut model = vec![6; 100 << 10];
    model.resize(200 << 10, 0);
    model[512..1024].fill(1);
    compare_chain(&path("b.vhd"), &model, 2);
}

#[test]
fn a_chain_of_vhdxs() {
    let dir = tempfile::tempdir().unwrap();
    let mut r = Random::new(2);
    let (size, sectors) = (6 << 20, 12 << 10);
    let mut model = vec![0; size];
    for (n, name) in ["a.vhdx", "b.vhdx", "c.vhdx"].iter().enumerate() {
        let id = u8::try_from(n).unwrap() + 1;
        let below = ["", r".\a.vhdx", "b.vhdx"][n];
        let parent = (n > 0).then(|| vhdx_parent(id - 1, below));
        let mut vhdx = HandMadeVhdx::new(size, id, parent);
        // The last block is never written.
        random_writes(&mut model, sectors - 2048, 150, &mut r, |at, fill| {
            vhdx.write(at, fill);
        });
        std::fs::write(dir.path().join(name), vhdx.build()).unwrap();
        compare_chain(&dir.path().join(name), &model, n + 1);
    }
}

#[test]
fn a_parent_that_has_changed_is_stale() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("a.vhd"), HandMadeVhd::new(8192, 1, None).build()).unwrap();
    let mut other = HandMadeVhd::new(8192, 5, Some(parent(2, relative("a.vhd"))));
    std::fs::write(path("b.vhd"), other.build()).unwrap();
    std::fs::write(path("a.vhdx"), HandMadeVhdx::new(1 << 20, 1, None).build()).unwrap();
    let child = HandMadeVhdx::new(1 << 20, 5, Some(vhdx_parent(2, "a.vhdx")));
    std::fs::write(path("b.vhdx"), child.build()).unwrap();
    // The right identifier, and a time before the last change.
    other.parent.as_mut().unwrap().id = [1; 16];
    other.parent.as_mut().unwrap().time = 1000;
    std::fs::write(path("c.vhd"), other.build()).unwrap();
    for name in ["b.vhd", "b.vhdx", "c.vhd"] {
        let e = open(&path(name)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Denied, "{e}");
        assert!(
            e.to_string()
                .contains("the overlay is stale: its backing file"),
            "{e}"
        );
        assert!(e.next_step().unwrap().contains("--force-stale"), "{e}");
        let options = OpenOptions {
            stale_base: StaleBase::Open,
            ..OpenOptions::default()
        };
        let image = Image::open(&path(name), &options).unwrap();
        assert!(image.description().warnings[0].contains("may be damaged"));
    }
    let modified = UNIX_EPOCH + Duration::from_secs(EPOCH + 1001);
    let file = std::fs::File::options()
        .write(true)
        .open(path("a.vhd"))
        .unwrap();
    file.set_times(FileTimes::new().set_modified(modified))
        .unwrap();
    drop(file);
    open(&path("c.vhd")).unwrap();
}

#[test]
fn the_gate_holds_for_parents() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let named = |name: &str| {
        let locators = vec![(*b"W2ru", name.to_owned())];
        let vhd = HandMadeVhd::new(8192, 5, Some(parent(1, locators)));
        std::fs::write(path("disk.vhd"), vhd.build()).unwrap();
        open(&path("disk.vhd")).unwrap_err()
    };
    std::fs::write(path(".hidden"), "").unwrap();
    for name in [
        "/etc/shadow",
        r"..\..\..\..\etc\shadow",
        ".hidden",
        "json:{}",
        "nbd:x",
    ] {
        let e = named(name);
        assert_eq!(e.kind(), ErrorKind::Denied, "{name}: {e}");
        assert!(e.to_string().contains("refusing to open parent"), "{e}");
        assert!(!e.to_string().contains("rebase"), "{e}");
    }
    assert_eq!(named("none.vhd").kind(), ErrorKind::NotFound);
    // A parent is what the format says, not what it looks like.
    std::fs::write(path("raw"), vec![0; 8192]).unwrap();
    assert_eq!(named("raw").kind(), ErrorKind::Corrupt);
    let e = named("disk.vhd");
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert!(e.to_string().contains("loop"), "{e}");
    let other = HandMadeVhd::new(8192, 1, Some(parent(5, relative("disk.vhd"))));
    std::fs::write(path("other.vhd"), other.build()).unwrap();
    assert!(named("other.vhd").to_string().contains("loop"));
    // Named like a raw disk, and probed as an image with a parent.
    std::fs::copy(path("disk.vhd"), path("disk.img")).unwrap();
    let e = open(&path("disk.img")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Denied);
    assert!(e.to_string().contains("format=vhd"), "{e}");
    let closed = OpenOptions {
        gate: Gate::closed(),
        ..OpenOptions::default()
    };
    let e = Image::open(&path("disk.vhd"), &closed).unwrap_err();
    assert!(e.to_string().contains("--no-backing"), "{e}");
}

#[test]
fn chains_of_other_formats_are_at_most_64_long() {
    let dir = tempfile::tempdir().unwrap();
    let path = |n: usize| dir.path().join(format!("{n}.vhd"));
    for n in 0..65_usize {
        let id = u8::try_from(n).unwrap() + 1;
        let below = n.checked_sub(1).map(|below| format!("{below}.vhd"));
        let parent = below.map(|below| parent(id - 1, relative(&below)));
        let mut vhd = HandMadeVhd::new(8192, id, parent);
        vhd.write(n % 16, id);
        std::fs::write(path(n), vhd.build()).unwrap();
    }
    let image = open(&path(63)).unwrap();
    let mut all = vec![0; 8192];
    image.device().read_at(0, &mut all).unwrap();
    assert_eq!((all[0], all[15 * 512]), (49, 64));
    let e = open(&path(64)).unwrap_err();
    assert!(e.to_string().contains("at most 64 images"), "{e}");
}

/// Returns an image whose block allocation table and metadata are partly only in the log.
fn with_log(entries: impl FnOnce(&mut HandMadeVhdx, &[u8]) -> Vec<(usize, LogEntry)>) -> Vec<u8> {
    let mut vhdx = HandMadeVhdx::new(4 << 20, 1, None);
    for sector in 0..8192 {
        vhdx.write(sector, u8::try_from(sector % 250).unwrap() + 1);
    }
    let whole = vhdx.build();
    vhdx.log_guid = [7; 16];
    for (at, entry) in entries(&mut vhdx, &whole) {
        let entry = entry.build([7; 16]);
        for (n, byte) in entry.iter().enumerate() {
            let at = (at + n) % vhdx.log.len();
            vhdx.log[at] = *byte;
        }
    }
    let mut image = vhdx.build();
    // The table, as it was before the log.
    image[3 << 20..(3 << 20) + 64].fill(0);
    image
}

/// An entry that restores the first sector of the block allocation table.
fn restoring(number: u64, tail: u32, whole: &[u8]) -> LogEntry {
    let bat = 3 << 20;
    LogEntry {
        number,
        tail,
        data: vec![(bat as u64, whole[bat..bat + 4096].to_vec())],
        zeroes: Vec::new(),
        sizes: (whole.len() as u64, whole.len() as u64),
    }
}

/// Compares a replay in memory with qemu-img's in the file.
fn compare_replay(image: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.vhdx");
    std::fs::write(&path, image).unwrap();
    let opened = open(&path).unwrap();
    assert!(opened.description().warnings[0].contains("replayed in memory"));
    let mut ours = vec![0; 4 << 20];
    opened.device().read_at(0, &mut ours).unwrap();
    drop(opened);
    assert!(std::fs::read(&path).unwrap() == image);
    assert_eq!(
        (ours[0], ours[(3 << 20) + 512]),
        (1, u8::try_from(6145 % 250).unwrap() + 1)
    );
    if have_qemu() {
        run(
            dir.path(),
            "qemu-img",
            &["check", "-q", "-r", "all", "disk.vhdx"],
        );
        assert!(converted(dir.path(), "disk.vhdx", &[]).unwrap() == ours);
    }
}

#[test]
fn a_log_is_replayed_in_memory() {
    compare_replay(&with_log(|_, whole| vec![(0, restoring(1, 0, whole))]));
    // Three entries: garbage, then zeroes, then the right table; and an old sequence before.
    compare_replay(&with_log(|_, whole| {
        let bat = 3 << 20;
        let mut garbage = restoring(11, 0x8000, whole);
        garbage.data[0].1.fill(0x55);
        let mut zeroes = restoring(12, 0x8000, whole);
        zeroes.data.clear();
        zeroes.zeroes.push((bat, 4096));
        let mut old = restoring(3, 0, whole);
        old.data[0].1.fill(0x66);
        vec![
            (0, old),
            (0x8000, garbage),
            (0xa000, zeroes),
            (0xb000, restoring(13, 0x8000, whole)),
        ]
    }));
    // An entry around the end of the log.
    compare_replay(&with_log(|_, whole| {
        vec![(0xff000, restoring(5, 0xff000, whole))]
    }));
}

#[test]
fn invalid_logs_are_refused() {
    let refused = |image: Vec<u8>, what: &str| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.vhdx");
        std::fs::write(&path, image).unwrap();
        let e = open(&path).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
        assert!(e.to_string().contains(what), "{e}");
    };
    // The tail is no entry of the sequence, so the sequence is not complete.
    refused(
        with_log(|_, whole| vec![(0, restoring(1, 0x1000, whole))]),
        "no valid entries",
    );
    refused(with_log(|_, _| Vec::new()), "no valid entries");
    // The file is shorter than it was.
    let truncated = with_log(|_, whole| {
        let mut entry = restoring(1, 0, whole);
        entry.sizes.0 += 1 << 20;
        vec![(0, entry)]
    });
    refused(truncated, "it was truncated");
    // A file of 2^62 bytes.
    let huge = with_log(|_, whole| {
        let mut entry = restoring(1, 0, whole);
        entry.zeroes.push((1 << 62, 1 << 40));
        vec![(0, entry)]
    });
    refused(huge, "bytes long");
    // Entries that claim the whole log, at each of its sectors.
    let mut looping = with_log(|_, whole| vec![(0, restoring(1, 0, whole))]);
    for sector in 0..256 {
        let at = (1 << 20) + sector * 4096;
        let header: Vec<u8> = looping[1 << 20..(1 << 20) + 64].to_vec();
        looping[at..at + 64].copy_from_slice(&header);
        looping[at + 8..at + 12].copy_from_slice(&(1_u32 << 20).to_le_bytes());
        looping[at + 24..at + 28].fill(0);
    }
    refused(looping, "entries of the log overlap");
}

/// A log of entries of which each is the successor of the one before, all around.
#[test]
fn a_full_log_ends() {
    let ring = with_log(|_, whole| {
        let entry = |n: u32| {
            let mut entry = restoring(u64::from(n) + 1, 0x1000, whole);
            entry.data.clear();
            (usize::try_from(n).unwrap() * 4096, entry)
        };
        (0..256).map(entry).collect()
    });
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("disk.vhdx"), ring).unwrap();
    let image = open(&dir.path().join("disk.vhdx")).unwrap();
    assert!(image.map().all(|entry| entry.unwrap().zero));
}

#[test]
fn formats_of_backing_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x"), vec![0; 4096]).unwrap();
    for (format, is_known) in [
        ("vpc", true),
        ("vhdx", true),
        ("dmg", false),
        ("bochs", false),
    ] {
        let mut image = crate::hand_made::HandMade::new();
        image.set_backing("x", Some(format));
        image.write(&dir.path().join("disk.qcow2"));
        let e = open(&dir.path().join("disk.qcow2")).unwrap_err();
        // The file is not an image of these formats.
        let kind = if is_known {
            ErrorKind::Corrupt
        } else {
            ErrorKind::Unsupported
        };
        assert_eq!(e.kind(), kind, "{format}: {e}");
    }
    assert!(Format::ALL.len() > 8);
}
