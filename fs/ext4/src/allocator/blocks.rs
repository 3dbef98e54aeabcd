//! Blocks: taken in runs as long as can be had near a goal, and given back.

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

/// Blocks that somebody needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// Where they would be best: behind the file's last block, or near its inode.
    pub(crate) goal: FsBlock,
    /// How many; at least 1. With clusters, a multiple of the cluster, and what is given begins
    /// with one.
    pub(crate) len_blocks: u32,
    /// How many behind those are kept for who asks for them next by their first one as the goal: the
    /// file that grows. 0 for none. They are given to others when those find little else.
    pub(crate) keep_blocks: u32,
    /// Whether root's reserve may be used.
    pub(crate) reserve: Reserve,
}

/// Whether root's reserve may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserve {
    Keep,
    Use,
    /// They were taken from the free ones before, by [`Allocator::reserve`]; what is used of them
    /// is not reserved any more.
    Own,
}

/// A run of blocks that was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocated {
    pub(crate) first: FsBlock,
    /// At most what was asked for, at least 1.
    pub(crate) len_blocks: u32,
}

/// A run of less than this part of what is wanted is taken only when nothing is kept for others any
/// more.
const SHORT_SHARE: u32 = 8;

/// A search, in clusters.
#[derive(Debug, Clone, Copy)]
struct Search {
    /// Group and cluster where to begin.
    goal: (u32, u32),
    wanted: u32,
    /// What is shorter is left for others.
    least: u32,
    /// What is kept behind it.
    keep: u32,
}

impl Search {
    /// Where to begin in a group.
    fn start_in(&self, group: u32) -> u32 {
        if group == self.goal.0 { self.goal.1 } else { 0 }
    }
}

impl Allocator {
    /// Allocates one contiguous run: of as many blocks as are asked for, as near behind the goal as
    /// there is one; else a shorter one.
    ///
    /// # Errors
    /// `NoSpace`. When all that is free may not be used before a commit, the handle is told
    /// ([`TransactionHandle::note_held_space`]). `Corrupt`, `Io`.
    pub(crate) fn allocate(
        &self,
        handle: &TransactionHandle<'_>,
        request: Request,
    ) -> Result<Allocated> {
        let bits = self.geometry.cluster_bits;
        let wanted = request.len_blocks.max(1).div_ceil(1u32.wrapping_shl(bits));
        let wanted = wanted.min(self.geometry.clusters_per_group());
        let claimed = match request.reserve {
            Reserve::Keep => self.counters.claim(wanted, self.kept_clusters),
            Reserve::Use => self.counters.claim(wanted, 0),
            Reserve::Own => Some(wanted),
        };
        let claimed =
            claimed.ok_or_else(|| self.full(handle.volume(), "no free blocks are left"))?;
        let found = self.search(handle, request, claimed);
        let used = found
            .as_ref()
            .map_or(0, |found| found.map_or(0, |(_, run)| run.len));
        if request.reserve != Reserve::Own {
            let unused = claimed.saturating_sub(used);
            self.counters.give_back(u64::from(unused));
        }
        match found? {
            Some((group, run)) => Ok(Allocated {
                first: self.geometry.block_of(group, run.start),
                len_blocks: run.len.wrapping_shl(bits),
            }),
            None => Err(self.nothing_found(handle)),
        }
    }

    /// Takes clusters from the free ones for somebody who will allocate them later, all or none.
    pub(crate) fn reserve(&self, clusters: u64) -> bool {
        let Ok(wanted) = u32::try_from(clusters) else {
            return false;
        };
        if wanted == 0 {
            return true;
        }
        match self.counters.claim(wanted, self.kept_clusters) {
            Some(claimed) if claimed == wanted => true,
            claimed => {
                self.counters.give_back(u64::from(claimed.unwrap_or(0)));
                false
            }
        }
    }

    /// Gives back what was reserved and not used.
    pub(crate) fn unreserve(&self, clusters: u64) {
        self.counters.give_back(clusters);
    }

