//! The trees that have changed their owner.

use std::collections::HashSet;

use crate::error::{Result, unsupported};

use super::inode_format::{InodeFormat, LoggedParts};

/// The largest number of inodes whose trees are visited.
const INODES_MAX: usize = 4096;

/// The inodes with forks whose trees have changed their owner.
#[derive(Debug, Default)]
pub(super) struct OwnerChanges {
    pub(super) data: HashSet<u64>,
    pub(super) attributes: HashSet<u64>,
}

impl OwnerChanges {
    /// Adds the forks of an inode item.
    ///
    /// # Errors
    /// `Unsupported` for too many inodes.
    pub(super) fn add(&mut self, format: &InodeFormat) -> Result<()> {
        if format.parts.contains(LoggedParts::DATA_OWNER) {
            self.data.insert(format.inode);
        }
        if format.parts.contains(LoggedParts::ATTRIBUTE_OWNER) {
            self.attributes.insert(format.inode);
        }
        if self.data.len().saturating_add(self.attributes.len()) <= INODES_MAX {
            return Ok(());
        }
        let reason = format!("unsupported log: more than {INODES_MAX} trees change their owner");
        Err(unsupported(reason))
    }
}
