//! The directory entries of 32 bytes (exFAT specification, 6 and 7). For sets of entries, see the
//! module `entry_set`.

use diskfs_clusters::{Cluster, ENTRY_LEN, RawEntry};
use diskfs_vfs::Timestamp;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::timestamp::{ExfatTime, UTC};

/// `EntryType` (6.2.1) of an entry that was never used; no entry after it is in use.
pub(crate) const END: u8 = 0;
/// The bit of `EntryType` for an entry in use.
pub(crate) const IN_USE: u8 = 0x80;
/// The bits of `EntryType` for an entry in use that belongs to the one before it.
pub(crate) const SECONDARY: u8 = 0xc0;
pub(crate) const ALLOCATION_BITMAP: u8 = 0x81;
pub(crate) const UPCASE_TABLE: u8 = 0x82;
pub(crate) const VOLUME_LABEL: u8 = 0x83;
pub(crate) const FILE: u8 = 0x85;
pub(crate) const STREAM_EXTENSION: u8 = 0xc0;
pub(crate) const FILE_NAME: u8 = 0xc1;

/// The bits of `FileAttributes` (7.4.4).
pub(crate) const READ_ONLY: u16 = 0x01;
pub(crate) const DIRECTORY: u16 = 0x10;
pub(crate) const ARCHIVE: u16 = 0x20;

/// `GeneralSecondaryFlags` (6.4.2): the entry can have clusters; the clusters are consecutive and
/// the table is ignored.
pub(crate) const ALLOCATION_POSSIBLE: u8 = 1;
pub(crate) const NO_FAT_CHAIN: u8 = 2;

/// The number of UTF-16 units in a name entry (7.7).
pub(crate) const NAME_UNITS: usize = 15;
/// The length of the longest label in UTF-16 units (7.3.2).
pub(crate) const MAX_LABEL_UNITS: usize = 11;

/// The entry of the allocation bitmap (7.1).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct BitmapEntry {
    pub(crate) entry_type: u8,
    /// The lowest bit is the number of the table that the bitmap belongs to.
    pub(crate) flags: u8,
    pub(crate) reserved: [u8; 18],
    pub(crate) first_cluster: U32,
    pub(crate) data_length: U64,
}

/// The entry of the up-case table (7.2).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct UpcaseEntry {
    pub(crate) entry_type: u8,
    pub(crate) reserved_1: [u8; 3],
    pub(crate) table_checksum: U32,
    pub(crate) reserved_2: [u8; 12],
    pub(crate) first_cluster: U32,
    pub(crate) data_length: U64,
}

/// The entry of the volume label (7.3).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct LabelEntry {
    pub(crate) entry_type: u8,
    pub(crate) character_count: u8,
    pub(crate) volume_label: [U16; MAX_LABEL_UNITS],
    pub(crate) reserved: [u8; 8],
}

/// The first entry of a file's set: its attributes and times (7.4).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct FileEntry {
    pub(crate) entry_type: u8,
    pub(crate) secondary_count: u8,
    pub(crate) set_checksum: U16,
    pub(crate) file_attributes: U16,
    reserved_1: U16,
    create_timestamp: U32,
    last_modified_timestamp: U32,
    last_accessed_timestamp: U32,
    create_10ms_increment: u8,
    last_modified_10ms_increment: u8,
    create_utc_offset: u8,
    last_modified_utc_offset: u8,
    last_accessed_utc_offset: u8,
    reserved_2: [u8; 7],
}

/// The second entry of a file's set: the location and size of its contents (7.6).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct StreamExtension {
    pub(crate) entry_type: u8,
    pub(crate) general_secondary_flags: u8,
    reserved_1: u8,
    pub(crate) name_length: u8,
    pub(crate) name_hash: U16,
    reserved_2: U16,
    pub(crate) valid_data_length: U64,
    reserved_3: U32,
    pub(crate) first_cluster: U32,
    pub(crate) data_length: U64,
}

const _: () = assert!(size_of::<BitmapEntry>() == ENTRY_LEN);
const _: () = assert!(size_of::<UpcaseEntry>() == ENTRY_LEN);
const _: () = assert!(size_of::<LabelEntry>() == ENTRY_LEN);
const _: () = assert!(size_of::<FileEntry>() == ENTRY_LEN);
const _: () = assert!(size_of::<StreamExtension>() == ENTRY_LEN);

impl LabelEntry {
    /// Returns the label as text; empty if there is none.
    pub(crate) fn text(&self) -> String {
        let units = self.volume_label.iter().map(|unit| unit.get());
        let units: Vec<u16> = units.take(self.character_count.into()).collect();
        String::from_utf16_lossy(&units)
    }
}

