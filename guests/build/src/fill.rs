//! The files of an image: the tree of all its filesystems, and what is written into it.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use diskfs_archive::tree::{WriteOptions as TreeOptions, Written};
use diskfs_disk::guest::OsRelease;
use diskfs_disk::{Disk, ErrorKind, Filesystem, Result, WritableFilesystem, WriteOptions};
use diskfs_vfs::{self as vfs, Driver, FsWrite, MountTree, NewAttributes, NewKind};

use crate::boot::{EspFile, EspSource};
use crate::fstab;
use crate::prepared::{Prepared, root};
use crate::slot::Slot;

/// The size of the pieces in which files are copied.
const PIECE_BYTES: usize = 1 << 20;

/// The identifier of a system without `/etc/os-release`.
const UNKNOWN_SYSTEM: &str = "linux";

impl Prepared {
    /// Writes all files into the new filesystems.
    pub(crate) fn fill(
        &self,
        disk: &Disk,
        options: &WriteOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Written> {
        let Some(tree) = &self.sources.tree else {
            return Ok(Written::default());
        };
        let fs = self.writable_tree(disk, options)?;
        // FAT has no extended attributes.
        let tree_options = TreeOptions {
            into: None,
            skip_refused_xattrs: false,
        };
        let written = tree.write_to(fs.as_fs(), &tree_options, progress);
        let done = written.and_then(|written| {
            self.write_tables(&fs)?;
            self.write_boot_loader(disk, &fs, options, progress)?;
            Ok(written)
        });
        match done {
            Ok(written) => fs.close().map(|()| written),
            Err(error) => {
                // The caller removes the image.
                let _ = fs.abandon();
                Err(match error.kind() {
                    ErrorKind::NoSpace => error
                        .with_hint("give a larger size to the filesystem with this file, or `fit`"),
                    _ => error,
                })
            }
        }
    }

    fn write_tables(&self, fs: &WritableFilesystem) -> Result<()> {
        if !self.has_fstab() {
            return Ok(());
        }
        fs.mkdir_all("/etc")?;
        fs.write("/etc/fstab", fstab::fstab(&self.slots))?;
        if let Some(text) = fstab::crypttab(&self.slots) {
            fs.write("/etc/crypttab", text)?;
        }
        Ok(())
    }

    fn write_boot_loader(
        &self,
        disk: &Disk,
        fs: &WritableFilesystem,
        options: &WriteOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let (Some(boot), Some(esp)) = (&self.boot, self.esp()) else {
            return Ok(());
        };
        let release = OsRelease::read(fs.reader());
        let or = |text: String, other: &str| {
            if text.is_empty() {
                other.to_owned()
            } else {
                text
            }
        };
        let title = or(release.pretty_name, "Linux");
        let files = boot.files(&or(release.id, UNKNOWN_SYSTEM), &title);
        let mount = esp.filesystem().and_then(|found| found.mount.as_deref());
        if let Some(mount) = mount {
            let mut files = files.iter();
            return files.try_for_each(|file| copy(file, fs, fs, &format!("/{mount}"), progress));
        }
        let own = disk.volume(&esp.volume)?.writable_filesystem(options)?;
        let mut files = files.iter();
        let copied = files.try_for_each(|file| copy(file, fs, &own, "", progress));
        match copied {
            Ok(()) => own.close(),
            Err(error) => {
                let _ = own.abandon();
                Err(error)
            }
        }
    }

    /// Returns the tree of all filesystems with mount points. Missing mount points are created.
    pub(crate) fn writable_tree(
        &self,
        disk: &Disk,
        options: &WriteOptions,
    ) -> Result<WritableFilesystem> {
        let root = root(&self.slots)?;
        let opened = disk.volume(&root.volume)?.writable_filesystem(options)?;
        let mut tree = MountTree::new(Driver::Writable(opened.driver()));
        for (path, slot) in self.mounted_below() {
            make_directories(&tree, path).map_err(|error| opened.in_image(error))?;
            let driver = disk
                .volume(&slot.volume)?
                .writable_filesystem(options)?
                .driver();
            tree.mount(path, move || Ok(Driver::Writable(Arc::clone(&driver))))?;
        }
        let (path, volume) = (disk.path(), &root.volume);
        Ok(WritableFilesystem::new(Arc::new(tree), path, volume))
    }

    /// Returns the same tree for reading.
    pub(crate) fn readable_tree(&self, disk: &Disk) -> Result<Filesystem> {
        let root = root(&self.slots)?;
        let opened = disk.volume(&root.volume)?.filesystem()?;
        let mut tree = MountTree::new(Driver::ReadOnly(opened.driver()));
        for (path, slot) in self.mounted_below() {
            let driver = disk.volume(&slot.volume)?.filesystem()?.driver();
            tree.mount(path, move || Ok(Driver::ReadOnly(Arc::clone(&driver))))?;
        }
        Ok(Filesystem::new(Arc::new(tree), disk.path(), &root.volume))
    }

    /// Returns the filesystems that are mounted below the root, each before those below it.
    fn mounted_below(&self) -> Vec<(&str, &Slot)> {
        let all = self.slots.iter().flat_map(Slot::all);
        let mut mounted: Vec<(&str, &Slot)> = all
            .filter_map(|slot| Some((slot.filesystem()?.mount.as_deref()?, slot)))
            .filter(|(path, _)| !path.is_empty())
            .collect();
        mounted.sort_by_key(|(path, _)| *path);
        mounted
    }
}

/// Creates a directory and its missing parents.
fn make_directories(fs: &dyn FsWrite, path: &str) -> vfs::Result<()> {
    let mut directory = fs.root();
    for name in path.split('/') {
        directory = match fs.lookup(directory, name.as_bytes()) {
            Err(error) if error.kind() == vfs::ErrorKind::NotFound => {
                let attributes = NewAttributes::for_root(0o755);
                fs.create(directory, name.as_bytes(), NewKind::Directory, &attributes)?
            }
            found => found?,
        };
    }
    Ok(())
}

/// Writes a file of the system partition, which is at `mount` of `to`.
fn copy(
    file: &EspFile,
    from: &WritableFilesystem,
    to: &WritableFilesystem,
    mount: &str,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    let path = format!("{mount}/{}", file.to);
    if let Some((directory, _)) = path
        .rsplit_once('/')
        .filter(|(directory, _)| !directory.is_empty())
    {
        to.mkdir_all(directory)?;
    }
    match &file.from {
        EspSource::Text(text) => to.write(&path, text),
        EspSource::Image { path: source, .. } => {
            let mut source = from.reader().open(format!("/{source}"))?;
            let mut copy = to.create(&path)?;
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                let read = source.read(&mut piece)?;
                if read == 0 {
                    return Ok(());
                }
                copy.write_all(piece.get(..read).unwrap_or_default())?;
                vfs::check_cancelled(progress(0))?;
            }
        }
    }
}
