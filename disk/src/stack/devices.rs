//! The devices of the filesystem on a volume.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};

use super::btrfs;
use super::volume::Volume;
use crate::Result;

impl Volume {
    /// Returns the devices of its filesystem: its own, and the others of a btrfs over several. The
    /// own one is the first.
    ///
    /// # Errors
    /// `NotFound` if another device is missing; as [`device`](Self::device).
    pub fn devices(&self) -> Result<Vec<Arc<dyn BlockRead>>> {
        let own = self.device()?;
        let others = self.other_volumes(&own)?;
        let others = others.into_iter().map(Self::device);
        std::iter::once(Ok(own)).chain(others).collect()
    }

    /// Returns the devices of its filesystem for writing.
    ///
    /// # Errors
    /// As [`devices`](Self::devices); `ReadOnly` if a disk is open read-only.
    pub fn writable_devices(&self) -> Result<Vec<Arc<dyn BlockWrite>>> {
        let own = self.writable_device()?;
        let others = self.other_volumes(&(Arc::clone(&own) as _))?;
        let others = others.into_iter().map(Self::writable_device);
        std::iter::once(Ok(own)).chain(others).collect()
    }

    /// Returns the volumes that have the other devices of its filesystem.
    fn other_volumes(&self, own: &Arc<dyn BlockRead>) -> Result<Vec<&Self>> {
        match self.content()? {
            Some(content) if content.kind == btrfs::KIND => {
                btrfs::other_volumes(self, own).map_err(|error| self.in_image(error))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the number of volumes of the disk that the fallback supports. A volume that can't be
    /// read does not count.
    pub(super) fn fallback_volumes(&self) -> usize {
        let is_supported = |volume: &&Self| {
            let content = volume.content().ok().flatten();
            volume.problem().is_none()
                && content.is_some_and(|content| volume.fallback_for(content).is_some())
        };
        self.beside().iter().filter(is_supported).count()
    }
}
