//! Claims of blocks and inodes that are known to be in use, whatever the bitmaps say: the replay of
//! fast commits needs them.

use crate::block::FsBlock;
use crate::error::{Result, Structure, malformed};
use crate::transaction::TransactionHandle;

use super::Allocator;
use super::bits::{Bits, Run};

impl Allocator {
    /// Claims blocks, including those that this transaction freed; with bigalloc, all clusters that
    /// they touch. Returns how many were free.
    ///
    /// # Errors
    /// `Corrupt` if they hold metadata at a fixed place; `Io`.
    pub(crate) fn claim_blocks(
        &self,
        handle: &TransactionHandle<'_>,
        first: FsBlock,
        len_blocks: u32,
    ) -> Result<u64> {
        let parts = self.geometry.parts(first, u64::from(len_blocks));
        let mut clusters = 0u64;
        for (group, part) in parts.into_iter().flatten() {
            let taken = self.claim_in_group(handle, group, part)?;
            clusters = clusters.saturating_add(u64::from(taken));
        }
        Ok(clusters.wrapping_shl(self.geometry.cluster_bits))
    }

    fn claim_in_group(
        &self,
        handle: &TransactionHandle<'_>,
        number: u32,
        part: Run,
    ) -> Result<u32> {
        let Some(mut group) = self.group(number) else {
            return Ok(0);
        };
        let held = group.release(part);
        self.counters.release(held);
        let mut taken = 0u32;
        let mut from = part.start;
        loop {
            let bitmap = self.block_bitmap(handle.volume(), number, &group.descriptor)?;
            let bits = Bits::new(&bitmap.bytes, None, self.geometry.clusters_in(number));
            let Some(start) = bits.next_clear(from).filter(|&start| start < part.end()) else {
                return Ok(taken);
            };
            let end = bits.next_set(start, part.end());
            let len = end.saturating_sub(start);
            self.counters.claim(len, 0);
            self.allocate_run(handle, number, &mut group, bitmap, Run { start, len })?;
            taken = taken.saturating_add(len);
            from = end;
        }
    }

    /// Claims an inode if it is free.
    ///
    /// # Errors
    /// `Corrupt` if no inode has this number; `Io`.
    pub(crate) fn claim_inode(
        &self,
        handle: &TransactionHandle<'_>,
        number: u32,
        is_dir: bool,
    ) -> Result<()> {
        let place = self.geometry.inode_place(number);
        let Some((group_number, nth)) = place else {
            let problem = "no such inode in the filesystem";
            return Err(malformed(Structure::Inode(number), problem));
        };
        let Some(mut group) = self.group(group_number) else {
            return Ok(());
        };
        let bitmap = self.inode_bitmap(handle.volume(), group_number, &group.descriptor)?;
        let bits = Bits::new(&bitmap.bytes, None, self.geometry.inodes_per_group);
        if bits.next_clear(nth) != Some(nth) {
            return Ok(());
        }
        self.take_nth_inode(handle, group_number, &mut group, nth, is_dir)
    }
}
