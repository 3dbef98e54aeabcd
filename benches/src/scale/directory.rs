//! Many files in one directory: creation, lookup, listing and removal, by the library and through a
//! mount. e2fsck checks the filesystem, and the kernel's mount lists the same names.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use diskfs::vfs::{FsWrite, InodeNumber, NewKind};

use super::case::Run;
use super::image::e2fsck;
use super::level::Meter;
use super::names::{Seen, name, scattered};
use super::opened::Opened;
use super::track::Limits;
use crate::command;

/// The name of the directory.
const DIRECTORY: &str = "many";

/// The number of files from which on blocks of 1 KiB need an htree of three levels: two of them
/// have at most 123 * 126 leaves of at most 51 names.
const THREE_LEVELS: u64 = 800_000;

/// The memory of the server of a mount for each file that the kernel knows: a number of references,
/// and a hold.
const KNOWN: Limits = Limits {
    memory_bytes: 192,
    descriptors: 0,
    threads: 0,
};

/// Uses the directory by the library.
pub(super) fn by_library(run: &mut Run<'_>) -> Result<()> {
    let image = make(run)?;
    let opened = Opened::new(&image)?;
    let directory = opened.create(opened.fs().root(), DIRECTORY, NewKind::Directory)?;
    run.repeat("create", Meter::Own, run.count, |number| {
        opened
            .create(directory, &name(number), NewKind::Regular)
            .map(drop)
    })?;
    opened.close()?;
    judge(run, &image)?;
    let opened = Opened::new(&image)?;
    let fs = opened.fs();
    let directory = fs.lookup(fs.root(), DIRECTORY.as_bytes())?;
    run.repeat("look up", Meter::Own, run.count, |number| {
        let name = name(scattered(number, run.count));
        Ok(fs.lookup(directory, name.as_bytes()).map(drop)?)
    })?;
    list(run, fs, directory)?;
    run.repeat("remove", Meter::Own, run.count, |number| {
        let name = name(scattered(number, run.count));
        Ok(fs.unlink(directory, name.as_bytes())?)
    })?;
    fs.rmdir(fs.root(), DIRECTORY.as_bytes())?;
    opened.close()?;
    e2fsck(&image)
}

/// Lists the directory from one position.
fn list(run: &Run<'_>, fs: &dyn FsWrite, directory: InodeNumber) -> Result<()> {
    let mut seen = Seen::of(run.count)?;
    let mut entries = fs.read_dir(directory, 0)?;
    run.repeat("list", Meter::Own, run.count, |_| {
        loop {
            let entry = entries.next().context("the listing ends early")??;
            if !matches!(&*entry.name, b"." | b"..") {
                return seen.add(&entry.name);
            }
        }
    })?;
    seen.complete()
}

/// Uses the directory through a mount.
pub(super) fn by_mount(run: &mut Run<'_>) -> Result<()> {
    let image = make(run)?;
    let (mount, server) = run.mount(&image)?;
    let directory = mount.path().join(DIRECTORY);
    fs::create_dir(&directory)?;
    run.repeat_within("create", server, run.count, KNOWN, |number| {
        fs::File::create_new(directory.join(name(number))).map(drop)?;
        Ok(())
    })?;
    mount.unmount()?;
    judge(run, &image)?;
    let (mount, server) = run.mount(&image)?;
    run.repeat_within("look up", server, run.count, KNOWN, |number| {
        let name = name(scattered(number, run.count));
        fs::symlink_metadata(directory.join(name)).map(drop)?;
        Ok(())
    })?;
    let mut seen = Seen::of(run.count)?;
    let mut entries = fs::read_dir(&directory)?;
    run.repeat_within("list", server, run.count, KNOWN, |_| {
        let entry = entries.next().context("the listing ends early")??;
        seen.add(entry.file_name().as_bytes())
    })?;
    ensure!(entries.next().is_none(), "the listing has too many names");
    drop(entries);
    seen.complete()?;
    run.repeat("remove", server, run.count, |number| {
        let name = name(scattered(number, run.count));
        Ok(fs::remove_file(directory.join(name))?)
    })?;
    fs::remove_dir(&directory)?;
    mount.unmount()?;
    e2fsck(&image)
}

/// Creates an image with room for the files. Its small blocks make the htree deep.
fn make(run: &Run<'_>) -> Result<PathBuf> {
    let inodes = (run.count + 1000).to_string();
    let size_bytes = run.count * 1000 + (256 << 20);
    run.mke2fs(
        size_bytes,
        &["-b", "1024", "-O", "large_dir", "-N", &inodes],
    )
}

/// Checks the image by e2fsck, lists the directory by the kernel's mount, and checks the depth of
/// its htree.
fn judge(run: &Run<'_>, image: &Path) -> Result<()> {
    e2fsck(image)?;
    let mount = run.mount_by_kernel(image)?;
    let mut seen = Seen::of(run.count)?;
    for entry in fs::read_dir(mount.path().join(DIRECTORY))? {
        seen.add(entry?.file_name().as_bytes())?;
    }
    seen.complete()?;
    mount.unmount()?;
    // The kernel lists the same names; debugfs knows the depth.
    let mut debugfs = Command::new("sh");
    let dump = "debugfs -R \"htree_dump /$1\" \"$2\" 2>/dev/null | sed '/Indirect levels/q'";
    debugfs
        .args(["-c", dump, "sh", DIRECTORY])
        .arg(image)
        .env("PAGER", "cat");
    let text = command::output(&mut debugfs)?;
    let line = text.lines().find(|line| line.contains("Indirect levels"));
    let levels = line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    let levels = levels.with_context(|| format!("debugfs shows no htree: {text}"))? + 1;
    run.say(&format!("levels of the htree: {levels}"));
    ensure!(
        levels >= 3 || run.count < THREE_LEVELS,
        "an htree of {levels} levels has {} files",
        run.count
    );
    Ok(())
}
