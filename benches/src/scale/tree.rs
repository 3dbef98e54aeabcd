//! Many files in many directories of a filesystem of 4 TiB, in a sparse file and in qcow2.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use diskfs::image::create::Existing;
use diskfs::vfs::{FsRead, InodeNumber, NewKind};
use diskfs::{Disk, ExtOptions, NewFilesystem};

use super::case::Run;
use super::image::e2fsck;
use super::level::Meter;
use super::names::{Seen, name, scattered};
use super::opened::Opened;
use super::track::Limits;
use crate::command;

const SIZE_BYTES: u64 = 4 << 40;

/// The number of files of a directory.
const FILES: u64 = 1000;

/// One of so many files has contents.
const FILLED: u64 = 64;

/// The limits of the creation: the state of each group that is used.
const WRITTEN: Limits = Limits {
    memory_bytes: 16,
    descriptors: 0,
    threads: 0,
};

/// Uses a sparse file.
pub(super) fn in_raw(run: &mut Run<'_>) -> Result<()> {
    let image = run.dir.join("disk.raw");
    fs::File::create(&image)?.set_len(SIZE_BYTES)?;
    fill(run, &image)?;
    e2fsck(&image)
}

/// Uses a qcow2 image. e2fsck checks a sparse copy of it.
pub(super) fn in_qcow2(run: &mut Run<'_>) -> Result<()> {
    let image = run.dir.join("disk.qcow2");
    let mut create = Command::new("qemu-img");
    create.args(["create", "-q", "-f", "qcow2"]).arg(&image);
    command::output(create.arg(SIZE_BYTES.to_string()))?;
    fill(run, &image)?;
    command::output(Command::new("qemu-img").arg("check").arg(&image))?;
    let copy = run.dir.join("copy.raw");
    let mut convert = Command::new("qemu-img");
    convert.args(["convert", "-O", "raw"]).arg(&image);
    command::output(convert.arg(&copy))?;
    e2fsck(&copy)
}

/// Creates the files, and looks at each of them after the image was closed.
fn fill(run: &Run<'_>, image: &Path) -> Result<()> {
    format(run, image)?;
    let opened = Opened::new(image)?;
    let mut directory = opened.fs().root();
    run.repeat_within("create", Meter::Own, run.count, WRITTEN, |number| {
        if number.is_multiple_of(FILES) {
            let name = directory_name(number);
            directory = opened.create(opened.fs().root(), &name, NewKind::Directory)?;
        }
        let file = opened.create(directory, &name(number), NewKind::Regular)?;
        if number.is_multiple_of(FILLED) {
            opened.fs().write_at(file, 0, &contents(number))?;
        }
        Ok(())
    })?;
    opened.close()?;
    let disk = Disk::open(image)?;
    let filesystem = disk.filesystem()?;
    let fs = filesystem.as_fs();
    run.repeat("look up, read", Meter::Own, run.count, |number| {
        let number = scattered(number, run.count);
        let file = find(fs, number)?;
        let expected = if number.is_multiple_of(FILLED) {
            contents(number)
        } else {
            Vec::new()
        };
        let mut found = vec![0; expected.len() + 1];
        let len = fs.read_at(file, 0, &mut found)?;
        ensure!(found.get(..len) == Some(&expected), "file {number} differs");
        Ok(())
    })?;
    walk(run, fs)
}

/// Lists all directories and the metadata of all files.
fn walk(run: &Run<'_>, fs: &dyn FsRead) -> Result<()> {
    let mut seen = Seen::of(run.count)?;
    let mut files = Vec::new();
    run.repeat("walk", Meter::Own, run.count, |number| {
        if files.is_empty() {
            let directory = fs.lookup(fs.root(), directory_name(number).as_bytes())?;
            for entry in fs.read_dir(directory, 0)? {
                let entry = entry?;
                if !matches!(&*entry.name, b"." | b"..") {
                    files.push(entry);
                }
            }
        }
        let entry = files.pop().context("a directory has too few files")?;
        fs.metadata(entry.inode)?;
        seen.add(&entry.name)
    })?;
    seen.complete()
}

fn find(fs: &dyn FsRead, number: u64) -> Result<InodeNumber> {
    let directory = fs.lookup(fs.root(), directory_name(number).as_bytes())?;
    Ok(fs.lookup(directory, name(number).as_bytes())?)
}

fn directory_name(number: u64) -> String {
    format!("directory-{}", number / FILES)
}

fn contents(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(100)
}

/// Creates the filesystem.
fn format(run: &Run<'_>, image: &Path) -> Result<()> {
    let options = ExtOptions {
        inodes: Some(run.count + run.count / FILES + 1000),
        uuid: [7; 16],
        hash_seed: [9; 16],
        ..ExtOptions::default()
    };
    let disk = Disk::options().read_only(false).open(image)?;
    let volume = disk.volume("disk")?;
    volume.format(&NewFilesystem::Ext(Box::new(options)), Existing::Keep)?;
    drop(volume);
    Ok(disk.close()?)
}
