//! Changes to the filesystem, and the order in which they reach the device.
//!
//! File contents are written at once, to clusters that are not in use on the device. The table,
//! exFAT's bitmap and the directories change in memory, and [`Writer::commit`] writes them in a
//! crash-safe order. A freed cluster becomes free on the device only after no directory there leads
//! to it any more.

mod contents;
mod names;
mod rename;
mod slots;

pub(crate) use rename::Existing;

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{
    Error, ErrorKind, Holds, InodeNumber, Remains, Result, SetMetadata, SetTime, Timestamp,
};
use foldhash::HashMap;

use crate::allocation::Allocation;
use crate::chain::{Chain, Cluster};
use crate::device_failed;
use crate::format::{FileRecord, Format};
use crate::numbers::ROOT;
use crate::place::EntryPlace;
use crate::volume::Volume;

/// The maximum number of changed sectors in memory: 8 MiB of the smallest size.
const MAX_DIRTY: usize = 16 * 1024;

/// Clusters that are freed in memory, but not yet on the device.
#[derive(Debug)]
struct FreedClusters {
    /// The end of a truncated chain. Its entry in the table still leads to the next cluster.
    end: Option<Cluster>,
    chain: Chain,
}

/// The reason why writing has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopReason {
    Closed,
    Failed,
}

/// The policy for allocating space that changes have freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FreedSpacePolicy {
    /// Allocate it when it is needed, after committing the changes that freed it.
    AfterCommit,
    /// Never allocate it while the filesystem is open.
    AfterClose,
}

/// The writer: an open filesystem with the changes that are not on the device yet.
#[derive(Debug)]
pub(crate) struct Writer<F: Format> {
    pub(crate) volume: Volume<F>,
    device: Arc<dyn BlockWrite>,
    holds: Arc<Holds>,
    /// The free clusters. They are read at first use.
    allocation: Option<Allocation>,
    freed: Vec<FreedClusters>,
    /// Removed names whose removal may not be durable, with the place of their head. A new file of
    /// that name in another sector would exist beside the old one after a crash.
    removed: HashMap<(InodeNumber, Vec<u16>), EntryPlace>,
    /// True if something was written since the last flush.
    unflushed: bool,
    /// True if part of the table or the bitmap was written since the last flush.
    table_unflushed: bool,
    /// True if the filesystem is marked as dirty on the device.
    marked: bool,
    freed_space: FreedSpacePolicy,
    /// The time of all changes; `None` for the present time.
    pub(crate) fixed_time: Option<Timestamp>,
    /// The part of the changes that is on the device: the answer of `abandon`.
    remains: Remains,
    ended: Option<StopReason>,
}

impl<F: Format> Writer<F> {
    pub(crate) fn open(
        device: Arc<dyn BlockWrite>,
        holds: Arc<Holds>,
        names: &F::Names,
    ) -> Result<Self> {
        let below: Arc<dyn BlockRead> = device.clone();
        let mut volume = Volume::<F>::open(below, names)?;
        volume.format.check_writable()?;
        Ok(Self {
            volume,
            device,
            holds,
            allocation: None,
            freed: Vec::new(),
            removed: HashMap::default(),
            unflushed: false,
            table_unflushed: false,
            marked: false,
            freed_space: FreedSpacePolicy::AfterCommit,
            fixed_time: None,
            remains: Remains::Nothing,
            ended: None,
        })
    }

