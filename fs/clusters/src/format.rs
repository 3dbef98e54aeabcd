//! What a filesystem of the FAT family tells of itself.

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
use crate::place::{Place, RawEntry};
use crate::sectors::Sectors;
use crate::volume::Volume;

/// The directory entries of one file: what it is, where it is, and its name where that is known.
pub trait FileRecord: Clone + fmt::Debug + Send + Sync + 'static {
    /// Returns true for a directory.
    fn is_directory(&self) -> bool;
    /// Returns true if the file has the attribute "read-only".
    fn is_read_only(&self) -> bool;
    /// Sets or clears the attribute "read-only".
    fn set_read_only(&mut self, is_read_only: bool);
    /// Sets the attribute "archive": the file has changed since its last backup.
    fn set_archive(&mut self);

    /// Returns when the file was made.
    fn created(&self) -> Timestamp;
    /// Returns when its contents were last changed.
    fn modified(&self) -> Timestamp;
    /// Returns when it was last read.
    fn accessed(&self) -> Timestamp;
    /// Sets when its contents were last changed.
    fn set_modified(&mut self, at: Timestamp);
    /// Sets when it was last read.
    fn set_accessed(&mut self, at: Timestamp);

    /// Returns the size in bytes. 0 for a directory that is as long as its chain.
    fn size(&self) -> u64;
    /// Returns how many bytes were ever written. What follows reads as zeroes.
    fn valid(&self) -> u64 {
        self.size()
    }
    /// Sets the size, and how much of it was written.
    fn set_size(&mut self, size_bytes: u64, valid_bytes: u64);

    /// Returns the first cluster, if there is one.
    fn first(&self) -> Option<Cluster>;
    /// Returns true if the clusters follow each other, whatever the table says.
    fn is_contiguous(&self) -> bool {
        false
    }
    /// Sets the first cluster, and whether the others follow it without the table.
    fn set_clusters(&mut self, first: Option<Cluster>, is_contiguous: bool);

    /// Returns the entries in the order in which they stand in a directory.
    fn entries(&self) -> Vec<RawEntry>;
    /// Returns the same file with the name of another.
    #[must_use]
    fn named_as(&self, other: &Self) -> Self;

    /// Fails if the file has parts that only somebody else knows how to remove.
    ///
    /// # Errors
    /// `Unsupported`.
    fn check_removable(&self) -> Result<()> {
        Ok(())
    }
}

