//! The set of directory entries of one file (exFAT specification, 6.3 and 7.4): attributes,
//! clusters and name.

use diskfs_clusters::{Cluster, ENTRY_LEN, FileRecord, RawEntry};
use diskfs_vfs::Timestamp;

use crate::bytes::{le16, le32, put};
use crate::checksum::checksum16;
use crate::directory_entry::{
    ALLOCATION_POSSIBLE, ARCHIVE, FILE, FILE_NAME, FileEntry, NAME_UNITS, READ_ONLY, SECONDARY,
    STREAM_EXTENSION, StreamExtension,
};
use crate::error::{Corrupt, Error, ErrorKind, Result};

/// The valid values of `SecondaryCount` for a file (7.4.2).
pub(crate) const SECONDARY_COUNTS: std::ops::RangeInclusive<u8> = 2..=18;

/// The directory entries of one file.
#[derive(Debug, Clone)]
pub struct EntrySet {
    pub(crate) file: FileEntry,
    pub(crate) stream: StreamExtension,
    /// The entries of the name, then those of vendor extensions.
    rest: Vec<RawEntry>,
}

impl EntrySet {
    /// Returns the entries of an empty file without a name.
    pub(crate) fn new(file: FileEntry) -> Self {
        Self {
            file,
            stream: StreamExtension::new(),
            rest: Vec::new(),
        }
    }

    /// Returns this file with another name, whose hash is `hash`.
    pub(crate) fn named(&self, units: &[u16], hash: u16) -> Self {
        let extra = self.extra().to_vec();
        let mut set = self.clone();
        set.stream.name_hash.set(hash);
        set.stream.name_length = u8::try_from(units.len()).unwrap_or(u8::MAX);
        set.rest = units.chunks(NAME_UNITS).map(name_entry).collect();
        let room = usize::from(*SECONDARY_COUNTS.end()).saturating_sub(1);
        let room = room.saturating_sub(set.rest.len());
        set.rest.extend(extra.into_iter().take(room));
        set.file.secondary_count = u8::try_from(set.rest.len().saturating_add(1)).unwrap_or(0);
        set
    }

    /// Builds a set from these entries. Fails if they are not the set of a file. Does not check the
    /// checksum.
    pub(crate) fn from_entries(entries: &[RawEntry]) -> Result<Self> {
        let wrong = |what| Err(Corrupt::EntrySet(what).into());
        let [file, stream, rest @ ..] = entries else {
            return wrong("it has fewer than two entries");
        };
        let set = Self {
            file: FileEntry::from_bytes(*file),
            stream: StreamExtension::from_bytes(*stream),
            rest: rest.to_vec(),
        };
        if set.file.entry_type != FILE || set.stream.entry_type != STREAM_EXTENSION {
            return wrong("it does not start with a file and a stream extension");
        }
        let names = set.name_entries();
        if set.stream.name_length == 0 || names.len() < set.name_entry_count() {
            return wrong("missing part of the name");
        }
        if names.iter().any(|[kind, ..]| *kind != FILE_NAME) {
            return wrong("an entry of the name has another type");
        }
        Ok(set)
    }

    /// Fails unless the checksum is right.
    pub(crate) fn check(&self) -> Result<()> {
        let (found, stored) = (self.checksum(), self.file.set_checksum.get());
        if found == stored {
            return Ok(());
        }
        Err(Corrupt::SetChecksum { found, stored }.into())
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.rest.len().saturating_add(2)
    }

    /// Computes the checksum over all bytes but the checksum field (6.3.3).
    fn checksum(&self) -> u16 {
        let mut first = self.file.to_bytes();
        let second = self.stream.to_bytes();
        first.copy_within(4.., 2);
        let bytes = first.iter().take(ENTRY_LEN.saturating_sub(2));
        checksum16(bytes.chain(&second).chain(self.rest.iter().flatten()))
    }

    fn name_entry_count(&self) -> usize {
        usize::from(self.stream.name_length).div_ceil(NAME_UNITS)
    }

    fn name_entries(&self) -> &[RawEntry] {
        let count = self.name_entry_count().min(self.rest.len());
        self.rest.get(..count).unwrap_or_default()
    }