    /// Nothing was found though blocks are free: others hold them, or take them at this moment.
    fn nothing_found(&self, handle: &TransactionHandle<'_>) -> Error {
        if self.counters.held_clusters() > 0 {
            handle.note_held_space();
            return no_space("all free blocks wait for the next commit");
        }
        self.full(handle.volume(), "no free blocks are left")
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
            keep: request.keep_blocks.wrapping_shr(self.geometry.cluster_bits),
        };
        let found = self.search_down_to(handle, search, wanted.wrapping_div(SHORT_SHARE).max(1))?;
        if found.is_some() {
            return Ok(found);
        }
        self.give_all_kept();
        self.search_down_to(handle, search, 1)
    }

    /// Searches for a run as long as wanted, for half of that, and so on.
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

    /// Gives what is kept for files that grow to everybody.
    fn give_all_kept(&self) {
        if !self.keeps_any.swap(false, Ordering::SeqCst) {
            return;
        }
        for number in 0..self.geometry.groups {
            if let Some(mut group) = self.group(number) {
                group.give_all_kept();
                self.note_let_go(number, &mut group);
            }
        }
    }

    fn note_let_go(&self, number: u32, group: &mut Group) {
        if let Some(summary) = self.summary(number) {
            summary.raise_longest_run(group.take_let_go());
        }
    }

    fn search_groups(
        &self,
        handle: &TransactionHandle<'_>,
        search: Search,
    ) -> Result<Option<(u32, Run)>> {
        for group in self.geometry.groups_from(search.goal.0) {
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

    /// Takes a run in one group, if there is one that is long enough.
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
            group.give_kept(search.goal.1);
            self.note_let_go(number, &mut group);
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
        self.keep_behind(number, &mut group, &bitmap, run, search.keep);
        self.take(handle, number, &mut group, bitmap, run)?;
        Ok(Some(run))
    }

    /// The same search for no more than the group is known to have in one run: where only short runs
    /// are left, the first of them will do, and not each is looked at for each that is taken.
    fn attainable(&self, number: u32, search: Search) -> Search {
        let longest = self.summary(number).map_or(0, super::Summary::longest_run);
        Search {
            wanted: search.wanted.min(longest.max(search.least)),
            ..search
        }
    }

    /// The first run behind the goal that is long enough, or the longest that there is.
    fn find_in_group(
        &self,
        number: u32,
        group: &Group,
        bitmap: &Bitmap,
        search: Search,
    ) -> Option<Run> {
        let len = self.geometry.clusters_in(number);
        let bits = Bits::new(&bitmap.bytes, group.held_words(), len);
        let from = search.start_in(number);
        let behind = bits.find_run(from..len, search.wanted);
        match behind {
            Some(run) if run.len >= search.wanted => behind,
            _ => longer(bits.find_run(0..from, search.wanted), behind),
        }
    }

    /// Keeps what is free behind a run, up to so many clusters.
    fn keep_behind(&self, number: u32, group: &mut Group, bitmap: &Bitmap, run: Run, len: u32) {
        let clusters = self.geometry.clusters_in(number);
        let bits = Bits::new(&bitmap.bytes, group.held_words(), clusters);
        let start = run.end();
        let free = bits.next_set(start, u32::MAX).saturating_sub(start);
        let len = len.min(free);
        if len > 0 {
            group.keep(&self.geometry, Run { start, len }, free);
            self.keeps_any.store(true, Ordering::SeqCst);
            self.note_let_go(number, group);
        }
    }

    /// Takes a run that is free in the bitmap.
    pub(super) fn take(
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

    /// Has a group's block bitmap on the device: nobody but the kernel that makes a filesystem has
    /// a group with inodes in use and without it.
    pub(super) fn settle_block_bitmap(
        &self,
        handle: &TransactionHandle<'_>,
        number: u32,
        group: &mut Group,
    ) -> Result<()> {
        if !group.descriptor.flags.contains(GroupFlags::BLOCK_UNINIT) {
            return Ok(());
        }
        let bitmap = self.block_bitmap(handle.volume(), number, &group.descriptor)?;
        self.take(handle, number, group, bitmap, Run { start: 0, len: 0 })
    }

    /// Frees a run of blocks; with clusters, all those that it touches. Whoever calls has freed, or
    /// keeps to itself, nothing else of them.
    ///
    /// # Errors
    /// `Corrupt` when they hold metadata at a fixed place, or are free; `Io`.
    pub(crate) fn free(&self, handle: &TransactionHandle<'_>, run: FreedRun) -> Result<()> {
        let parts = self.geometry.parts(run.first, run.len_blocks);
        let parts = parts.ok_or_else(|| {
            malformed(
                Structure::Superblock,
                "blocks outside of the filesystem are freed",
            )
        })?;
        for (group, part) in parts {
            self.free_in_group(handle, group, part)?;
        }
        handle.freed(run);
        Ok(())
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
            let problem = "blocks that a file has are free in it";
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
        self.counters.give_back(u64::from(run.len));
        Ok(())
    }

    /// Says that what was freed may be used again: the transaction that freed it is durable.
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
        self.note_let_go(number, &mut group);
    }

    fn check_no_metadata(&self, group: u32, run: Run) -> Result<()> {
        let first = self.geometry.block_of(group, run.start);
        let len_blocks = u64::from(run.len).wrapping_shl(self.geometry.cluster_bits);
        if self.system_zone.spares(first, len_blocks) {
            return Ok(());
        }
        let problem = "blocks that hold metadata are taken for a file's";
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
