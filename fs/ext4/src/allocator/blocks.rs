//! Allocation of blocks in runs as long as possible near a goal, and freeing.

use std::sync::atomic::Ordering;

use crate::block::FsBlock;
use crate::error::{Error, ErrorKind, Result, Structure, malformed};
use crate::group_descriptor::GroupFlags;
use crate::metadata_cache::Key;
use crate::transaction::{FreedRun, TransactionHandle};

use super::Allocator;
use super::bits::{self, Bits, Run};
use super::block_bitmap::{Bitmap, stored};
use super::group::Group;

/// A request for blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// The preferred start: after the file's last block, or near its inode.
    pub(crate) goal: FsBlock,
    /// The number of blocks wanted, at least 1. With bigalloc it is a multiple of the cluster size,
    /// and the allocated run begins with a cluster.
    pub(crate) len_blocks: u32,
    /// The number of following blocks to preallocate for a growing file: they are given to the next
    /// request that has the first of them as its goal. 0 for none. Others get them when they find
    /// little else.
    pub(crate) preallocate_blocks: u32,
    /// The use of the root reserve.
    pub(crate) reserve: Reserve,
}

/// The use of the root reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserve {
    Keep,
    Use,
    /// Use clusters that [`Allocator::reserve`] reserved before. The clusters that are allocated
    /// are no longer counted as reserved.
    Own,
}

/// An allocated run of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocated {
    pub(crate) first: FsBlock,
    /// The length of the run: at least 1, at most what was requested.
    pub(crate) len_blocks: u32,
}

/// The divisor of the wanted length that gives the shortest run to accept while preallocated blocks
/// remain. Shorter runs are taken only when nothing is preallocated any more.
const SHORT_SHARE: u32 = 8;

/// A search, in clusters.
#[derive(Debug, Clone, Copy)]
struct Search {
    /// The group and the cluster where the search begins.
    goal: (u32, u32),
    wanted: u32,
    /// The minimum length of a run; shorter runs are skipped.
    least: u32,
    /// The number of clusters to preallocate after the run.
    preallocate: u32,
}

impl Search {
    /// Returns the cluster where the search in a group begins.
    fn start_in(&self, group: u32) -> u32 {
        if group == self.goal.0 { self.goal.1 } else { 0 }
    }
}

impl Allocator {
    /// Allocates one contiguous run: the nearest one after the goal that has the requested length,
    /// else a shorter one.
    ///
    /// # Errors
    /// `NoSpace`; if all free blocks become usable only after a commit, the handle is marked with
    /// [`TransactionHandle::note_held_space`]. `Corrupt`, `Io`.
    pub(crate) fn allocate(
        &self,
        handle: &TransactionHandle<'_>,
        request: Request,
    ) -> Result<Allocated> {
        let bits = self.geometry.cluster_bits;
        let wanted = request.len_blocks.max(1).div_ceil(1u32.wrapping_shl(bits));
        let wanted = wanted.min(self.geometry.clusters_per_group());
        let claimed = match request.reserve {
            Reserve::Keep => self.counters.claim(wanted, self.reserve_clusters),
            Reserve::Use => self.counters.claim(wanted, 0),
            Reserve::Own => Some(wanted),
        };
        let claimed =
            claimed.ok_or_else(|| self.full(handle.volume(), "no space left: no free blocks"))?;
        let found = self.search(handle, request, claimed);
        let used = found
            .as_ref()
            .map_or(0, |found| found.map_or(0, |(_, run)| run.len));
        if request.reserve != Reserve::Own {
            let unused = claimed.saturating_sub(used);
            self.counters.add_free(u64::from(unused));
        }
        match found? {
            Some((group, run)) => Ok(Allocated {
                first: self.geometry.block_of(group, run.start),
                len_blocks: run.len.wrapping_shl(bits),
            }),
            None => Err(self.nothing_found(handle)),
        }
    }

