//! Dirty logs: the driver shows what the kernel shows after recovery, and no byte of the image
//! changes.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use diskfs_fixtures::{Mount, Tree, Workshop, have, require_root, run, seeds, sha256_hex, stress};
use diskfs_xfs::Xfs;

/// The options of `mkfs.xfs` and of the mount that the tests go through. The last one
/// has reflinks, whose shared extents need more kinds of items.
const VARIANTS: [(&str, &str); 7] = [
    ("-m reflink=0", ""),
    ("-m reflink=0,rmapbt=1 -i nrext64=1 -b size=1024", ""),
    ("-m reflink=0 -l su=32k", "logbsize=256k"),
    (
        "-m reflink=0,bigtime=0,finobt=0 -i sparse=0",
        "logbsize=16k",
    ),
    ("-m reflink=0 -s size=4096 -n size=16384", ""),
    ("-m reflink=0 -i size=2048 -l su=256k", ""),
    ("-m reflink=1,rmapbt=1", ""),
];

/// The way in which the filesystem stops.
#[derive(Debug, Clone, Copy)]
enum Stop {
    /// The log is written before.
    AfterLog,
    /// Changes that are not in the log yet are lost.
    AtOnce,
    /// The image is copied while it is mounted.
    Copy,
}

/// Returns an image with a dirty log, after random operations.
fn dirty(workshop: &Workshop, seed: u64, stop: Stop) -> Result<PathBuf> {
    let nth = usize::try_from(seed)? % VARIANTS.len();
    let (mkfs, options) = VARIANTS[nth];
    let image = workshop.sparse_file("image", 64 << 20)?;
    workshop.mkfs_xfs(&image, mkfs)?;
    let mount = Mount::of_image(&image, options)?;
    for part in 0..4 {
        let directory = mount.path().join(format!("part-{part}"));
        fs::create_dir(&directory)?;
        stress(&directory, seed * 10 + part, 100)?;
        if part < 3 {
            rustix::fs::syncfs(File::open(&directory)?)?;
        }
    }
    let root = mount.path().display().to_string();
    let copy = workshop.path("copy");
    match stop {
        Stop::AfterLog => run("xfs_io", ["-x", "-c", "shutdown -f", &root]).map(drop)?,
        Stop::AtOnce => run("xfs_io", ["-x", "-c", "shutdown", &root]).map(drop)?,
        Stop::Copy => fs::copy(&image, &copy).map(drop)?,
    }
    mount.unmount()?;
    Ok(if matches!(stop, Stop::Copy) {
        copy
    } else {
        image
    })
}

/// Returns the tree that the kernel shows after the recovery of a copy; `None` if it refuses.
fn expected(workshop: &Workshop, image: &Path) -> Result<Option<Tree>> {
    let copy = workshop.path("recovered");
    fs::copy(image, &copy)?;
    let Ok(mount) = Mount::of_image(&copy, "noatime") else {
        return Ok(None);
    };
    mount.unmount()?;
    // Fails if the kernel found damage after the recovery: a cut log lacks durable changes.
    let Ok(mount) = Mount::of_image(&copy, "ro") else {
        return Ok(None);
    };
    let tree = Tree::of_directory(mount.path());
    mount.unmount()?;
    Ok(tree.ok())
}

/// Compares the driver with the kernel, but for the numbers of free blocks and inodes: the kernel
/// deletes files in the background, and completes this when it mounts. The fixtures compare them.
fn compare(workshop: &Workshop, image: &Path) -> Result<()> {
    let before = sha256_hex(&fs::read(image)?);
    let shown = Xfs::open(Arc::new(diskfs_block::File::open(image)?));
    let shown = shown.map_err(anyhow::Error::from);
    let shown = shown.and_then(|fs| Tree::of_filesystem(&fs));
    ensure!(
        sha256_hex(&fs::read(image)?) == before,
        "the image has changed"
    );
    match (expected(workshop, image)?, shown) {
        (Some(mut expected), shown) => {
            let mut shown = shown?;
            (expected.statfs, shown.statfs) = (None, None);
            let differences = expected.differences(&shown);
            let text = differences.into_iter().take(5).collect::<Vec<_>>();
            ensure!(text.is_empty(), "{}", text.join("\n"));
        }
        // The kernel refuses to mount if a replayed block is invalid; the driver refuses the block.
        (None, Ok(_)) => {}
        (None, Err(error)) => {
            let kind = error.downcast_ref::<diskfs_vfs::Error>();
            let kind = kind.map(diskfs_vfs::Error::kind);
            ensure!(kind == Some(diskfs_vfs::ErrorKind::Corrupt), "{error:#}");
        }
    }
    Ok(())
}