    /// Returns the entries of vendor extensions.
    fn extra(&self) -> &[RawEntry] {
        self.rest.get(self.name_entry_count()..).unwrap_or_default()
    }

    /// Returns the name in UTF-16 units.
    pub(crate) fn name_units(&self) -> Vec<u16> {
        let entries = self.name_entries().iter();
        let units = entries.flat_map(|entry| {
            (0..NAME_UNITS).map(move |nth| le16(entry, nth.saturating_mul(2).saturating_add(2)))
        });
        let units = units.map(Option::unwrap_or_default);
        units.take(self.stream.name_length.into()).collect()
    }
}

impl FileRecord for EntrySet {
    fn is_directory(&self) -> bool {
        self.file.is_directory()
    }

    fn is_read_only(&self) -> bool {
        self.file.is_read_only()
    }

    fn set_read_only(&mut self, is_read_only: bool) {
        self.file.set_attribute(READ_ONLY, is_read_only);
    }

    fn set_archive(&mut self) {
        self.file.set_attribute(ARCHIVE, true);
    }

    fn created(&self) -> Timestamp {
        self.file.created()
    }

    fn modified(&self) -> Timestamp {
        self.file.modified()
    }

    fn accessed(&self) -> Timestamp {
        self.file.accessed()
    }

    fn set_modified(&mut self, at: Timestamp) {
        self.file.set_modified(at);
    }

    fn set_accessed(&mut self, at: Timestamp) {
        self.file.set_accessed(at);
    }

    fn size(&self) -> u64 {
        self.stream.size()
    }

    fn valid(&self) -> u64 {
        self.stream.valid()
    }

    fn set_size(&mut self, size_bytes: u64, valid_bytes: u64) {
        self.stream.set_size(size_bytes, valid_bytes);
    }

    fn first(&self) -> Option<Cluster> {
        (self.size() > 0).then(|| self.stream.first())
    }

    fn is_contiguous(&self) -> bool {
        self.stream.is_contiguous()
    }

    fn set_clusters(&mut self, first: Option<Cluster>, is_contiguous: bool) {
        self.stream.set_clusters(first, is_contiguous);
    }

    fn entries(&self) -> Vec<RawEntry> {
        let mut file = self.file;
        file.set_checksum.set(self.checksum());
        let mut entries = vec![file.to_bytes(), self.stream.to_bytes()];
        entries.extend(&self.rest);
        entries
    }

    fn named_as(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set.file.secondary_count = other.file.secondary_count;
        set.stream.name_hash = other.stream.name_hash;
        set.stream.name_length = other.stream.name_length;
        set.rest.clone_from(&other.rest);
        set
    }

    /// Fails if a vendor's entry has clusters of its own: only software that knows the extension
    /// can free them (8.2).
    fn check_removable(&self) -> Result<()> {
        let has_clusters = |entry: &RawEntry| {
            let [_, flags, ..] = entry;
            flags & ALLOCATION_POSSIBLE != 0 && le32(entry, 20) != Some(0)
        };
        if self.extra().iter().any(has_clusters) {
            let reason = "cannot remove a file with clusters of a vendor's exFAT extension";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        Ok(())
    }
}

fn name_entry(units: &[u16]) -> RawEntry {
    let mut entry = [0; ENTRY_LEN];
    put(&mut entry, 0, &[FILE_NAME]);
    let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    put(&mut entry, 2, &bytes);
    entry
}

/// The state of assembling a set from consecutive entries.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    entries: Vec<RawEntry>,
    /// The number of entries that are still missing.
    missing: u8,
}

impl Assembly {
    /// Adds an entry. Returns the whole set if this was its last entry.
    pub(crate) fn take(&mut self, entry: &RawEntry) -> Option<EntrySet> {
        let [kind, count, ..] = *entry;
        if kind == FILE {
            self.entries.clear();
            self.missing = if SECONDARY_COUNTS.contains(&count) {
                count
            } else {
                0
            };
        } else if kind & SECONDARY != SECONDARY || self.missing == 0 {
            self.missing = 0;
            return None;
        } else {
            self.missing = self.missing.saturating_sub(1);
        }
        self.entries.push(*entry);
        if self.missing > 0 || kind == FILE {
            return None;
        }
        EntrySet::from_entries(&self.entries).ok()
    }
}