    /// Reserves clusters for a later allocation, all or none. Returns true on success.
    pub(crate) fn reserve(&self, clusters: u64) -> bool {
        let Ok(wanted) = u32::try_from(clusters) else {
            return false;
        };
        if wanted == 0 {
            return true;
        }
        match self.counters.claim(wanted, self.reserve_clusters) {
            Some(claimed) if claimed == wanted => true,
            claimed => {
                self.counters.add_free(u64::from(claimed.unwrap_or(0)));
                false
            }
        }
    }

    /// Releases reserved clusters that were not used.
    pub(crate) fn unreserve(&self, clusters: u64) {
        self.counters.add_free(clusters);
    }

    /// Returns the error for a search without a result although blocks are counted as free: they
    /// are held until a commit, or another thread is allocating them.
    fn nothing_found(&self, handle: &TransactionHandle<'_>) -> Error {
        if self.counters.held_clusters() > 0 {
            handle.note_held_space();
            return no_space(
                "no space left: all free blocks become usable only with the next commit",
            );
        }
        self.full(handle.volume(), "no space left: no free blocks")
    }

    fn search(
        &self,
        handle: &TransactionHandle<'_>,
        request: Request,
        wanted: u32,
    ) -> Result<Option<(u32, Run)>> {
        let goal = self.geometry.place(request.goal).unwrap_or((0, 0));
        let search = |least| Search {
            goal,
            wanted,
            least,
            preallocate: request
                .preallocate_blocks
                .wrapping_shr(self.geometry.cluster_bits),
        };
        let found = self.search_down_to(handle, search, wanted.wrapping_div(SHORT_SHARE).max(1))?;
        if found.is_some() {
            return Ok(found);
        }
        self.release_all_preallocated();
        self.search_down_to(handle, search, 1)
    }

    /// Searches for a run of the wanted length, then for half of that, and so on.
    fn search_down_to(
        &self,
        handle: &TransactionHandle<'_>,
        search: impl Fn(u32) -> Search,
        shortest: u32,
    ) -> Result<Option<(u32, Run)>> {
        let mut least = search(0).wanted;
        while least >= shortest {
            let found = self.search_groups(handle, search(least))?;
            if found.is_some() {
                return Ok(found);
            }
            least = least.wrapping_div(2);
        }
        Ok(None)
    }

    /// Releases everything that is preallocated for growing files.
    fn release_all_preallocated(&self) {
        if !self.has_preallocated.swap(false, Ordering::SeqCst) {
            return;
        }
        for number in 0..self.geometry.groups {
            if let Some(mut group) = self.group(number) {
                group.release_all_preallocated();
                self.note_released(number, &mut group);
            }
        }
    }

    fn note_released(&self, number: u32, group: &mut Group) {
        if let Some(summary) = self.summary(number) {
            summary.raise_longest_run(group.take_released_run_max());
        }
    }

    fn search_groups(
        &self,
        handle: &TransactionHandle<'_>,
        search: Search,
    ) -> Result<Option<(u32, Run)>> {
        for group in self.geometry.groups_from(search.goal.0) {
            if group >= self.allocatable.groups {
                continue;
            }
            let longest = self.summary(group).map_or(0, super::Summary::longest_run);
            if longest < search.least {
                continue;
            }
            if let Some(run) = self.take_in_group(handle, group, search)? {
                return Ok(Some((group, run)));
            }
        }
        Ok(None)
    }

    /// Allocates a run in one group if the group has one that is long enough.
    fn take_in_group(
        &self,
        handle: &TransactionHandle<'_>,
        number: u32,
        search: Search,
    ) -> Result<Option<Run>> {
        let Some(mut group) = self.group(number) else {
            return Ok(None);
        };
        let bitmap = self.block_bitmap(handle.volume(), number, &group.descriptor)?;
        if number == search.goal.0 {
            group.release_preallocated(search.goal.1);
            self.note_released(number, &mut group);
        }
        let search = self.attainable(number, search);
        let found = self.find_in_group(number, &group, &bitmap, search);
        let len = found.map_or(0, |run| run.len);
        if let Some(summary) = self.summary(number)
            && len < search.wanted
        {
            summary.set_longest_run(len);
        }
        let Some(run) = found.filter(|run| run.len >= search.least) else {
            return Ok(None);
        };
        self.preallocate_after(number, &mut group, &bitmap, run, search.preallocate);
        self.allocate_run(handle, number, &mut group, bitmap, run)?;
        Ok(Some(run))
    }