fn is_ready() -> bool {
    require_root().is_some() && have(&["mkfs.xfs", "xfs_io"])
}

#[test]
fn shut_down_filesystems_are_as_after_recovery() {
    if !is_ready() {
        return;
    }
    for seed in seeds(1..4) {
        let stop = match seed % 3 {
            0 => Stop::AfterLog,
            1 => Stop::AtOnce,
            _ => Stop::Copy,
        };
        let workshop = Workshop::new().unwrap();
        let image = dirty(&workshop, seed, stop).unwrap();
        let compared = compare(&workshop, &image);
        compared.unwrap_or_else(|error| panic!("seed {seed}, {stop:?}: {error:#}"));
    }
}

#[test]
fn cut_logs_are_as_after_recovery() {
    if !is_ready() {
        return;
    }
    for seed in seeds(1..2) {
        let workshop = Workshop::new().unwrap();
        let image = dirty(&workshop, seed, Stop::AtOnce).unwrap();
        for (nth, cut) in CUTS.into_iter().enumerate() {
            let cut_image = workshop.path("cut");
            fs::copy(&image, &cut_image).unwrap();
            cut_log(&cut_image, cut).unwrap();
            let compared = compare(&workshop, &cut_image);
            compared.unwrap_or_else(|error| panic!("seed {seed}, cut {nth} {cut:?}: {error:#}"));
        }
    }
}

/// A part of the log's end that is lost.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// The record in which it starts: 1 is the last one.
    from_end: usize,
    /// The number of sectors of the record that are kept.
    kept_sectors: u64,
    /// The number of lost sectors; the whole rest of the log for 0.
    lost_sectors: u64,
}

const fn cut(from_end: usize, kept_sectors: u64, lost_sectors: u64) -> Cut {
    Cut {
        from_end,
        kept_sectors,
        lost_sectors,
    }
}

const CUTS: [Cut; 6] = [
    cut(1, 0, 0),
    cut(1, 1, 0),
    cut(2, 0, 0),
    cut(2, 2, 1),
    cut(3, 0, 1),
    cut(4, 1, 3),
];

/// Replaces sectors at the end of the log by zeroes, as they were before the log reached them.
fn cut_log(image: &Path, cut: Cut) -> Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(image)?;
    let mut superblock = [0; 512];
    file.read_exact_at(&mut superblock, 0)?;
    let number = |range: std::ops::Range<usize>| {
        let bytes = superblock[range].iter();
        bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let (start, group_bits) = (number(48..56), superblock[124]);
    let within = start & ((1 << group_bits) - 1);
    let first = ((start >> group_bits) * number(84..88) + within) * number(4..8);
    let len = number(96..100) * number(4..8);
    let mut log = vec![0; usize::try_from(len)?];
    file.read_exact_at(&mut log, first)?;
    let mut records: Vec<_> = (first..)
        .step_by(512)
        .zip(log.chunks(512))
        .filter(|(_, sector)| sector.starts_with(&0xfeed_babe_u32.to_be_bytes()))
        .map(|(at, sector)| (sector[16..24].to_vec(), at))
        .collect();
    records.sort();
    let record = records.len().checked_sub(cut.from_end);
    let (_, at) = record
        .and_then(|nth| records.get(nth))
        .context("the log is too short")?;
    let at = at + cut.kept_sectors * 512;
    let rest = first + len - at;
    let lost = if cut.lost_sectors == 0 {
        rest
    } else {
        rest.min(cut.lost_sectors * 512)
    };
    file.write_all_at(&vec![0; usize::try_from(lost)?], at)?;
    Ok(())
}
