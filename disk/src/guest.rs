//! Operating systems on a disk, and each one's directory tree: its filesystems mounted as its fstab
//! and similar files say.
//!
//! No program of the guest runs, and nothing is written. Mounts that fail are left out;
//! [`System::explain`] lists them with the reasons.

pub mod architecture;
mod btrfs;
mod device;
mod entry;
mod explain;
mod filesystems;
mod gpt_auto;
mod kernel_mounts;
mod mount_unit;
mod os_release;
mod ostree;
mod plan;
mod side_by_side;
mod sub_root;
mod tree;
mod unopened;
mod usr;
mod windows;

use std::sync::Arc;

use diskfs_vfs::{FsRead, FsWrite, MountHandle, MountTree};

pub use entry::{MountEntry, Origin};
pub use explain::{MountReport, SystemReport, VolumeUse, unused_volumes};
pub use filesystems::{MountedFilesystem, mounted};
pub use kernel_mounts::{KernelMount, KernelMounts};
pub use os_release::OsRelease;
pub use plan::{PlannedMount, Verdict};
pub use side_by_side::{side_by_side, writable_side_by_side};
pub use unopened::{Unopened, no_system, unopened};

use crate::{
    ContentClass, Disk, Error, ErrorKind, Filesystem, Result, Volume, WritableFilesystem,
    WriteOptions,
};
use sub_root::SubRoot;
use tree::{Builder, MountOutcome, Purpose};
pub use windows::{in_any_case, windows_root};

/// An operating system on the disks of a machine.
#[derive(Debug)]
pub struct System {
    volume: Volume,
    filesystem: Filesystem,
    sub_root: Option<SubRoot>,
    release: OsRelease,
    planned: Vec<PlannedMount>,
}

/// Returns the operating systems on a machine's disks, in the order of their root volumes. A volume
/// is a root if its files say so, whatever the partition table says; a volume that can't be opened
/// is not. Filesystems that only Windows uses are searched only if no other system is found.
///
/// # Errors
/// As [`Disk::volumes`].
pub fn systems(disk: &Disk) -> Result<Vec<System>> {
    let found = systems_on(disk, |kind| !is_foreign(kind), System::on)?;
    if !found.is_empty() {
        return Ok(found);
    }
    // Opening an NTFS starts a microVM, so it is avoided where another filesystem has a system.
    let of_windows = |kind: &str| matches!(kind, "ntfs" | "vfat" | "exfat");
    systems_on(disk, of_windows, |_, volume, filesystem| {
        System::of_windows(volume, filesystem)
    })
}

/// Returns the systems on filesystems of certain kinds.
fn systems_on(
    disk: &Disk,
    is_wanted: fn(&str) -> bool,
    find: fn(&Disk, &Volume, Filesystem) -> Option<System>,
) -> Result<Vec<System>> {
    let mut systems = Vec::new();
    for volume in disk.volumes()? {
        if !may_be_root(disk, volume, is_wanted)? {
            continue;
        }
        match volume.filesystem() {
            Ok(filesystem) => systems.extend(find(disk, volume, filesystem)),
            Err(error) => {
                tracing::warn!(volume = volume.name(), %error, "cannot open the volume");
            }
        }
    }
    Ok(systems)
}

/// Returns true for kinds of filesystems that no Unix system has as its root.
fn is_foreign(kind: &str) -> bool {
    matches!(
        kind,
        "vfat" | "exfat" | "iso9660" | "ntfs" | "hfs" | "hfsplus" | "udf"
    )
}

/// Returns true if a volume holds a readable filesystem of a wanted kind.
fn may_be_root(disk: &Disk, volume: &Volume, is_wanted: fn(&str) -> bool) -> Result<bool> {
    if volume.problem().is_some() || disk.is_member(volume)? {
        return Ok(false);
    }
    let Ok(content) = volume.content() else {
        return Ok(false);
    };
    Ok(content.is_some_and(|content| {
        content.class == ContentClass::Filesystem && is_wanted(content.kind)
    }) && volume.is_readable()?)
}