/// A filesystem of the FAT family: its structures on the device, and the rules of its names. What is
/// done with them, and in which order it is written, is in this crate.
///
/// Everything that a method changes stays in memory until [`write_tables`](Self::write_tables), but
/// for the marks. Methods fail as the device does, and with `Corrupt`.
pub trait Format: fmt::Debug + Send + Sync + Sized + 'static {
    /// Name of the filesystem in messages.
    const NAME: &'static str;
    /// Size of the largest file.
    const MAX_FILE_BYTES: u64;
    /// Size of the largest directory.
    const MAX_DIRECTORY_BYTES: u64;
    /// How many of a name's first entries change while the file keeps its name. They lie in one sector.
    const HEAD_ENTRIES: u32;
    /// True if nobody is misled by a name of which only some sectors were written.
    const TORN_NAMES_ARE_HARMLESS: bool;
    /// True if a file whose clusters follow each other does not need the table.
    const HAS_CONTIGUOUS_FILES: bool;

    /// What names are read with.
    type Names: Default + Clone + fmt::Debug;
    /// The entries of a file.
    type Record: FileRecord;

    /// Reads the boot sector, and what else must be known to begin with.
    fn open(device: &Arc<dyn BlockRead>, names: &Self::Names) -> Result<Self>;

    /// Fails, before anything is written, for what can only be read.
    fn check_writable(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns kind, label and the like.
    fn identity(volume: &Volume<Self>) -> Identity;
    /// Returns where the clusters are.
    fn geometry(&self) -> &Geometry;

    /// Reads the entries of the file whose head is at `place`; `None` if no file is there.
    fn read_record(&self, sectors: &Sectors, place: Place) -> Result<Option<Self::Record>>;
    /// Puts what a file is and where it is at `place`; its name stays as it is there.
    fn put_record(&self, sectors: &Sectors, place: Place, record: &Self::Record) -> Result<()>;
    /// Reads the names of the directory whose entries are in these runs: offset and length in bytes.
    fn list(&self, sectors: &Sectors, runs: &[(u64, u64)]) -> Result<Directory>;
    /// Notes the clusters of a directory whose files are about to be used.
    fn note_directory(&self, _chain: &Chain) {}

    /// Folds a name, so that names that differ in case alone become equal.
    fn fold(&self, units: &[u16]) -> Vec<u16>;
    /// Returns a new, empty file without a name.
    fn new_record(is_directory: bool, now: Timestamp) -> Self::Record;
    /// Gives a file a name that it can have in `directory`. What belongs to the name of `own` counts as
    /// free.
    fn named(
        &self,
        record: &Self::Record,
        name: &NewName,
        directory: &Directory,
        own: Option<&Self::Record>,
    ) -> Result<Self::Record>;
    /// Returns the key of the file's second name.
    fn alias(&self, _record: &Self::Record) -> Option<Vec<u16>> {
        None
    }
    /// Returns which of a name's slots is its head: the entry that makes the others a file.
    fn head(slots: &Range<u32>) -> u32;
    /// Returns an entry as it is when it is not in use any more. One of zeroes becomes one that was
    /// never in use, before others that are.
    fn unused(entry: RawEntry) -> RawEntry;

    /// Returns the entries at the beginning of a new directory.
    fn first_entries(_own: &Self::Record, _above: Option<Cluster>) -> Vec<RawEntry> {
        Vec::new()
    }
    /// Puts a directory below another one.
    fn set_above(
        &self,
        _sectors: &Sectors,
        _own: &Self::Record,
        _above: Option<Cluster>,
    ) -> Result<()> {
        Ok(())
    }

    /// Follows a chain to its end.
    fn chain(&self, first: Cluster) -> Result<Chain>;
    /// Makes the table tell a whole chain.
    fn set_chain(&self, chain: &Chain) -> Result<()>;
    /// Makes the chain that ends with `last` go on with `next`.
    fn set_next(&self, last: Cluster, next: Cluster) -> Result<()>;
    /// Makes `end` the end of a chain, if that still goes on with `next`.
    fn end_chain(&self, end: Cluster, next: Cluster) -> Result<()>;

    /// Counts the free clusters.
    fn count_free(&self, device: &dyn BlockRead) -> Result<u32>;
    /// Reads which clusters are free.
    fn read_allocation(&self, device: &dyn BlockRead) -> Result<Allocation>;
    /// Notes that clusters are in use from now on.
    fn note_taken(&mut self, _chain: &Chain) {}
    /// Notes that clusters are free from now on.
    fn note_free(&mut self, chain: &Chain) -> Result<()>;

    /// Returns how many sectors of the table, and of what tells free clusters, wait to be written.
    fn dirty_sectors(&self) -> usize;
    /// Writes them. The allocation is there if anything of it has changed.
    fn write_tables(
        &mut self,
        device: &dyn BlockWrite,
        allocation: Option<&Allocation>,
    ) -> Result<()>;
    /// Forgets what waits to be written.
    fn forget_changes(&mut self);
    /// Writes what is a hint to others, at the end of a commit. Returns true if that was anything.
    fn write_hints(
        &self,
        _device: &dyn BlockWrite,
        _allocation: Option<&Allocation>,
    ) -> Result<bool> {
        Ok(false)
    }
    /// Says on the device that the filesystem is being written.
    fn mark_dirty(&self, device: &dyn BlockWrite) -> Result<()>;
    /// Says on the device that all was written, unless somebody before us did not say so.
    fn mark_clean(&self, device: &dyn BlockWrite, allocation: Option<&Allocation>) -> Result<()>;
}
