//! Changing the filesystem, and the order in which changes reach the device.
//!
//! Contents are written at once, to clusters that nobody has. The table, exFAT's bitmap and the
//! directories change in memory, and [`Writer::commit`] writes them in an order that a crash can't hurt.
//! What is freed is free on the device only when no directory there leads to it any more.

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
use crate::place::Place;
use crate::volume::Volume;

/// How many changed sectors wait at most: 8 MiB of the smallest.
const MAX_DIRTY: usize = 16 * 1024;

/// Clusters that nobody in memory has any more.
#[derive(Debug)]
struct Freed {
    /// The end of a chain that was cut, which in the table still goes on.
    end: Option<Cluster>,
    chain: Chain,
}

/// Why nothing is written any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Closed,
    Failed,
}

/// When room can be used that a change gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FreedRoom {
    /// When it is needed: then what gave it back is committed.
    AfterCommit,
    /// Not while the filesystem is open.
    AfterClose,
}

/// The filesystem, and what of it is not on the device yet.
#[derive(Debug)]
pub(crate) struct Writer<F: Format> {
    pub(crate) volume: Volume<F>,
    device: Arc<dyn BlockWrite>,
    holds: Arc<Holds>,
    /// Read when it is needed first.
    allocation: Option<Allocation>,
    freed: Vec<Freed>,
    /// Names that were removed, with the place of their head, and whose removal may not be
    /// durable: a new file of that name in another sector would be there beside them after a crash.
    removed: HashMap<(InodeNumber, Vec<u16>), Place>,
    /// Something was written since the last flush.
    unflushed: bool,
    /// Part of the table or the bitmap was written since then.
    table_unflushed: bool,
    /// The device says that the filesystem is being written.
    marked: bool,
    freed_room: FreedRoom,
    /// What of the changes is on the device.
    remains: Remains,
    ended: Option<Ended>,
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
            freed_room: FreedRoom::AfterCommit,
            remains: Remains::Nothing,
            ended: None,
        })
    }

    /// Runs a change. One that finds the device or the filesystem broken is the last.
    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.check_writable()?;
        let result = self.mark().and_then(|()| change(self));
        let result = result.and_then(|done| self.commit_if_much().map(|()| done));
        result.inspect_err(|e| self.end_if_broken(e))
    }

    fn check_writable(&self) -> Result<()> {
        match self.ended {
            None => Ok(()),
            Some(Ended::Closed) => Err(Error::new(
                ErrorKind::ReadOnly,
                "the filesystem was closed for writing",
            )),
            Some(Ended::Failed) => Err(Error::new(
                ErrorKind::ReadOnly,
                "an error ended writing to the filesystem",
            )),
        }
    }

    fn end_if_broken(&mut self, e: &Error) {
        if matches!(e.kind(), ErrorKind::Io | ErrorKind::Corrupt) && self.ended.is_none() {
            tracing::error!("writing ends: {e}");
            self.ended = Some(Ended::Failed);
        }
    }

    fn commit_if_much(&mut self) -> Result<()> {
        let dirty = self.volume.format.dirty_sectors();
        if dirty.saturating_add(self.volume.sectors.dirty_sectors()) > MAX_DIRTY {
            self.commit()?;
        }
        Ok(())
    }

    /// Says on the device that the filesystem is being written, before anything is.
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

    /// Writes what is in memory: the table's new chains and the bitmap when all contents are there; the
    /// directories, which lead to them, when those are there; and what is free when no directory leads
    /// there any more. What is written last may not be durable yet.
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

    /// As [`commit`](Self::commit), and all of it is durable.
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
        for Freed { end, chain } in std::mem::take(&mut self.freed) {
            if let (Some(end), Some(next)) = (end, chain.first()) {
                self.volume.format.end_chain(end, next)?;
            }
            self.give_back(&chain)?;
        }
        self.volume.pin_chains(false);
        self.write_tables()
    }

    /// Makes everything durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if self.ended == Some(Ended::Closed) {
            return Ok(());
        }
        self.check_writable()?;
        let result = self
            .commit()
            .and_then(|()| if self.unflushed { self.flush() } else { Ok(()) });
        result.inspect_err(|e| self.end_if_broken(e))
    }

    /// Ends writing.
    pub(crate) fn close(&mut self) -> Result<()> {
        match self.ended {
            Some(Ended::Closed) => return Ok(()),
            Some(Ended::Failed) => {
                self.ended = Some(Ended::Closed);
                return Ok(());
            }
            None => {}
        }
        // Nobody holds a file of a filesystem that is closed.
        self.holds.end_all();
        let nameless: Vec<_> = self.volume.nameless.keys().copied().collect();
        let evicted = nameless.into_iter().try_for_each(|inode| self.evict(inode));
        let written = evicted.and_then(|()| self.sync());
        if written.is_ok() {
            self.remains = Remains::All;
        }
        let result = written.and_then(|()| self.unmark());
        self.ended = Some(Ended::Closed);
        result
    }

    /// Changes from now on are committed together, when the filesystem is closed.
    pub(crate) fn commit_once(&mut self) {
        self.freed_room = FreedRoom::AfterClose;
    }

    /// Ends writing, and drops what is in memory only. Contents are in clusters that nothing on the
    /// device leads to, so without a commit nothing was changed.
    pub(crate) fn abandon(&mut self) -> Remains {
        self.ended = Some(Ended::Closed);
        if self.remains != Remains::Nothing {
            return self.remains;
        }
        self.volume.format.forget_changes();
        self.allocation = None;
        self.volume.sectors.forget(0, u64::MAX);
        self.freed.clear();
        if let Err(e) = self.unmark() {
            // As after a crash, with nothing that has changed.
            tracing::debug!("the filesystem can't be marked clean: {e}");
        }
        Remains::Nothing
    }

    /// Says on the device that all was written, unless somebody before us did not say so.
    fn unmark(&mut self) -> Result<()> {
        if !self.marked {
            return Ok(());
        }
        let allocation = self.allocation.as_ref();
        self.volume.format.mark_clean(&*self.device, allocation)?;
        self.flush()
    }

    /// How many clusters are free, those of files that are gone among them.
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

    /// How many clusters can be had.
    fn room(&mut self, wanted: u32) -> Result<u32> {
        let free = self.allocation()?.free();
        if free >= wanted || self.freed.is_empty() {
            return Ok(free);
        }
        if self.freed_room == FreedRoom::AfterClose {
            let reason = "no room for the new contents beside the old ones";
            let hint = "remove something first, or cut the file with `diskfs truncate -s 0`";
            return Err(Error::new(ErrorKind::NoSpace, reason).with_hint(hint));
        }
        self.commit()?;
        Ok(self.allocation()?.free())
    }

    /// Takes clusters, if there are so many.
    fn take(&mut self, count: u32, after: Option<Cluster>) -> Result<Chain> {
        self.room(count)?;
        let taken = self.allocation()?.take(count, after);
        let taken = taken.ok_or(ErrorKind::NoSpace)?;
        self.volume.format.note_taken(&taken);
        Ok(taken)
    }

    /// Gives back clusters that nothing on the device leads to.
    fn give_back(&mut self, chain: &Chain) -> Result<()> {
        for run in chain.runs() {
            let len_bytes = self.volume.geometry().bytes_of(run.count);
            let offset = self.volume.geometry().offset_of(run.first);
            self.volume.sectors.forget(offset, len_bytes);
        }
        self.volume.format.note_free(chain)?;
        self.allocation()?.give_back(chain);
        Ok(())
    }

    /// The clusters of a file that is gone.
    fn free_all(&mut self, chain: &Chain) {
        if let Some(first) = chain.first() {
            self.volume.forget_chain(first);
            self.freed.push(Freed {
                end: None,
                chain: chain.clone(),
            });
        }
    }

    /// Puts what a file is and where it is; its name stays.
    fn put_record(&mut self, inode: InodeNumber, record: &F::Record) -> Result<()> {
        if let Some(nameless) = self.volume.nameless.get_mut(&inode) {
            nameless.clone_from(record);
            return Ok(());
        }
        self.put_record_at(self.volume.place(inode)?, record)
    }

    fn put_record_at(&mut self, place: Place, record: &F::Record) -> Result<()> {
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
            let reason = format!("{} has none of these attributes", F::NAME);
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        if inode == ROOT {
            return Ok(()); // It has no entry that could tell.
        }
        let mut record = self.volume.record(inode)?;
        if let Some(permissions) = change.permissions
            && !record.is_directory()
        {
            record.set_read_only(permissions & 0o222 == 0);
        }
        if let Some(at) = change.accessed {
            record.set_accessed(time(at));
        }
        if let Some(at) = change.modified {
            record.set_modified(time(at));
        }
        self.put_record(inode, &record)
    }

    /// Ends a hold that was the last.
    pub(crate) fn release(&mut self, inode: InodeNumber) -> Result<()> {
        if !self.volume.nameless.contains_key(&inode) {
            return Ok(());
        }
        self.change(|writer| writer.evict(inode))
    }

    /// A file without a name is gone.
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

fn time(at: SetTime) -> Timestamp {
    match at {
        SetTime::Now => Timestamp::now(),
        SetTime::At(at) => at,
    }
}
