//! The short directory entry of 32 bytes that every file has (fatgen103, "FAT Directory
//! Structure").

use diskfs_clusters::{Cluster, DosTime, ENTRY_LEN, EntryPlace, Sectors};
use diskfs_vfs::Timestamp;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::Result;

/// The first byte of a deleted entry.
pub(crate) const DELETED: u8 = 0xe5;
/// The first byte of an entry that was never used; no entry after it is in use.
pub(crate) const END: u8 = 0;
/// The first byte of a name that starts with 0xe5, which would mean [`DELETED`].
pub(crate) const KANJI: u8 = 0x05;

pub(crate) const READ_ONLY: u8 = 0x01;
pub(crate) const VOLUME_ID: u8 = 0x08;
pub(crate) const DIRECTORY: u8 = 0x10;
pub(crate) const ARCHIVE: u8 = 0x20;
/// The attributes that mark an entry as a part of a long name.
pub(crate) const LONG_NAME: u8 = 0x0f;
/// The attribute bits to compare with [`LONG_NAME`].
pub(crate) const LONG_NAME_MASK: u8 = 0x3f;

/// A short directory entry.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub(crate) struct ShortEntry {
    /// The name: eight bytes and an extension of three, padded with blanks.
    pub(crate) name: [u8; 11],
    pub(crate) attributes: u8,
    /// The flags for which parts of the name are shown in lower case (Windows NT).
    pub(crate) case: u8,
    created_hundredths: u8,
    created_time: U16,
    created_date: U16,
    accessed_date: U16,
    cluster_high: U16,
    modified_time: U16,
    modified_date: U16,
    cluster_low: U16,
    pub(crate) size: U32,
}

const _: () = assert!(size_of::<ShortEntry>() == ENTRY_LEN);

impl ShortEntry {
    /// Returns a new entry with this name and these attributes.
    pub(crate) fn new(name: [u8; 11], attributes: u8, now: Timestamp) -> Self {
        let mut entry: Self = Self::from_bytes([0; ENTRY_LEN]);
        entry.name = name;
        entry.attributes = attributes;
        entry.set_created(now);
        entry.set_modified(now);
        entry.set_accessed(now);
        entry
    }

    /// Reads the entry at a place.
    pub(crate) fn read(sectors: &Sectors, place: EntryPlace) -> Result<Self> {
        Ok(Self::from_bytes(sectors.entry(place)?))
    }

    pub(crate) fn from_bytes(bytes: [u8; ENTRY_LEN]) -> Self {
        zerocopy::transmute!(bytes)
    }

    pub(crate) fn to_bytes(self) -> [u8; ENTRY_LEN] {
        zerocopy::transmute!(self)
    }

    /// Returns true if neither this entry nor any after it is in use.
    pub(crate) const fn is_end(&self) -> bool {
        let [first, ..] = self.name;
        first == END
    }

    /// Returns true if the entry is in use by a file, not by a part of a long name or the volume
    /// label.
    pub(crate) fn is_file(&self) -> bool {
        let [first, ..] = self.name;
        first != END && first != DELETED && self.attributes & VOLUME_ID == 0
    }

    /// Returns true if the entry is in use as the volume label.
    pub(crate) fn is_label(&self) -> bool {
        let [first, ..] = self.name;
        let is_long = self.attributes & LONG_NAME_MASK == LONG_NAME;
        first != END && first != DELETED && !is_long && self.attributes & VOLUME_ID != 0
    }

    pub(crate) const fn is_directory(&self) -> bool {
        self.attributes & DIRECTORY != 0
    }

    /// Returns the first cluster; 0 if there is none or, in `..`, for the root.
    pub(crate) fn cluster(&self) -> Cluster {
        let high = u32::from(self.cluster_high.get()) << 16;
        Cluster(high | u32::from(self.cluster_low.get()))
    }

    pub(crate) fn set_cluster(&mut self, cluster: Cluster) {
        let [a, b, c, d] = cluster.0.to_le_bytes();
        self.cluster_low = U16::from_bytes([a, b]);
        self.cluster_high = U16::from_bytes([c, d]);
    }

    pub(crate) fn created(&self) -> Timestamp {
        let time = DosTime {
            date: self.created_date.get(),
            time: self.created_time.get(),
            hundredths: self.created_hundredths,
        };
        time.timestamp()
    }

    pub(crate) fn set_created(&mut self, at: Timestamp) {
        let time = DosTime::of(at);
        self.created_date.set(time.date);
        self.created_time.set(time.time);
        self.created_hundredths = time.hundredths;
    }

    pub(crate) fn modified(&self) -> Timestamp {
        let time = DosTime {
            date: self.modified_date.get(),
            time: self.modified_time.get(),
            hundredths: 0,
        };
        time.timestamp()
    }

    pub(crate) fn set_modified(&mut self, at: Timestamp) {
        let time = DosTime::of(at);
        self.modified_date.set(time.date);
        self.modified_time.set(time.time);
    }

    /// Returns the day of the last access.
    pub(crate) fn accessed(&self) -> Timestamp {
        let time = DosTime {
            date: self.accessed_date.get(),
            ..DosTime::default()
        };
        time.timestamp()
    }

    pub(crate) fn set_accessed(&mut self, at: Timestamp) {
        self.accessed_date.set(DosTime::of(at).date);
    }

    /// Returns this entry with the name of `other`.
    pub(crate) const fn named_as(mut self, other: &Self) -> Self {
        self.name = other.name;
        self.case = other.case;
        self
    }
}
