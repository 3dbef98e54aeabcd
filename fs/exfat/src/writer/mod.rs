//! Changing the filesystem, and the order in which changes reach the device.
//!
//! Contents are written at once, to clusters that nobody has. The table, the bitmap and the directories
//! change in memory, and [`Writer::commit`] writes them in an order that a crash can't hurt. What is
//! freed is free in the bitmap only when no directory on the device leads there any more.

mod contents;
mod names;
mod rename;
mod slots;

pub(crate) use names::attributes_of;
pub(crate) use rename::Existing;

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::{Chain, Cluster, Holds, Place, ROOT};
use diskfs_vfs::{InodeNumber, Remains, SetMetadata, SetTime, Timestamp};
use foldhash::HashMap;

use crate::allocation_bitmap::AllocationBitmap;
use crate::boot_sector::{PERCENT_IN_USE_OFFSET, VOLUME_DIRTY, VOLUME_FLAGS_OFFSET};
use crate::directory_entry::{READ_ONLY, StreamExtension};
use crate::entry_set::EntrySet;
use crate::error::{Error, ErrorKind, Result, device_failed};
use crate::fat::END;
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
pub(crate) struct Writer {
    pub(crate) volume: Volume,
    device: Arc<dyn BlockWrite>,
    holds: Arc<Holds>,
    /// Read when it is needed first.
    bitmap: Option<AllocationBitmap>,
    freed: Vec<Freed>,
    /// Names that were removed, with the place of their first entry, and whose removal may not be
    /// durable: a new file of that name in another sector would be there beside them after a crash.
    removed: HashMap<(InodeNumber, Vec<u16>), Place>,
    /// Something was written since the last flush.
    unflushed: bool,
    /// Part of the table or the bitmap was.
    table_unflushed: bool,
    /// The device says that the filesystem is being written.
    marked: bool,
    freed_room: FreedRoom,
    /// What of the changes is on the device.
    remains: Remains,
    ended: Option<Ended>,
}

