//! A system's tree: its filesystems, put together as planned.

use diskfs_vfs::{self as vfs, Driver, MountHandle, MountTree};

use super::System;
use super::plan::Verdict;
use crate::{ErrorKind, Result, Volume, WriteOptions};

/// What a tree is put together for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Reading,
    Writing(WriteOptions),
}

/// Where a planned mount is in the tree, or why it is not.
pub(super) type Outcome = std::result::Result<MountHandle, String>;

/// Opens a system's root.
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

/// A tree with the system's root as its own.
///
/// # Errors
/// As opening it.
pub(super) fn with_root(system: &System, purpose: Purpose) -> Result<MountTree> {
    let root = open_root(system, purpose)?;
    match &system.sub_root {
        None => Ok(MountTree::new(root)),
        Some(found) => {
            MountTree::below(root, &found.root).map_err(|error| system.filesystem.in_image(error))
        }
    }
}

/// A tree that is being put together.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) tree: MountTree,
    purpose: Purpose,
    /// What is mounted already, by the names of the volumes: two writers of one would destroy it.
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

    /// The root of the system is at `root` already.
    pub(super) fn note_root(&mut self, system: &System, root: MountHandle) {
        self.mounted.push((system.volume.name().to_owned(), root));
    }

    /// Mounts the filesystems of a system whose root is at `prefix`. What can't be mounted is left
    /// out, and told in the place of its entry.
    pub(super) fn mount_all(&mut self, prefix: &[u8], system: &System) -> Vec<Outcome> {
        let below = |path: &[u8]| [prefix, b"/", path].concat();
        if let Some(whole_at) = system.sub_root.as_ref().and_then(|found| found.whole_at)
            && let Some(root) = self.handle(&system.volume)
            && let Err(error) = self.tree.mount_same(below(whole_at.as_bytes()), "", root)
        {
            tracing::warn!(%error, "no /{whole_at}");
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

    /// Mounts a directory of a volume's filesystem; all of it when `dir` is empty.
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

/// Why something is not mounted.
pub(super) fn reason(error: &vfs::Error) -> String {
    match error.kind() {
        vfs::ErrorKind::NotFound => "the guest has no such directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Opens the filesystem of a volume. One that can't be written is read.
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
