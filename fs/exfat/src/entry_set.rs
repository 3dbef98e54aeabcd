//! The entries of one file (exFAT specification, 6.3 and 7.4): what it is, where it is, its name.

use diskfs_clusters::ENTRY_LEN;

use crate::bytes::{le16, le32, put};
use crate::checksum::checksum16;
use crate::directory_entry::{
    ALLOCATION_POSSIBLE, Entry, FILE, FILE_NAME, FileEntry, IN_USE, NAME_UNITS, SECONDARY,
    STREAM_EXTENSION, StreamExtension,
};
use crate::error::{Corrupt, Error, ErrorKind, Result};
use crate::file_name::FileName;

/// `SecondaryCount` of a file (7.4.2).
pub(crate) const SECONDARY_COUNTS: std::ops::RangeInclusive<u8> = 2..=18;

/// The entries of one file.
#[derive(Debug, Clone)]
pub(crate) struct EntrySet {
    pub(crate) file: FileEntry,
    pub(crate) stream: StreamExtension,
    /// Those of its name, and what vendors added.
    rest: Vec<Entry>,
}

impl EntrySet {
    /// Of an empty file.
    pub(crate) fn new(file: FileEntry, name: &FileName) -> Self {
        let set = Self {
            file,
            stream: StreamExtension::new(),
            rest: Vec::new(),
        };
        set.named(name)
    }

    /// The same file with another name.
    pub(crate) fn named(&self, name: &FileName) -> Self {
        let extra = self.extra().to_vec();
        let mut set = self.clone();
        set.stream.name_hash.set(name.hash());
        set.stream.name_length = u8::try_from(name.units().len()).unwrap_or(u8::MAX);
        set.rest = name.units().chunks(NAME_UNITS).map(name_entry).collect();
        let room = usize::from(*SECONDARY_COUNTS.end()).saturating_sub(1);
        let room = room.saturating_sub(set.rest.len());
        set.rest.extend(extra.into_iter().take(room));
        set.file.secondary_count = u8::try_from(set.rest.len().saturating_add(1)).unwrap_or(0);
        set
    }

    /// The same file with the name of another.
    pub(crate) fn named_as(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set.file.secondary_count = other.file.secondary_count;
        set.stream.name_hash = other.stream.name_hash;
        set.stream.name_length = other.stream.name_length;
        set.rest.clone_from(&other.rest);
        set
    }

    /// The set that these entries are, if they are a file's. The checksum is not looked at.
    pub(crate) fn from_entries(entries: &[Entry]) -> Result<Self> {
        let wrong = |what| Err(Corrupt::EntrySet(what).into());
        let [file, stream, rest @ ..] = entries else {
            return wrong("it is shorter than two entries");
        };
        let set = Self {
            file: FileEntry::from_bytes(*file),
            stream: StreamExtension::from_bytes(*stream),
            rest: rest.to_vec(),
        };
        if set.file.entry_type != FILE || set.stream.entry_type != STREAM_EXTENSION {
            return wrong("it does not begin with a file and its stream");
        }
        let names = set.name_entries();
        if set.stream.name_length == 0 || names.len() < set.name_entry_count() {
            return wrong("it has less of a name than it says");
        }
        if names.iter().any(|[kind, ..]| *kind != FILE_NAME) {
            return wrong("its name is not in entries of a name");
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

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.rest.len().saturating_add(2)
    }

    /// All entries, with the checksum that they have.
    pub(crate) fn to_entries(&self) -> Vec<Entry> {
        let mut file = self.file;
        file.set_checksum.set(self.checksum());
        let mut entries = vec![file.to_bytes(), self.stream.to_bytes()];
        entries.extend(&self.rest);
        entries
    }

    /// Of all bytes but its own (6.3.3).
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

    fn name_entries(&self) -> &[Entry] {
        let count = self.name_entry_count().min(self.rest.len());
        self.rest.get(..count).unwrap_or_default()
    }

    /// What vendors added.
    fn extra(&self) -> &[Entry] {
        self.rest.get(self.name_entry_count()..).unwrap_or_default()
    }

    /// The name in units of UTF-16.
    pub(crate) fn name_units(&self) -> Vec<u16> {
        let entries = self.name_entries().iter();
        let units = entries.flat_map(|entry| {
            (0..NAME_UNITS).map(move |nth| le16(entry, nth.saturating_mul(2).saturating_add(2)))
        });
        let units = units.map(Option::unwrap_or_default);
        units.take(self.stream.name_length.into()).collect()
    }

    /// Fails where a vendor's entry has clusters of its own: whoever removes the file would have to
    /// know what they are (8.2).
    pub(crate) fn check_removable(&self) -> Result<()> {
        let has_clusters = |entry: &Entry| {
            let [_, flags, ..] = entry;
            flags & ALLOCATION_POSSIBLE != 0 && le32(entry, 20) != Some(0)
        };
        if self.extra().iter().any(has_clusters) {
            let reason = "the file has clusters that belong to a vendor's extension of exFAT";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        Ok(())
    }
}

fn name_entry(units: &[u16]) -> Entry {
    let mut entry = [0; ENTRY_LEN];
    put(&mut entry, 0, &[FILE_NAME]);
    let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    put(&mut entry, 2, &bytes);
    entry
}

/// Puts sets together as a directory's entries go by.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    entries: Vec<Entry>,
    /// How many are missing.
    missing: u8,
}

impl Assembly {
    /// Takes one entry. Returns the whole set when this was its last.
    pub(crate) fn take(&mut self, entry: &Entry) -> Option<EntrySet> {
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

/// An entry that is no longer in use.
pub(crate) fn unused(entry: Entry) -> Entry {
    let mut entry = entry;
    if let Some(kind) = entry.first_mut() {
        *kind &= !IN_USE;
    }
    entry
}