impl Writer {
    pub(crate) fn open(device: Arc<dyn BlockWrite>, holds: Arc<Holds>) -> Result<Self> {
        let below: Arc<dyn BlockRead> = device.clone();
        let mut volume = Volume::open(below)?;
        check_writable_kind(&mut volume)?;
        Ok(Self {
            volume,
            device,
            holds,
            bitmap: None,
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

    /// How many sectors of the table and the bitmap differ from what the device has.
    fn dirty_table_sectors(&self) -> usize {
        let bitmap = self.bitmap.as_ref();
        let of_bitmap = bitmap.map_or(0, AllocationBitmap::dirty_sectors);
        self.volume.fat.dirty_sectors().saturating_add(of_bitmap)
    }

    fn commit_if_much(&mut self) -> Result<()> {
        let dirty = self.dirty_table_sectors();
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
        self.set_volume_flags(self.volume.boot.volume_flags | VOLUME_DIRTY)
    }

    fn set_volume_flags(&mut self, flags: u16) -> Result<()> {
        self.device
            .write_at(VOLUME_FLAGS_OFFSET, &flags.to_le_bytes())
            .map_err(device_failed)?;
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
        if self.dirty_table_sectors() > 0 {
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
        Ok(())
    }

    /// As [`commit`](Self::commit), and all of it is durable.
    fn commit_durably(&mut self) -> Result<()> {
        self.commit()?;
        self.flush()
    }

    fn write_tables(&mut self) -> Result<()> {
        self.volume.fat.write_dirty(&*self.device)?;
        if let Some(bitmap) = &mut self.bitmap {
            bitmap.write_dirty(&*self.device)?;
        }
        self.unflushed = true;
        self.table_unflushed = true;
        Ok(())
    }

    fn free_for_good(&mut self) -> Result<()> {
        for Freed { end, chain } in std::mem::take(&mut self.freed) {
            let goes_on = chain.first().map(|next| next.0);
            if let Some(end) = end
                && Some(self.volume.fat.raw(end)?) == goes_on
            {
                self.volume.fat.set(end, END)?;
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
        self.volume.fat.forget_changes();
        self.bitmap = None;
        self.volume.sectors.forget(0, u64::MAX);
        self.freed.clear();
        if let Err(e) = self.unmark() {
            // As after a crash, with nothing that has changed.
            tracing::debug!("the filesystem can't be marked clean: {e}");
        }
        Remains::Nothing
    }

    /// Says on the device that all was written, unless somebody before us did not say so; and how much
    /// is in use.
    fn unmark(&mut self) -> Result<()> {
        if !self.marked {
            return Ok(());
        }
        if let Some(bitmap) = &self.bitmap {
            self.device
                .write_at(PERCENT_IN_USE_OFFSET, &[bitmap.percent_in_use()])
                .map_err(device_failed)?;
        }
        self.set_volume_flags(self.volume.boot.volume_flags)
    }

    /// How many clusters are free, those of files that are gone among them.
    pub(crate) fn free_clusters(&self) -> Result<u32> {
        let Some(bitmap) = &self.bitmap else {
            return self.volume.free_clusters();
        };
        let freed = self.freed.iter().map(|freed| freed.chain.clusters());
        Ok(freed.fold(bitmap.free(), u32::saturating_add))
    }

    fn bitmap(&mut self) -> Result<&mut AllocationBitmap> {
        let read = match self.bitmap.take() {
            Some(bitmap) => bitmap,
            None => AllocationBitmap::read(&self.volume.bitmap, &*self.volume.device)?,
        };
        Ok(self.bitmap.insert(read))
    }

    /// How many clusters can be had.
    fn room(&mut self, wanted: u32) -> Result<u32> {
        let free = self.bitmap()?.free();
        if free >= wanted || self.freed.is_empty() {
            return Ok(free);
        }
        if self.freed_room == FreedRoom::AfterClose {
            let reason = "no room for the new contents beside the old ones";
            let hint = "remove something first, or cut the file with `diskfs truncate -s 0`";
            return Err(Error::new(ErrorKind::NoSpace, reason).hint(hint));
        }
        self.commit()?;
        Ok(self.bitmap()?.free())
    }

    /// Takes clusters, if there are so many.
    fn take(&mut self, count: u32, after: Option<Cluster>) -> Result<Chain> {
        self.room(count)?;
        let taken = self.bitmap()?.take(count, after);
        taken.ok_or_else(|| ErrorKind::NoSpace.into())
    }

    /// Clusters are free again that nothing on the device leads to. What the table says of them does
    /// not matter any more.
    fn give_back(&mut self, chain: &Chain) -> Result<()> {
        for run in chain.runs() {
            let len_bytes = self.volume.boot.bytes_of(run.count);
            let offset = self.volume.boot.offset_of(run.first);
            self.volume.sectors.forget(offset, len_bytes);
        }
        self.bitmap()?.give_back(chain);
        Ok(())
    }

    /// The clusters of a file that is gone.
    fn free_all(&mut self, stream: &StreamExtension, chain: &Chain) {
        if chain.clusters() > 0 {
            self.volume.forget_chain(stream.first());
            self.freed.push(Freed {
                end: None,
                chain: chain.clone(),
            });
        }
    }

    /// Puts what a file is and where it is, which is in its first two entries; its name stays.
    fn put_set(&mut self, inode: InodeNumber, set: &EntrySet) -> Result<()> {
        if let Some(nameless) = self.volume.nameless.get_mut(&inode) {
            nameless.clone_from(set);
            return Ok(());
        }
        self.put_set_at(self.volume.place(inode)?, set)
    }

    fn put_set_at(&mut self, place: Place, set: &EntrySet) -> Result<()> {
        let mut at = place;
        for (nth, entry) in set.to_entries().into_iter().take(2).enumerate() {
            if nth > 0 {
                at = self.volume.next_place(at)?;
            }
            self.volume.sectors.put(at, &entry)?;
        }
        Ok(())
    }

    pub(crate) fn set_metadata(&mut self, inode: InodeNumber, change: &SetMetadata) -> Result<()> {
        if change
            .flags
            .is_some_and(|flags| flags != diskfs_vfs::FileFlags::default())
        {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "exFAT has none of these attributes",
            ));
        }
        if inode == ROOT {
            return Ok(()); // It has no entry that could tell.
        }
        let mut set = self.volume.set(inode)?;
        if let Some(permissions) = change.permissions
            && !set.file.is_directory()
        {
            let is_read_only = permissions & 0o222 == 0;
            set.file.set_attribute(READ_ONLY, is_read_only);
        }
        if let Some(at) = change.accessed {
            set.file.set_accessed(time(at));
        }
        if let Some(at) = change.modified {
            set.file.set_modified(time(at));
        }
        self.put_set(inode, &set)
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
        let Some(set) = self.volume.nameless.get(&inode).cloned() else {
            return Ok(());
        };
        let chain = self.volume.chain_of(&set.stream)?;
        self.volume.nameless.remove(&inode);
        self.volume.numbers.remove(inode);
        if set.file.is_directory() {
            self.volume.forget_directory(inode);
        }
        self.free_all(&set.stream, &chain);
        Ok(())
    }
}

/// Fails, before anything is written, for what can only be read.
fn check_writable_kind(volume: &mut Volume) -> Result<()> {
    if volume.boot.fats > 1 {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "TexFAT, which keeps two tables, is only read",
        ));
    }
    if volume.boot.is_backup {
        return Err(Error::new(
            ErrorKind::Corrupt,
            "the main boot region is damaged, and only its copy is right",
        )
        .hint("run fsck.exfat on a copy"));
    }
    match volume.upcase_damage.take() {
        Some(e) => Err(e.hint("run fsck.exfat on a copy")),
        None => Ok(()),
    }
}

fn time(at: SetTime) -> Timestamp {
    match at {
        SetTime::Now => Timestamp::now(),
        SetTime::At(at) => at,
    }
}
