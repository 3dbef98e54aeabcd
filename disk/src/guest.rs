//! The guest's own tree: its filesystems put together as its fstab and the like say.
//!
//! Nothing of the guest is run, and nothing is written to find out. What can't be mounted is left
//! out; [`System::explain`] tells what, and why.

pub mod architecture;
mod btrfs;
mod device;
mod entry;
mod explain;
mod filesystems;
mod gpt_auto;
mod mount_unit;
mod os_release;
mod ostree;
mod plan;
mod side_by_side;
mod steps;
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
pub use os_release::OsRelease;
pub use plan::{Planned, Verdict};
pub use side_by_side::{side_by_side, writable_side_by_side};
pub use steps::{Shown, Steps};
pub use unopened::{Unopened, no_system, unopened};

use crate::{
    ContentClass, Disk, Error, ErrorKind, Filesystem, Result, Volume, WritableFilesystem,
    WriteOptions,
};
use sub_root::SubRoot;
use tree::{Builder, Outcome, Purpose};
pub use windows::{in_any_case, windows_root};

/// An operating system on the disks of a machine.
#[derive(Debug)]
pub struct System {
    volume: Volume,
    filesystem: Filesystem,
    sub_root: Option<SubRoot>,
    release: OsRelease,
    planned: Vec<Planned>,
}

/// The operating systems on a machine's disks, in the order of the volumes that they have as their
/// roots. A volume is one when its contents say so, whatever a table calls it; one that does not open
/// is none. Volumes with filesystems that only Windows is on are looked at where nothing else is found.
///
/// # Errors
/// As [`Disk::volumes`].
pub fn systems(disk: &Disk) -> Result<Vec<System>> {
    let found = systems_on(disk, |kind| !is_foreign(kind), System::on)?;
    if !found.is_empty() {
        return Ok(found);
    }
    // Opening an NTFS takes a microVM, which nobody shall wait for whose system is another.
    let of_windows = |kind: &str| matches!(kind, "ntfs" | "vfat" | "exfat");
    systems_on(disk, of_windows, |_, volume, filesystem| {
        System::of_windows(volume, filesystem)
    })
}

/// The systems on filesystems of some kinds.
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
            Err(error) => tracing::warn!(volume = volume.name(), %error, "not opened"),
        }
    }
    Ok(systems)
}

/// Filesystems that no system of Unix is on.
fn is_foreign(kind: &str) -> bool {
    matches!(
        kind,
        "vfat" | "exfat" | "iso9660" | "ntfs" | "hfs" | "hfsplus" | "udf"
    )
}

/// Whether a volume holds a filesystem of such a kind that can be read.
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

/// The system that is meant when no volume is named: the one of that number from 1, or the only one;
/// `None` when there is none.
///
/// # Errors
/// As [`systems`]; `Ambiguous` for several without a number, `NotFound` for a number that is none's.
pub fn meant(disk: &Disk, number: Option<usize>) -> Result<Option<System>> {
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
            let reason = format!("there is no operating system {number}; there is: {list}");
            Error::new(ErrorKind::NotFound, reason)
        }
        None => {
            let reason = format!("several operating systems could be meant: {list}");
            let hint = format!(
                "name one, as in --os 1 or --volume {}",
                systems[0].volume.name()
            );
            Error::new(ErrorKind::Ambiguous, reason).with_hint(hint)
        }
    }
    .in_file(disk.path()))
}

impl System {
    /// The system on a volume, if there is one.
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
        system.look_at_own_tree(disk);
        Some(system)
    }

    /// Takes what the system's own files say, as it sees them itself: its `/usr` may be mounted.
    fn look_at_own_tree(&mut self, disk: &Disk) {
        match self.filesystem() {
            Ok(seen) => {
                self.release = OsRelease::read(&seen);
                plan::add_partitions_by_type(disk, &seen, &mut self.planned);
            }
            Err(error) => tracing::warn!(volume = self.volume.name(), %error, "no tree"),
        }
    }

    /// The Windows on a volume, if there is one.
    fn of_windows(volume: &Volume, filesystem: Filesystem) -> Option<Self> {
        Some(Self {
            release: windows::find(&filesystem)?,
            volume: volume.clone(),
            filesystem,
            sub_root: None,
            planned: Vec::new(),
        })
    }

    /// The volume with its root.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// What it calls itself.
    pub fn release(&self) -> &OsRelease {
        &self.release
    }

    /// Its name for people.
    pub fn name(&self) -> &str {
        match self.release.pretty_name.as_str() {
            "" => "Linux",
            name => name,
        }
    }

    /// What it mounts beside its root.
    pub fn planned(&self) -> &[Planned] {
        &self.planned
    }

    /// Its tree, as it sees it itself. Filesystems besides the root are opened when somebody first
    /// comes there.
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

    /// The same, opened for writing. A filesystem in it that can't be written is read.
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
        let is_skipped = |planned: &Planned| matches!(planned.verdict, Verdict::Skip(_));
        self.sub_root.is_none() && planned.all(is_skipped)
    }

    /// Its filesystems, and how each of the planned mounts went.
    fn tree(&self, purpose: Purpose) -> Result<(MountTree, Vec<Outcome>)> {
        let mut builder = Builder::new(tree::with_root(self, purpose)?, purpose);
        builder.note_root(self, MountHandle::ROOT);
        let outcomes = builder.mount_all(b"", self);
        Ok((builder.tree, outcomes))
    }
}
