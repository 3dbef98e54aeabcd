//! The tree of a system: its filesystems, mounted as planned.

use diskfs_vfs::{self as vfs, Driver, MountHandle, MountTree};

use super::System;
use super::plan::Verdict;
use crate::{ErrorKind, Result, Volume, WriteOptions};

/// The purpose of a tree: reading or writing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Reading,
    Writing(WriteOptions),
}

/// The mount of a planned entry, or the reason why it is missing.
pub(super) type MountOutcome = std::result::Result<MountHandle, String>;

/// Opens the root filesystem of a system.
///
/// # Errors
/// As [`Volume::writable_filesystem`].
pub(super) fn open_root(system: &System, purpose: Purpose) -> Result<Driver> {
    Ok(match purpose {
        Purpose::Reading => Driver::ReadOnly(system.filesystem.driver()),
        Purpose::Writing(options) => {
            Driver::Writable(system.volume.writable_filesystem(&options)?.driver())
        }
    })
}

/// Returns a tree whose root is that of the system.
///
/// # Errors
/// The errors of opening the root.
pub(super) fn with_root(system: &System, purpose: Purpose) -> Result<MountTree> {
    let root = open_root(system, purpose)?;
    match &system.sub_root {
        None => Ok(MountTree::new(root)),
        Some(found) => {
            MountTree::below(root, &found.root).map_err(|error| system.filesystem.in_image(error))
        }
    }
}

/// The builder of a tree.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) tree: MountTree,
    purpose: Purpose,
    /// The mounts so far, by volume name: two writers of one volume would destroy it.
    mounted: Vec<(String, MountHandle)>,
}

impl Builder {
    pub(super) fn new(tree: MountTree, purpose: Purpose) -> Self {
        Self {
            tree,
            purpose,
            mounted: Vec::new(),
        }
    }

    /// Records that the root of the system is already mounted as `root`.
    pub(super) fn note_root(&mut self, system: &System, root: MountHandle) {
        self.mounted.push((system.volume.name().to_owned(), root));
    }

    /// Mounts the filesystems of a system whose root is at `prefix`. A mount that fails is left
    /// out, and its reason is returned at the index of its entry.
    pub(super) fn mount_all(&mut self, prefix: &[u8], system: &System) -> Vec<MountOutcome> {
        let below = |path: &[u8]| [prefix, b"/", path].concat();
        if let Some(whole_at) = system.sub_root.as_ref().and_then(|found| found.whole_at)
            && let Some(root) = self.handle(&system.volume)
            && let Err(error) = self.tree.mount_same(below(whole_at.as_bytes()), "", root)
        {
            tracing::warn!(%error, "cannot mount /{whole_at}");
        }
        let outcomes = system.planned.iter().map(|planned| {
            let at = below(&planned.entry.at);
            let mounted = match &planned.verdict {
                Verdict::Skip(reason) => return Err(reason.clone()),
                Verdict::Bind(from) => self.tree.bind(below(from), at),
                Verdict::Mount { volume, dir } => {
                    let code_page = planned.entry.code_page();
                    let volume = Volume::clone(volume);
                    let volume = match code_page {
                        Some(code_page) => volume.in_code_page(code_page),
                        None => volume,
                    };
                    self.mount(&at, dir, &volume)
                }
            };
            mounted.map_err(|error| reason(&error))
        });
        outcomes.collect()
    }

    fn handle(&self, volume: &Volume) -> Option<MountHandle> {
        let mut mounted = self.mounted.iter();
        let found = mounted.find(|(name, _)| name == volume.name());
        found.map(|(_, handle)| *handle)
    }

    /// Mounts a directory of a volume's filesystem; the root if `dir` is empty.
    pub(super) fn mount(
        &mut self,
        at: &[u8],
        dir: &[u8],
        volume: &Volume,
    ) -> vfs::Result<MountHandle> {
        if let Some(of) = self.handle(volume) {
            return self.tree.mount_same(at, dir, of);
        }
        let name = volume.name().to_owned();
        let (volume, purpose) = (volume.clone(), self.purpose);
        let handle = self.tree.mount_dir(at, dir, move || {
            open(&volume, purpose).map_err(crate::Error::into_vfs)
        })?;
        self.mounted.push((name, handle));
        Ok(handle)
    }
}

/// Returns the reason why an entry is not mounted, for a report.
pub(super) fn reason(error: &vfs::Error) -> String {
    match error.kind() {
        vfs::ErrorKind::NotFound => "no such directory in the guest".to_owned(),
        _ => error.to_string(),
    }
}

/// Opens the filesystem of a volume. A filesystem that can't be written is opened read-only.
fn open(volume: &Volume, purpose: Purpose) -> Result<Driver> {
    if let Purpose::Writing(options) = purpose {
        match volume.writable_filesystem(&options) {
            Ok(filesystem) => return Ok(Driver::Writable(filesystem.driver())),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                tracing::warn!(volume = volume.name(), %error, "mounted read-only");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Driver::ReadOnly(volume.filesystem()?.driver()))
}
