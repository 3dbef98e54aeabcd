//! A sparse file of 16 TiB with blocks at both ends and at scattered places.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use diskfs::vfs::{FileExtentKind, NewKind};
use rustix::fs::SeekFrom;

use super::case::Run;
use super::image::e2fsck;
use super::level::Meter;
use super::names::scattered;
use super::opened::Opened;
use crate::command;

const BLOCK_BYTES: u64 = 4096;

/// The largest file of ext4 with blocks of 4 KiB: 2^32 - 1 blocks.
const SIZE_BYTES: u64 = (1 << 44) - BLOCK_BYTES;

/// Writes, reads, copies and truncates the file.
pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    let image = run.mke2fs(run.count * BLOCK_BYTES * 3 + (1 << 30), &[])?;
    let opened = Opened::new(&image)?;
    let fs = opened.fs();
    let file = opened.create(fs.root(), "large", NewKind::Regular)?;
    run.repeat("write a block", Meter::Own, run.count, |number| {
        let number = scattered(number, run.count);
        let at = place(number, run.count);
        let written = fs.write_at(file, at, &block(at))?;
        ensure!(written == block(at).len(), "short write at {at}");
        Ok(())
    })?;
    ensure!(fs.metadata(file)?.size_bytes == SIZE_BYTES, "wrong size");
    opened.close()?;
    e2fsck(&image)?;
    read(run, &image)?;
    copy(run, &image)?;
    truncate(run, &image)?;
    e2fsck(&image)
}

/// Returns the place of a block: the first and the last are at the ends of the file.
fn place(number: u64, count: u64) -> u64 {
    let last = SIZE_BYTES / BLOCK_BYTES - 1;
    let steps = u128::from(last) * u128::from(number) / u128::from(count.max(2) - 1);
    u64::try_from(steps).unwrap_or_default() * BLOCK_BYTES
}

/// Returns the contents of the block at a place.
fn block(at: u64) -> Vec<u8> {
    (at + 1).to_le_bytes().repeat(512)
}

/// Reads the blocks and the list of extents by the library.
fn read(run: &Run<'_>, image: &Path) -> Result<()> {
    let opened = Opened::new(image)?;
    let fs = opened.fs();
    let file = fs.lookup(fs.root(), b"large")?;
    run.repeat("read a block", Meter::Own, run.count, |number| {
        let at = place(scattered(number, run.count), run.count);
        let mut found = vec![0; 4096];
        fs.read_at(file, at, &mut found)?;
        ensure!(found == block(at), "the block at {at} differs");
        Ok(())
    })?;
    let mut extents = fs.extents_of(file, 0)?;
    run.repeat("list an extent", Meter::Own, run.count, |number| {
        let extent = loop {
            let extent = extents.next().context("the extents end early")??;
            if extent.kind != FileExtentKind::Hole {
                break extent;
            }
        };
        let expected = (place(number, run.count), BLOCK_BYTES);
        let found = (extent.offset, extent.len_bytes);
        ensure!(
            found == expected,
            "extent {found:?} instead of {expected:?}"
        );
        Ok(())
    })?;
    drop(extents);
    opened.close()
}

/// Copies the file through a mount. The mount and the kernel's see the same blocks in both files.
fn copy(run: &Run<'_>, image: &Path) -> Result<()> {
    let (mount, server) = run.mount(image)?;
    let (from, to) = (mount.path().join("large"), mount.path().join("copy"));
    let mut cp = Command::new("cp");
    let cp = cp.arg("--sparse=always").arg(&from).arg(&to);
    let took = command::timed(cp)?;
    run.say(&format!("cp --sparse=always: {:.1} s", took.as_secs_f64()));
    blocks_of(run, "seek and read a block, mounted", server, &to)?;
    mount.unmount()?;
    e2fsck(image)?;
    let kernel = run.mount_by_kernel(image)?;
    for name in ["large", "copy"] {
        let title = "seek and read a block, by the kernel";
        blocks_of(run, title, Meter::Own, &kernel.path().join(name))?;
    }
    kernel.unmount()
}

/// Checks the blocks of a file, found by `SEEK_DATA`.
fn blocks_of(run: &Run<'_>, title: &str, meter: Meter, path: &Path) -> Result<()> {
    let file = File::open(path)?;
    ensure!(fs::metadata(path)?.len() == SIZE_BYTES, "wrong size");
    let mut from = 0;
    run.repeat(title, meter, run.count, |number| {
        let at = rustix::fs::seek(&file, SeekFrom::Data(from))?;
        let expected = place(number, run.count);
        ensure!(at == expected, "data at {at} instead of {expected}");
        let mut found = vec![0; 4096];
        file.read_exact_at(&mut found, at)?;
        ensure!(found == block(at), "the block at {at} differs");
        from = at + BLOCK_BYTES;
        if number + 1 < run.count {
            from = rustix::fs::seek(&file, SeekFrom::Hole(from))?;
        }
        Ok(())
    })
}

/// Truncates the file again and again, and removes both.
fn truncate(run: &Run<'_>, image: &Path) -> Result<()> {
    let opened = Opened::new(image)?;
    let fs = opened.fs();
    let file = fs.lookup(fs.root(), b"large")?;
    let count = run.count / 10;
    run.repeat("truncate", Meter::Own, count, |number| {
        let left = run.count - 1 - number;
        Ok(fs.set_len(file, place(left, run.count))?)
    })?;
    for name in [&b"large"[..], b"copy"] {
        fs.unlink(fs.root(), name)?;
    }
    opened.close()
}