/// Returns the system to use if the user names no volume: the one with that number, from 1, or the
/// only one. Returns `None` if there is no system and no number was given.
///
/// # Errors
/// As [`systems`]; `Ambiguous` for several systems without a number; `NotFound` if no system has
/// the number.
pub fn select_system(disk: &Disk, number: Option<usize>) -> Result<Option<System>> {
    let mut systems = systems(disk)?;
    let index = match number {
        Some(number) => number.checked_sub(1).filter(|index| *index < systems.len()),
        None if systems.is_empty() => return Ok(None),
        None => Some(0).filter(|_| systems.len() == 1),
    };
    if let Some(index) = index {
        return Ok(Some(systems.swap_remove(index)));
    }
    let list: Vec<String> = systems
        .iter()
        .zip(1..)
        .map(|(system, number)| format!("{number} ({} on {})", system.name(), system.volume.name()))
        .collect();
    let list = list.join(", ");
    Err(match number {
        Some(_) if systems.is_empty() => no_system(disk),
        Some(number) => {
            let reason = format!("no such operating system: {number}; available: {list}");
            Error::new(ErrorKind::NotFound, reason)
        }
        None => {
            let reason = format!("several operating systems found: {list}");
            let hint = format!(
                "choose one, for example --os 1 or --volume {}",
                systems[0].volume.name()
            );
            Error::new(ErrorKind::Ambiguous, reason).with_hint(hint)
        }
    }
    .in_file(disk.path()))
}

impl System {
    /// Returns the system on a volume, if the volume has one.
    fn on(disk: &Disk, volume: &Volume, filesystem: Filesystem) -> Option<Self> {
        let mut sub_root = ostree::find(&filesystem);
        if sub_root.is_none() && !filesystem.holds_system().unwrap_or(false) {
            let content = volume.content().ok().flatten();
            sub_root = content
                .filter(|content| content.kind == "btrfs")
                .and_then(|_| btrfs::find(&filesystem));
            if sub_root.is_none() {
                return Self::of_windows(volume, filesystem);
            }
        }
        let planned = plan::make(disk, &filesystem, volume, sub_root.as_ref());
        let mut system = Self {
            volume: volume.clone(),
            filesystem,
            sub_root,
            release: OsRelease::default(),
            planned,
        };
        system.read_own_tree(disk);
        Some(system)
    }

    /// Reads the release and adds mounts by partition type, both from the system's own tree: `/usr`
    /// may be a mount.
    fn read_own_tree(&mut self, disk: &Disk) {
        match self.filesystem() {
            Ok(seen) => {
                self.release = OsRelease::read(&seen);
                plan::add_partitions_by_type(disk, &seen, &mut self.planned);
            }
            Err(error) => {
                tracing::warn!(volume = self.volume.name(), %error, "cannot read the tree");
            }
        }
    }

    /// Returns the Windows installation on a volume, if the volume has one.
    fn of_windows(volume: &Volume, filesystem: Filesystem) -> Option<Self> {
        Some(Self {
            release: windows::find(&filesystem)?,
            volume: volume.clone(),
            filesystem,
            sub_root: None,
            planned: Vec::new(),
        })
    }

    /// Returns the volume of the root filesystem.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Returns the contents of `os-release`.
    pub fn release(&self) -> &OsRelease {
        &self.release
    }

    /// Returns the name of the system for people.
    pub fn name(&self) -> &str {
        match self.release.pretty_name.as_str() {
            "" => "Linux",
            name => name,
        }
    }

    /// Returns the mounts that the system plans besides its root.
    pub fn planned(&self) -> &[PlannedMount] {
        &self.planned
    }

    /// Returns the directory tree as the system itself sees it. Filesystems besides the root are
    /// opened at first access.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn filesystem(&self) -> Result<Filesystem> {
        if self.is_one_filesystem() {
            return Ok(self.filesystem.clone());
        }
        let fs: Arc<dyn FsRead> = Arc::new(self.tree(Purpose::Reading)?.0);
        let image = self.filesystem.image_path();
        Ok(Filesystem::new(fs, image, self.volume.name()))
    }

    /// Returns the directory tree of the system, opened for writing. Filesystems besides the root
    /// that can't be written are opened read-only.
    ///
    /// # Errors
    /// As [`Volume::writable_filesystem`] of the root.
    pub fn writable_filesystem(&self, options: &WriteOptions) -> Result<WritableFilesystem> {
        if self.is_one_filesystem() {
            return self.volume.writable_filesystem(options);
        }
        let fs: Arc<dyn FsWrite> = Arc::new(self.tree(Purpose::Writing(*options))?.0);
        let image = self.filesystem.image_path();
        Ok(WritableFilesystem::new(fs, image, self.volume.name()))
    }

    fn is_one_filesystem(&self) -> bool {
        let mut planned = self.planned.iter();
        let is_skipped = |planned: &PlannedMount| matches!(planned.verdict, Verdict::Skip(_));
        self.sub_root.is_none() && planned.all(is_skipped)
    }

    /// Returns the tree of filesystems, and the outcome of each planned mount.
    fn tree(&self, purpose: Purpose) -> Result<(MountTree, Vec<MountOutcome>)> {
        let mut builder = Builder::new(tree::with_root(self, purpose)?, purpose);
        builder.note_root(self, MountHandle::ROOT);
        let outcomes = builder.mount_all(b"", self);
        Ok((builder.tree, outcomes))
    }
}