impl FileEntry {
    pub(crate) fn new(attributes: u16, now: Timestamp) -> Self {
        let mut entry: Self = zerocopy::transmute!([0_u8; ENTRY_LEN]);
        entry.entry_type = FILE;
        entry.file_attributes.set(attributes);
        entry.set_created(now);
        entry.set_modified(now);
        entry.set_accessed(now);
        entry
    }

    pub(crate) fn from_bytes(bytes: RawEntry) -> Self {
        zerocopy::transmute!(bytes)
    }

    pub(crate) fn to_bytes(self) -> RawEntry {
        zerocopy::transmute!(self)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.file_attributes.get() & DIRECTORY != 0
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.file_attributes.get() & READ_ONLY != 0
    }

    /// Sets or clears a bit of the attributes.
    pub(crate) fn set_attribute(&mut self, bit: u16, on: bool) {
        let others = self.file_attributes.get() & !bit;
        self.file_attributes
            .set(if on { others | bit } else { others });
    }

    pub(crate) fn created(&self) -> Timestamp {
        let time = ExfatTime {
            timestamp: self.create_timestamp.get(),
            increment: self.create_10ms_increment,
            utc_offset: self.create_utc_offset,
        };
        time.timestamp()
    }

    pub(crate) fn set_created(&mut self, at: Timestamp) {
        let time = ExfatTime::of(at);
        self.create_timestamp.set(time.timestamp);
        self.create_10ms_increment = time.increment;
        self.create_utc_offset = time.utc_offset;
    }

    pub(crate) fn modified(&self) -> Timestamp {
        let time = ExfatTime {
            timestamp: self.last_modified_timestamp.get(),
            increment: self.last_modified_10ms_increment,
            utc_offset: self.last_modified_utc_offset,
        };
        time.timestamp()
    }

    pub(crate) fn set_modified(&mut self, at: Timestamp) {
        let time = ExfatTime::of(at);
        self.last_modified_timestamp.set(time.timestamp);
        self.last_modified_10ms_increment = time.increment;
        self.last_modified_utc_offset = time.utc_offset;
    }

    pub(crate) fn accessed(&self) -> Timestamp {
        let time = ExfatTime {
            timestamp: self.last_accessed_timestamp.get(),
            increment: 0,
            utc_offset: self.last_accessed_utc_offset,
        };
        time.timestamp()
    }

    pub(crate) fn set_accessed(&mut self, at: Timestamp) {
        self.last_accessed_timestamp
            .set(ExfatTime::of(at).timestamp);
        self.last_accessed_utc_offset = UTC;
    }
}

impl StreamExtension {
    /// Returns the stream extension of an empty file.
    pub(crate) fn new() -> Self {
        let mut entry: Self = zerocopy::transmute!([0_u8; ENTRY_LEN]);
        entry.entry_type = STREAM_EXTENSION;
        entry.general_secondary_flags = ALLOCATION_POSSIBLE;
        entry
    }

    pub(crate) fn from_bytes(bytes: RawEntry) -> Self {
        zerocopy::transmute!(bytes)
    }

    pub(crate) fn to_bytes(self) -> RawEntry {
        zerocopy::transmute!(self)
    }

    /// Returns the first cluster; 0 for an empty file.
    pub(crate) fn first(&self) -> Cluster {
        Cluster(self.first_cluster.get())
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.data_length.get()
    }

    /// Returns the valid data length: the bytes after it read as zeroes.
    pub(crate) fn valid(&self) -> u64 {
        self.valid_data_length.get()
    }

    /// Sets the size and the valid data length.
    pub(crate) fn set_size(&mut self, size_bytes: u64, valid_bytes: u64) {
        self.data_length.set(size_bytes);
        self.valid_data_length.set(valid_bytes.min(size_bytes));
    }

    /// Returns true if the clusters are consecutive and the table is ignored.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.general_secondary_flags & NO_FAT_CHAIN != 0
    }

    /// Sets the location of the clusters; `None` for an empty file.
    pub(crate) fn set_clusters(&mut self, first: Option<Cluster>, is_contiguous: bool) {
        self.first_cluster.set(first.map_or(0, |first| first.0));
        self.general_secondary_flags = if first.is_some() && is_contiguous {
            ALLOCATION_POSSIBLE | NO_FAT_CHAIN
        } else {
            ALLOCATION_POSSIBLE
        };
    }
}
