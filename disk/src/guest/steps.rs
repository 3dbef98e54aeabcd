//! A system's tree as a kernel puts it together.

use super::System;
use super::plan::Verdict;
use crate::Volume;

/// What a kernel has to mount to show a system's tree, or only a volume's.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Steps {
    /// The volumes; the first one has the root.
    pub volumes: Vec<Volume>,
    /// The directory of the first one that is the root, without a slash at its end.
    pub root: Vec<u8>,
    /// What is shown below that root, directories before those below them.
    pub shown: Vec<Shown>,
}

/// A directory that is shown in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shown {
    /// Of which of the volumes it is.
    pub volume: usize,
    /// The directory that counts as that volume's root.
    pub root: Vec<u8>,
    /// Its path below that.
    pub dir: Vec<u8>,
    /// Where it is shown, below the tree's root.
    pub at: Vec<u8>,
}

impl Steps {
    /// Those for a volume by itself.
    pub fn of_volume(volume: Volume) -> Self {
        Self {
            volumes: vec![volume],
            root: Vec::new(),
            shown: Vec::new(),
        }
    }
}

impl System {
    /// What a kernel has to mount to show its tree. What the system could not mount is left out.
    pub fn steps(&self) -> Steps {
        let root = self.sub_root.as_ref().map(|found| found.root.clone());
        let mut steps = Steps {
            root: root.unwrap_or_default(),
            ..Steps::of_volume(self.volume.clone())
        };
        if let Some(at) = self.sub_root.as_ref().and_then(|found| found.whole_at) {
            steps.show(0, Vec::new(), Vec::new(), at.as_bytes());
        }
        for planned in &self.planned {
            let at = &planned.entry.at;
            match &planned.verdict {
                Verdict::Skip(_) => {}
                Verdict::Bind(from) => steps.show(0, steps.root.clone(), from.clone(), at),
                Verdict::Mount { volume, dir } => {
                    let index = steps.index_of(volume);
                    steps.show(index, Vec::new(), dir.clone(), at);
                }
            }
        }
        steps
    }
}

impl Steps {
    fn show(&mut self, volume: usize, root: Vec<u8>, dir: Vec<u8>, at: &[u8]) {
        self.shown.push(Shown {
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
