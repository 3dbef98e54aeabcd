//! Many images that are open in one process: raw, qcow2 and VMDK, each with a filesystem.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use diskfs::{Disk, Filesystem};

use super::case::Run;
use super::level::{Level, Meter};
use super::opened::Opened;
use super::track::Limits;
use crate::command;

/// The size of the images.
const SIZE_BYTES: u64 = 8 << 20;

const FORMATS: [&str; 3] = ["raw", "qcow2", "vmdk"];

/// The limits of an open image.
const LIMITS: Limits = Limits {
    memory_bytes: 1 << 18,
    descriptors: 2,
    threads: 0,
};

/// The limits of an image that is open for writing: two threads commit and write back.
const WRITTEN_LIMITS: Limits = Limits {
    threads: 2,
    ..LIMITS
};

/// Opens all images, reads from each, and closes them; then those that can be written, for
/// writing.
pub(super) fn run(run: &mut Run<'_>) -> Result<()> {
    let images = make(run)?;
    let path = |number: u64| -> Result<&PathBuf> {
        let path = images.get(usize::try_from(number)?);
        path.context("no image")
    };
    let before = Level::of(Meter::Own)?;
    let mut open: Vec<(Disk, Filesystem)> = Vec::new();
    run.repeat_within("open", Meter::Own, run.count, LIMITS, |number| {
        let disk = Disk::open(path(number)?)?;
        let filesystem = disk.filesystem()?;
        open.push((disk, filesystem));
        Ok(())
    })?;
    say(run, "open", before)?;
    run.repeat_within("read", Meter::Own, run.count, LIMITS, |number| {
        let (_, filesystem) = open.get(usize::try_from(number)?).context("not open")?;
        let found = filesystem.read("/file")?;
        ensure!(found == b"before", "image {number} has {found:?}");
        Ok(())
    })?;
    say(run, "open and read", before)?;
    run.repeat("close", Meter::Own, run.count, |_| {
        let (disk, filesystem) = open.pop().context("not open")?;
        drop(filesystem);
        Ok(disk.close()?)
    })?;
    write(run, &images, before)
}

/// Opens the images that can be written, writes to each, and closes them.
fn write(run: &Run<'_>, images: &[PathBuf], before: Level) -> Result<()> {
    let is_written = |path: &&PathBuf| path.extension().is_some_and(|format| format != "vmdk");
    let images: Vec<_> = images.iter().filter(is_written).collect();
    let count = u64::try_from(images.len())?;
    let path = |number: u64| images.get(usize::try_from(number)?).context("no image");
    let mut open = Vec::new();
    let limits = WRITTEN_LIMITS;
    run.repeat_within("open to write", Meter::Own, count, limits, |number| {
        open.push(Opened::new(path(number)?)?);
        Ok(())
    })?;
    say(run, "open to write", before)?;
    run.repeat_within("write", Meter::Own, count, limits, |number| {
        let opened: &Opened = open.get(usize::try_from(number)?).context("not open")?;
        let fs = opened.fs();
        let file = fs.lookup(fs.root(), b"file")?;
        fs.write_at(file, 0, format!("{number:06}").as_bytes())?;
        Ok(())
    })?;
    say(run, "written", before)?;
    run.repeat("close written", Meter::Own, count, |_| {
        open.pop().context("not open")?.close()
    })?;
    let after = Level::of(Meter::Own)?;
    ensure!(
        after.descriptors == before.descriptors && after.threads <= before.threads,
        "closed images leave {after:?} behind; before it was {before:?}"
    );
    for number in 0..count {
        let found = Disk::open(path(number)?)?.filesystem()?.read("/file")?;
        let expected = format!("{number:06}");
        ensure!(found == expected.as_bytes(), "image {number} has {found:?}");
    }
    Ok(())
}

/// Prints the memory, descriptors and threads of the images.
fn say(run: &Run<'_>, what: &str, before: Level) -> Result<()> {
    let now = Level::of(Meter::Own)?;
    run.say(&format!(
        "{what}: {} KiB, {} descriptors and {} threads for {} images",
        now.memory_kib.saturating_sub(before.memory_kib),
        now.descriptors - before.descriptors,
        now.threads.saturating_sub(before.threads),
        run.count
    ));
    Ok(())
}

/// Creates the images, in all formats.
fn make(run: &Run<'_>) -> Result<Vec<PathBuf>> {
    let raw = run.mke2fs(SIZE_BYTES, &[])?;
    let file = run.dir.join("file");
    fs::write(&file, "before")?;
    let mut write = Command::new("debugfs");
    write.args(["-w", "-R", &format!("write {} file", file.display())]);
    command::output(write.arg(&raw))?;
    let mut images = Vec::new();
    for number in 0..run.count {
        let nth = usize::try_from(number)?;
        let format = FORMATS.get(nth % FORMATS.len()).copied();
        let format = format.context("no format")?;
        let path = run.dir.join(format!("{number}.{format}"));
        let first = nth.checked_sub(FORMATS.len());
        if let Some(first) = first.and_then(|of| images.get(of)) {
            fs::copy(first, &path)?;
        } else {
            let mut convert = Command::new("qemu-img");
            convert.args(["convert", "-O", format]).arg(&raw);
            command::output(convert.arg(&path))?;
        }
        images.push(path);
    }
    Ok(images)
}
