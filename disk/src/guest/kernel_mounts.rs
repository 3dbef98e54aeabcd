//! The mounts that a kernel makes to build a system's tree.

use super::System;
use super::plan::Verdict;
use crate::Volume;

/// The mounts that a kernel must make to show the tree of a system or of a single volume.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KernelMounts {
    /// The volumes; the first one has the root.
    pub volumes: Vec<Volume>,
    /// The directory of the first volume that is the root, without a trailing slash.
    pub root: Vec<u8>,
    /// The mounts below that root. Parent directories come before the directories below them.
    pub mounts: Vec<KernelMount>,
}

/// A directory that is mounted in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelMount {
    /// The index of its volume.
    pub volume: usize,
    /// The directory of that volume that serves as the root of the filesystem.
    pub root: Vec<u8>,
    /// The path of the mounted directory below `root`.
    pub dir: Vec<u8>,
    /// The mount point, relative to the root of the tree.
    pub at: Vec<u8>,
}

impl KernelMounts {
    /// Returns the mounts of a single volume.
    pub fn of_volume(volume: Volume) -> Self {
        Self {
            volumes: vec![volume],
            root: Vec::new(),
            mounts: Vec::new(),
        }
    }
}

impl System {
    /// Returns the mounts that a kernel must make to show the tree of the system. Mounts that
    /// failed are left out.
    pub fn kernel_mounts(&self) -> KernelMounts {
        let root = self.sub_root.as_ref().map(|found| found.root.clone());
        let mut mounts = KernelMounts {
            root: root.unwrap_or_default(),
            ..KernelMounts::of_volume(self.volume.clone())
        };
        if let Some(at) = self.sub_root.as_ref().and_then(|found| found.whole_at) {
            mounts.show(0, Vec::new(), Vec::new(), at.as_bytes());
        }
        for planned in &self.planned {
            let at = &planned.entry.at;
            match &planned.verdict {
                Verdict::Skip(_) => {}
                Verdict::Bind(from) => mounts.show(0, mounts.root.clone(), from.clone(), at),
                Verdict::Mount { volume, dir } => {
                    let index = mounts.index_of(volume);
                    mounts.show(index, Vec::new(), dir.clone(), at);
                }
            }
        }
        mounts
    }
}

impl KernelMounts {
    fn show(&mut self, volume: usize, root: Vec<u8>, dir: Vec<u8>, at: &[u8]) {
        self.mounts.push(KernelMount {
            volume,
            root,
            dir,
            at: at.to_vec(),
        });
    }

    fn index_of(&mut self, volume: &Volume) -> usize {
        let mut known = self.volumes.iter();
        known
            .position(|known| known.name() == volume.name())
            .unwrap_or_else(|| {
                self.volumes.push(volume.clone());
                self.volumes.len() - 1
            })
    }
}