    /// Limits a search to the longest run that the group is known to have. When only short runs are
    /// left, the search then takes the first of them, and does not examine all of them each time.
    fn attainable(&self, number: u32, search: Search) -> Search {
        let longest = self.summary(number).map_or(0, super::Summary::longest_run);
        Search {
            wanted: search.wanted.min(longest.max(search.least)),
            ..search
        }
    }

    /// Returns the first run after the goal that is long enough, or the longest one.
    fn find_in_group(
        &self,
        number: u32,
        group: &Group,
        bitmap: &Bitmap,
        search: Search,
    ) -> Option<Run> {
        let len = self.allocatable.clusters_in(number);
        let bits = Bits::new(&bitmap.bytes, group.held_words(), len);
        let from = search.start_in(number);
        let behind = bits.find_run(from..len, search.wanted);
        match behind {
            Some(run) if run.len >= search.wanted => behind,
            _ => longer(bits.find_run(0..from, search.wanted), behind),
        }
    }

    /// Preallocates the free clusters after a run, at most `len` of them.
    fn preallocate_after(
        &self,
        number: u32,
        group: &mut Group,
        bitmap: &Bitmap,
        run: Run,
        len: u32,
    ) {
        let clusters = self.geometry.clusters_in(number);
        let bits = Bits::new(&bitmap.bytes, group.held_words(), clusters);
        let start = run.end();
        let free = bits.next_set(start, u32::MAX).saturating_sub(start);
        let len = len.min(free);
        if len > 0 {
            group.preallocate(&self.geometry, Run { start, len }, free);
            self.has_preallocated.store(true, Ordering::SeqCst);
            self.note_released(number, group);
        }
    }

    /// Allocates a run that is free in the bitmap.
    pub(super) fn allocate_run(
        &self,
        handle: &TransactionHandle<'_>,
        number: u32,
        group: &mut Group,
        bitmap: Bitmap,
        run: Run,
    ) -> Result<()> {
        self.check_no_metadata(number, run)?;
        let mut descriptor = group.descriptor;
        let key = Key::block_bitmap(number, descriptor.block_bitmap);
        let checksum = bitmap.change(handle, key, self.block_bitmap_bytes(), |bitmap| {
            bits::set(bitmap, run);
        })?;
        let superblock = &handle.volume().superblock;
        descriptor.block_bitmap_checksum = checksum.unwrap_or(0) & stored(superblock);
        descriptor.flags.remove(GroupFlags::BLOCK_UNINIT);
        descriptor.free_clusters = descriptor
            .free_clusters
            .checked_sub(run.len)
            .ok_or_else(|| inconsistent(number))?;
        self.store(handle, number, group, descriptor)
    }

    /// Writes a group's block bitmap if it is uninitialised. A group with inodes in use must have
    /// one: only a new filesystem can have a group without, and the kernel never leaves one.
    pub(super) fn initialise_block_bitmap(
        &self,
        handle: &TransactionHandle<'_>,
        number: u32,
        group: &mut Group,
    ) -> Result<()> {
        if !group.descriptor.flags.contains(GroupFlags::BLOCK_UNINIT) {
            return Ok(());
        }
        let bitmap = self.block_bitmap(handle.volume(), number, &group.descriptor)?;
        self.allocate_run(handle, number, group, bitmap, Run { start: 0, len: 0 })
    }

    /// Frees a run of blocks; with bigalloc, all clusters that it touches. The caller has freed all
    /// other blocks of these clusters, or still owns them.
    ///
    /// # Errors
    /// `Corrupt` if the blocks hold metadata at a fixed place, or are already free; `Io`.
    pub(crate) fn free(&self, handle: &TransactionHandle<'_>, run: FreedRun) -> Result<()> {
        for (group, part) in self.parts(run)? {
            self.free_in_group(handle, group, part)?;
        }
        handle.freed(run);
        Ok(())
    }

