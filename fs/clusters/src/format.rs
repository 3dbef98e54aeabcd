//! The traits that a driver of the FAT family implements: [`Format`] and [`FileRecord`].

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{Identity, Result, Timestamp};

use crate::allocation::Allocation;
use crate::chain::{Chain, Cluster};
use crate::directory::Directory;
use crate::geometry::Geometry;
use crate::name::NewName;
use crate::place::{EntryPlace, RawEntry};
use crate::sectors::Sectors;
use crate::volume::Volume;

/// The directory entries of one file: its attributes, size, clusters and, once it has one, its
/// name.
pub trait FileRecord: Clone + fmt::Debug + Send + Sync + 'static {
    /// Returns true for a directory.
    fn is_directory(&self) -> bool;
    /// Returns true if the file has the attribute "read-only".
    fn is_read_only(&self) -> bool;
    /// Sets or clears the attribute "read-only".
    fn set_read_only(&mut self, is_read_only: bool);
    /// Sets the attribute "archive": the file has changed since its last backup.
    fn set_archive(&mut self);

    /// Returns the creation time.
    fn created(&self) -> Timestamp;
    /// Returns the modification time.
    fn modified(&self) -> Timestamp;
    /// Returns the access time.
    fn accessed(&self) -> Timestamp;
    /// Sets the modification time.
    fn set_modified(&mut self, at: Timestamp);
    /// Sets the access time.
    fn set_accessed(&mut self, at: Timestamp);

    /// Returns the size in bytes; 0 for a directory whose size is the length of its chain.
    fn size(&self) -> u64;
    /// Returns the number of bytes that were ever written (the valid data length). The bytes after
    /// them read as zeroes.
    fn valid(&self) -> u64 {
        self.size()
    }
    /// Sets the size and the valid data length.
    fn set_size(&mut self, size_bytes: u64, valid_bytes: u64);

    /// Returns the first cluster; `None` if no clusters are allocated.
    fn first(&self) -> Option<Cluster>;
    /// Returns true if the clusters are consecutive, so that their entries in the table are
    /// ignored.
    fn is_contiguous(&self) -> bool {
        false
    }
    /// Sets the first cluster, and whether the others follow it without using the table.
    fn set_clusters(&mut self, first: Option<Cluster>, is_contiguous: bool);

    /// Returns the directory entries, in the order in which a directory contains them.
    fn entries(&self) -> Vec<RawEntry>;
    /// Returns this file with the name of `other`.
    #[must_use]
    fn named_as(&self, other: &Self) -> Self;

    /// Fails if the file has vendor-specific parts that only the vendor's software can remove.
    ///
    /// # Errors
    /// `Unsupported` for such a file.
    fn check_removable(&self) -> Result<()> {
        Ok(())
    }
}

