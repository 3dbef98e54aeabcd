//! Trees in which several systems, or several volumes without a system, have a directory each.

use std::sync::Arc;

use diskfs_vfs::{Driver, FsRead, FsWrite, MountPointFs, MountTree};

use super::System;
use super::tree::{self, Builder, Purpose};
use crate::{ContentClass, Disk, Error, Filesystem, Result, WritableFilesystem, WriteOptions};

/// Returns the trees of several systems, each in a directory with its number and name:
/// `1-debian-12`. Without systems, each readable volume is in a directory with the volume's name.
///
/// # Errors
/// As [`Disk::volumes`].
pub fn side_by_side(disk: &Disk, systems: Vec<System>) -> Result<Filesystem> {
    let tree: Arc<dyn FsRead> = Arc::new(assemble(disk, systems, Purpose::Reading)?);
    Ok(Filesystem::new(tree, disk.path(), "all"))
}

/// Returns the same tree as [`side_by_side`], opened for writing.
///
/// # Errors
/// As [`side_by_side`].
pub fn writable_side_by_side(
    disk: &Disk,
    systems: Vec<System>,
    options: &WriteOptions,
) -> Result<WritableFilesystem> {
    let tree = assemble(disk, systems, Purpose::Writing(*options))?;
    let tree: Arc<dyn FsWrite> = Arc::new(tree);
    Ok(WritableFilesystem::new(tree, disk.path(), "all"))
}

fn assemble(disk: &Disk, systems: Vec<System>, purpose: Purpose) -> Result<MountTree> {
    let in_file = |error| Error::from(error).in_file(disk.path());
    if systems.is_empty() {
        return of_volumes(disk, purpose);
    }
    let name =
        |(system, number): (&System, usize)| format!("{number}-{}", system.release().short_name());
    let names: Vec<String> = systems.iter().zip(1..).map(name).collect();
    let mut builder = Builder::new(mount_points(&names), purpose);
    let systems: Vec<Arc<System>> = systems.into_iter().map(Arc::new).collect();
    for (system, name) in systems.iter().zip(&names) {
        let of_root = Arc::clone(system);
        let dir = system.sub_root.as_ref();
        let dir = dir.map(|found| found.root.as_slice());
        let root = builder
            .tree
            .mount_dir(name, dir.unwrap_or_default(), move || {
                tree::open_root(&of_root, purpose).map_err(Error::into_vfs)
            });
        builder.note_root(system, root.map_err(in_file)?);
    }
    // All roots are mounted before the other filesystems: one system may mount the root of another.
    for (system, name) in systems.iter().zip(&names) {
        builder.mount_all(name.as_bytes(), system);
    }
    Ok(builder.tree)
}

fn mount_points(names: &[String]) -> MountTree {
    let mut dirs = MountPointFs::default();
    for name in names {
        dirs.add(name);
    }
    MountTree::new(Driver::ReadOnly(Arc::new(dirs)))
}

fn of_volumes(disk: &Disk, purpose: Purpose) -> Result<MountTree> {
    let mut shown = Vec::new();
    for volume in disk.volumes()? {
        let is_shown = volume.problem().is_none()
            && !disk.is_member(volume)?
            && volume
                .content()?
                .is_some_and(|content| content.class == ContentClass::Filesystem)
            && volume.is_readable()?;
        if is_shown {
            shown.push(volume);
        }
    }
    let names: Vec<String> = shown
        .iter()
        .map(|volume| volume.name().to_owned())
        .collect();
    let mut builder = Builder::new(mount_points(&names), purpose);
    for (volume, name) in shown.into_iter().zip(&names) {
        let mounted = builder.mount(name.as_bytes(), b"", volume);
        mounted.map_err(|error| Error::from(error).in_file(disk.path()))?;
    }
    Ok(builder.tree)
}
