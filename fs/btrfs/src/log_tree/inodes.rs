//! The first pass: inodes.

use super::Replay;
use super::inode::Inode;
use crate::error::Result;

impl Replay<'_> {
    /// Replays the inode item with this number: what is not in the log any more is removed.
    pub(super) fn replay_inode(&mut self, number: u64) -> Result<()> {
        let logged = self.log.existing_inode(number)?;
        self.remove_attributes(number)?;
        if logged.is_dir() {
            self.remove_entries(number)?;
        }
        let mut inode = self.overwritten(number, logged)?;
        if inode.is_regular() {
            // Preallocated extents past the end are in the log if they are still there.
            let end = inode
                .size()
                .checked_next_multiple_of(self.subvolume.sector_bytes());
            let dropped = match end {
                Some(end) => self.drop_extents(number, end..u64::MAX)?,
                None => 0,
            };
            inode.set_nbytes(inode.nbytes().saturating_sub(dropped));
        }
        self.subvolume.set_inode(number, inode)?;
        self.fix_later(number)
    }

    /// Returns what the logged inode becomes in the subvolume.
    fn overwritten(&self, number: u64, mut logged: Inode) -> Result<Inode> {
        let Some(mut existing) = self.subvolume.inode(number)? else {
            // Extents and names add to these.
            logged.set_nbytes(0);
            if logged.is_dir() {
                logged.set_size(0);
            }
            if logged.generation() == 0 {
                logged.set_generation(self.generation);
            }
            return Ok(logged);
        };
        if logged.generation() == 0 {
            // Logged only so that it exists. A size other than 0 was synced before.
            if logged.is_regular() && existing.is_regular() && logged.size() != 0 {
                existing.set_size(logged.size());
            }
            return Ok(existing);
        }
        logged.set_nbytes(existing.nbytes());
        if logged.is_dir() {
            let size = if existing.is_dir() {
                existing.size()
            } else {
                0
            };
            logged.set_size(size);
        }
        Ok(logged)
    }
}