    /// Undoes an allocation of the same operation. No block on the device refers to the run, so it
    /// is available at once.
    ///
    /// # Errors
    /// Fails like [`free`](Self::free).
    pub(crate) fn undo(&self, handle: &TransactionHandle<'_>, run: FreedRun) -> Result<()> {
        for (group, part) in self.parts(run)? {
            self.free_in_group(handle, group, part)?;
            self.release_in_group(group, part);
        }
        Ok(())
    }

    /// Returns the parts of a run in each group.
    fn parts(&self, run: FreedRun) -> Result<impl Iterator<Item = (u32, Run)>> {
        let parts = self.geometry.parts(run.first, run.len_blocks);
        let problem = "cannot free blocks outside of the filesystem";
        parts.ok_or_else(|| malformed(Structure::Superblock, problem))
    }

    fn free_in_group(&self, handle: &TransactionHandle<'_>, number: u32, run: Run) -> Result<()> {
        self.check_no_metadata(number, run)?;
        let Some(mut group) = self.group(number) else {
            return Ok(());
        };
        let mut descriptor = group.descriptor;
        let bitmap = self.block_bitmap(handle.volume(), number, &descriptor)?;
        let bits = Bits::new(&bitmap.bytes, None, self.geometry.clusters_in(number));
        if bits
            .next_clear(run.start)
            .is_some_and(|bit| bit < run.end())
        {
            let problem = "it marks blocks of a file as free";
            return Err(malformed(Structure::BlockBitmap(number), problem));
        }
        let around = bits
            .next_set(run.end(), u32::MAX)
            .saturating_sub(bits.clear_from(run.start));
        let key = Key::block_bitmap(number, descriptor.block_bitmap);
        let checksum = bitmap.change(handle, key, self.block_bitmap_bytes(), |bitmap| {
            bits::clear(bitmap, run);
        })?;
        descriptor.block_bitmap_checksum =
            checksum.unwrap_or(0) & stored(&handle.volume().superblock);
        descriptor.free_clusters = descriptor.free_clusters.saturating_add(run.len);
        group.hold(&self.geometry, run, around);
        self.counters.hold(run.len);
        self.store(handle, number, &mut group, descriptor)?;
        self.counters.add_free(u64::from(run.len));
        Ok(())
    }

    /// Makes freed blocks available again: the transaction that freed them is durable.
    pub(crate) fn release(&self, freed: &[FreedRun]) {
        for run in freed {
            let parts = self.geometry.parts(run.first, run.len_blocks);
            for (number, part) in parts.into_iter().flatten() {
                self.release_in_group(number, part);
            }
        }
    }

    fn release_in_group(&self, number: u32, run: Run) {
        let Some(mut group) = self.group(number) else {
            return;
        };
        self.counters.release(group.release(run));
        self.note_released(number, &mut group);
    }

    fn check_no_metadata(&self, group: u32, run: Run) -> Result<()> {
        let first = self.geometry.block_of(group, run.start);
        let len_blocks = u64::from(run.len).wrapping_shl(self.geometry.cluster_bits);
        if self.system_zone.is_disjoint(first, len_blocks) {
            return Ok(());
        }
        let problem = "a file refers to blocks that hold metadata";
        Err(malformed(Structure::BlockBitmap(group), problem))
    }
}

fn longer(one: Option<Run>, other: Option<Run>) -> Option<Run> {
    let len = |run: Option<Run>| run.map_or(0, |run| run.len);
    if len(one) > len(other) { one } else { other }
}

fn no_space(reason: &'static str) -> Error {
    Error::new(ErrorKind::NoSpace, reason)
}

fn inconsistent(group: u32) -> Error {
    let problem = "it counts fewer free blocks than its bitmap has";
    malformed(Structure::GroupDescriptor(group), problem)
}