    /// Runs a change. Writing stops if the change finds that the device or the filesystem is
    /// broken.
    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.check_writable()?;
        let result = self.mark().and_then(|()| change(self));
        let result = result.and_then(|done| self.commit_if_much().map(|()| done));
        result.inspect_err(|e| self.end_if_broken(e))
    }

    fn check_writable(&self) -> Result<()> {
        match self.ended {
            None => Ok(()),
            Some(StopReason::Closed) => Err(Error::new(
                ErrorKind::ReadOnly,
                "the filesystem is closed for writing",
            )),
            Some(StopReason::Failed) => Err(Error::new(
                ErrorKind::ReadOnly,
                "writing to the filesystem has stopped after an earlier error",
            )),
        }
    }

    fn end_if_broken(&mut self, e: &Error) {
        if matches!(e.kind(), ErrorKind::Io | ErrorKind::Corrupt) && self.ended.is_none() {
            tracing::error!("stopped writing to the filesystem: {e}");
            self.ended = Some(StopReason::Failed);
        }
    }

    fn commit_if_much(&mut self) -> Result<()> {
        let dirty = self.volume.format.dirty_sectors();
        if dirty.saturating_add(self.volume.sectors.dirty_sectors()) > MAX_DIRTY {
            self.commit()?;
        }
        Ok(())
    }

    /// Marks the filesystem as dirty on the device, before anything else is written.
    fn mark(&mut self) -> Result<()> {
        if self.marked {
            return Ok(());
        }
        self.marked = true;
        self.volume.format.mark_dirty(&*self.device)?;
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        self.device.flush().map_err(device_failed)?;
        self.unflushed = false;
        self.table_unflushed = false;
        if self.volume.sectors.dirty_sectors() == 0 {
            self.removed.clear();
        }
        Ok(())
    }

    /// Writes the changes to the device in an order that a crash cannot hurt. The new chains of the
    /// table and the bitmap follow the contents; the directories, which lead to them, follow the
    /// table; clusters are freed after no directory leads to them any more. The last writes may not
    /// be durable yet.
    fn commit(&mut self) -> Result<()> {
        if self.volume.format.dirty_sectors() > 0 {
            if self.unflushed {
                self.flush()?;
            }
            self.remains = Remains::Some;
            self.write_tables()?;
        }
        if self.volume.sectors.dirty_sectors() > 0 {
            if self.table_unflushed {
                self.flush()?;
            }
            self.remains = Remains::Some;
            self.volume.sectors.write_dirty(&*self.device)?;
            self.unflushed = true;
        }
        if !self.freed.is_empty() {
            if self.unflushed {
                self.flush()?;
            }
            self.remains = Remains::Some;
            self.free_for_good()?;
        }
        let allocation = self.allocation.as_ref();
        self.unflushed |= self.volume.format.write_hints(&*self.device, allocation)?;
        Ok(())
    }

    /// Commits as [`commit`](Self::commit) does, and makes all of it durable.
    fn commit_durably(&mut self) -> Result<()> {
        self.commit()?;
        self.flush()
    }

    fn write_tables(&mut self) -> Result<()> {
        let allocation = self.allocation.as_ref();
        self.volume.format.write_tables(&*self.device, allocation)?;
        self.unflushed = true;
        self.table_unflushed = true;
        Ok(())
    }

    fn free_for_good(&mut self) -> Result<()> {
        for FreedClusters { end, chain } in std::mem::take(&mut self.freed) {
            if let (Some(end), Some(next)) = (end, chain.first()) {
                self.volume.format.end_chain(end, next)?;
            }
            self.free_chain(&chain)?;
        }
        self.volume.pin_chains(false);
        self.write_tables()
    }

    /// Makes all changes durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if self.ended == Some(StopReason::Closed) {
            return Ok(());
        }
        self.check_writable()?;
        let result = self
            .commit()
            .and_then(|()| if self.unflushed { self.flush() } else { Ok(()) });
        result.inspect_err(|e| self.end_if_broken(e))
    }

    /// Commits all changes and stops writing.
    pub(crate) fn close(&mut self) -> Result<()> {
        match self.ended {
            Some(StopReason::Closed) => return Ok(()),
            Some(StopReason::Failed) => {
                self.ended = Some(StopReason::Closed);
                return Ok(());
            }
            None => {}
        }
        // A closed filesystem has no open files.
        self.holds.end_all();
        let nameless: Vec<_> = self.volume.nameless.keys().copied().collect();
        let evicted = nameless.into_iter().try_for_each(|inode| self.evict(inode));
        let written = evicted.and_then(|()| self.sync());
        if written.is_ok() {
            self.remains = Remains::All;
        }
        let result = written.and_then(|()| self.unmark());
        self.ended = Some(StopReason::Closed);
        result
    }

    /// Commits all further changes together, when the filesystem is closed.
    pub(crate) fn commit_once(&mut self) {
        self.freed_space = FreedSpacePolicy::AfterClose;
    }

    /// Stops writing and discards all changes in memory. No structure on the device leads to
    /// contents that were written since the last commit, so without a commit the filesystem is
    /// unchanged.
    pub(crate) fn abandon(&mut self) -> Remains {
        self.ended = Some(StopReason::Closed);
        if self.remains != Remains::Nothing {
            return self.remains;
        }
        self.volume.format.forget_changes();
        self.allocation = None;
        self.volume.sectors.forget(0, u64::MAX);
        self.freed.clear();
        if let Err(e) = self.unmark() {
            // The filesystem then looks as after a crash, but nothing has changed.
            tracing::debug!("cannot mark the filesystem as clean: {e}");
        }
        Remains::Nothing
    }

    /// Marks the filesystem as clean on the device, unless it was dirty when it was opened.
    fn unmark(&mut self) -> Result<()> {
        if !self.marked {
            return Ok(());
        }
        let allocation = self.allocation.as_ref();
        self.volume.format.mark_clean(&*self.device, allocation)?;
        self.flush()
    }

    /// Returns the number of free clusters, including those of deleted files.
    pub(crate) fn free_clusters(&self) -> Result<u32> {
        let Some(allocation) = &self.allocation else {
            return self.volume.free_clusters();
        };
        let freed = self.freed.iter().map(|freed| freed.chain.clusters());
        Ok(freed.fold(allocation.free(), u32::saturating_add))
    }

    fn allocation(&mut self) -> Result<&mut Allocation> {
        let Volume { format, device, .. } = &self.volume;
        let read = match self.allocation.take() {
            Some(allocation) => allocation,
            None => format.read_allocation(&**device)?,
        };
        Ok(self.allocation.insert(read))
    }

    /// Returns the number of clusters that can be allocated. Commits freed clusters if they are
    /// needed for `wanted`.
    fn room(&mut self, wanted: u32) -> Result<u32> {
        let free = self.allocation()?.free();
        if free >= wanted || self.freed.is_empty() {
            return Ok(free);
        }
        if self.freed_space == FreedSpacePolicy::AfterClose {
            let reason = "no space left for the new contents beside the old ones";
            let hint = "delete files first, or truncate this one with `diskfs truncate -s 0`";
            return Err(Error::new(ErrorKind::NoSpace, reason).with_hint(hint));
        }
        self.commit()?;
        Ok(self.allocation()?.free())
    }

    /// Allocates clusters. Fails if fewer than `count` are free.
    fn allocate(&mut self, count: u32, after: Option<Cluster>) -> Result<Chain> {
        self.room(count)?;
        let taken = self.allocation()?.allocate(count, after);
        let taken = taken.ok_or(ErrorKind::NoSpace)?;
        self.volume.format.note_allocated(&taken);
        Ok(taken)
    }

    /// Frees clusters to which nothing on the device leads.
    fn free_chain(&mut self, chain: &Chain) -> Result<()> {
        for run in chain.runs() {
            let len_bytes = self.volume.geometry().bytes_of(run.count);
            let offset = self.volume.geometry().offset_of(run.first);
            self.volume.sectors.forget(offset, len_bytes);
        }
        self.volume.format.note_free(chain)?;
        self.allocation()?.free_chain(chain);
        Ok(())
    }

    /// Frees the clusters of a deleted file at the next commit.
    fn free_all(&mut self, chain: &Chain) {
        if let Some(first) = chain.first() {
            self.volume.forget_chain(first);
            self.freed.push(FreedClusters {
                end: None,
                chain: chain.clone(),
            });
        }
    }

    /// Writes the attributes, size and clusters of a file; its name stays unchanged.
    fn put_record(&mut self, inode: InodeNumber, record: &F::Record) -> Result<()> {
        if let Some(nameless) = self.volume.nameless.get_mut(&inode) {
            nameless.clone_from(record);
            return Ok(());
        }
        self.put_record_at(self.volume.place(inode)?, record)
    }

    fn put_record_at(&mut self, place: EntryPlace, record: &F::Record) -> Result<()> {
        let Volume {
            format, sectors, ..
        } = &self.volume;
        format.put_record(sectors, place, record)
    }

    pub(crate) fn set_metadata(&mut self, inode: InodeNumber, change: &SetMetadata) -> Result<()> {
        if change
            .flags
            .is_some_and(|flags| flags != diskfs_vfs::FileFlags::default())
        {
            let reason = format!("file flags are not supported on {}", F::NAME);
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        if inode == ROOT {
            return Ok(()); // The root has no entry that could store them.
        }
        let mut record = self.volume.record(inode)?;
        if let Some(permissions) = change.permissions
            && !record.is_directory()
        {
            record.set_read_only(permissions & 0o222 == 0);
        }
        if let Some(at) = change.accessed {
            record.set_accessed(self.time(at));
        }
        if let Some(at) = change.modified {
            record.set_modified(self.time(at));
        }
        self.put_record(inode, &record)
    }

    /// Deletes a file without a name after its last hold has ended.
    pub(crate) fn release(&mut self, inode: InodeNumber) -> Result<()> {
        if !self.volume.nameless.contains_key(&inode) {
            return Ok(());
        }
        self.change(|writer| writer.evict(inode))
    }

    /// Returns the time of a change.
    pub(super) fn now(&self) -> Timestamp {
        self.fixed_time.unwrap_or_else(Timestamp::now)
    }

    fn time(&self, at: SetTime) -> Timestamp {
        match at {
            SetTime::Now => self.now(),
            SetTime::At(at) => at,
        }
    }

    /// Frees the clusters and the number of a file without a name.
    fn evict(&mut self, inode: InodeNumber) -> Result<()> {
        let Some(record) = self.volume.nameless.get(&inode).cloned() else {
            return Ok(());
        };
        let chain = self.volume.chain_of(&record)?;
        self.volume.nameless.remove(&inode);
        self.volume.numbers.remove(inode);
        if record.is_directory() {
            self.volume.forget_directory(inode);
        }
        self.free_all(&chain);
        Ok(())
    }
}