/// A filesystem of the FAT family: its structures on the device and its rules for names. The order
/// in which changes are written is in this crate and the same for all of them.
///
/// All changes stay in memory until [`write_tables`](Self::write_tables), except those of
/// [`mark_dirty`](Self::mark_dirty) and [`mark_clean`](Self::mark_clean). Methods fail with
/// the errors of the device, and with `Corrupt` for invalid structures.
pub trait Format: fmt::Debug + Send + Sync + Sized + 'static {
    /// The name of the filesystem in messages.
    const NAME: &'static str;
    /// The size of the largest file.
    const MAX_FILE_BYTES: u64;
    /// The size of the largest directory.
    const MAX_DIRECTORY_BYTES: u64;
    /// The number of a name's first entries that change while the file keeps its name. They are in
    /// one sector.
    const HEAD_ENTRIES: u32;
    /// True if no reader mistakes a partly written name for a file.
    const TORN_NAMES_ARE_HARMLESS: bool;
    /// True if the table's entries are not needed for a file whose clusters are consecutive.
    const HAS_CONTIGUOUS_FILES: bool;

    /// The options for decoding names (FAT's code page).
    type Names: Default + Clone + fmt::Debug;
    /// The directory entries of a file.
    type Record: FileRecord;

    /// Reads the boot sector and the structures that all later operations need.
    fn open(device: &Arc<dyn BlockRead>, names: &Self::Names) -> Result<Self>;

    /// Fails, before anything is written, if the filesystem can only be read.
    fn check_writable(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns type, label and the like.
    fn identity(volume: &Volume<Self>) -> Identity;
    /// Returns where the clusters are.
    fn geometry(&self) -> &Geometry;

    /// Reads the entries of the file whose head is at `place`; `None` if no file is there.
    fn read_record(&self, sectors: &Sectors, place: EntryPlace) -> Result<Option<Self::Record>>;
    /// Writes the attributes, size and clusters of a file to its entry at `place`; the name there
    /// stays unchanged.
    fn put_record(&self, sectors: &Sectors, place: EntryPlace, record: &Self::Record)
    -> Result<()>;
    /// Reads the names of a directory whose entries are in these runs (offset and length in bytes).
    fn list(&self, sectors: &Sectors, runs: &[(u64, u64)]) -> Result<Directory>;
    /// Records the clusters of a directory whose files are about to be used.
    fn note_directory(&self, _chain: &Chain) {}

    /// Case-folds a name, so that names that differ in case alone become equal.
    fn fold(&self, units: &[u16]) -> Vec<u16>;
    /// Returns a new, empty file without a name.
    fn new_record(is_directory: bool, now: Timestamp) -> Self::Record;
    /// Gives a file a name that is unique in `directory`. The entries and the alias of the name
    /// `own` count as free.
    fn named(
        &self,
        record: &Self::Record,
        name: &NewName,
        directory: &Directory,
        own: Option<&Self::Record>,
    ) -> Result<Self::Record>;
    /// Returns the case-folded alias (the short name), if the file has one.
    fn alias(&self, _record: &Self::Record) -> Option<Vec<u16>> {
        None
    }
    /// Returns which slot of a name is its head: the entry without which the others are no file.
    fn head(slots: &Range<u32>) -> u32;
    /// Returns an entry marked as deleted. An entry of zeroes would end the directory, so it is
    /// marked as deleted, too, when entries after it are in use.
    fn unused(entry: RawEntry) -> RawEntry;

    /// Returns the entries at the start of a new directory.
    fn first_entries(_own: &Self::Record, _above: Option<Cluster>) -> Vec<RawEntry> {
        Vec::new()
    }
    /// Changes the parent of a directory.
    fn set_parent(
        &self,
        _sectors: &Sectors,
        _own: &Self::Record,
        _above: Option<Cluster>,
    ) -> Result<()> {
        Ok(())
    }

    /// Reads a chain from the table, to its end.
    fn chain(&self, first: Cluster) -> Result<Chain>;
    /// Writes all entries of a chain to the table.
    fn set_chain(&self, chain: &Chain) -> Result<()>;
    /// Links cluster `last`, the end of a chain, to `next`.
    fn set_next(&self, last: Cluster, next: Cluster) -> Result<()>;
    /// Makes `end` the end of a chain, if its next cluster is still `next`.
    fn end_chain(&self, end: Cluster, next: Cluster) -> Result<()>;

    /// Counts the free clusters.
    fn count_free(&self, device: &dyn BlockRead) -> Result<u32>;
    /// Reads which clusters are allocated.
    fn read_allocation(&self, device: &dyn BlockRead) -> Result<Allocation>;
    /// Records that clusters have been allocated.
    fn note_allocated(&mut self, _chain: &Chain) {}
    /// Records that clusters have been freed.
    fn note_free(&mut self, chain: &Chain) -> Result<()>;

    /// Returns the number of changed sectors of the table and of the allocation bitmap.
    fn dirty_sectors(&self) -> usize;
    /// Writes the changed sectors. `allocation` is present if any cluster was allocated or freed.
    fn write_tables(
        &mut self,
        device: &dyn BlockWrite,
        allocation: Option<&Allocation>,
    ) -> Result<()>;
    /// Discards all changes that have not been written.
    fn forget_changes(&mut self);
    /// Writes hints for other implementations (`FSInfo`) at the end of a commit. Returns true if
    /// anything was written.
    fn write_hints(
        &self,
        _device: &dyn BlockWrite,
        _allocation: Option<&Allocation>,
    ) -> Result<bool> {
        Ok(false)
    }
    /// Marks the filesystem on the device as dirty.
    fn mark_dirty(&self, device: &dyn BlockWrite) -> Result<()>;
    /// Marks the filesystem on the device as clean, unless it was dirty when it was opened.
    fn mark_clean(&self, device: &dyn BlockWrite, allocation: Option<&Allocation>) -> Result<()>;
}
