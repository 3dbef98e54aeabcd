//! The directory entries of one file: the short entry and those of a long name.

use diskfs_clusters::{Cluster, FileRecord, RawEntry};
use diskfs_vfs::Timestamp;

use crate::directory_entry::{ARCHIVE, READ_ONLY, ShortEntry};
use crate::short_name;

/// The directory entries of one file.
#[derive(Debug, Clone)]
pub struct FatRecord {
    pub(crate) short: ShortEntry,
    /// The entries of a new long name. Empty for a file that was read: the short entry has
    /// everything but the name.
    long: Vec<RawEntry>,
}

impl From<ShortEntry> for FatRecord {
    fn from(short: ShortEntry) -> Self {
        let long = Vec::new();
        Self { short, long }
    }
}

impl FatRecord {
    /// Returns the file with another short name and, if given, this long name.
    pub(crate) fn named(&self, short: [u8; 11], long: Option<&[u16]>) -> Self {
        let checksum = short_name::checksum(&short);
        let long = long.map(|units| crate::long_name::entries(units, checksum));
        let mut named = self.short;
        named.name = short;
        named.case = 0;
        Self {
            short: named,
            long: long.unwrap_or_default(),
        }
    }
}

impl FileRecord for FatRecord {
    fn is_directory(&self) -> bool {
        self.short.is_directory()
    }

    fn is_read_only(&self) -> bool {
        self.short.attributes & READ_ONLY != 0
    }

    fn set_read_only(&mut self, is_read_only: bool) {
        if is_read_only {
            self.short.attributes |= READ_ONLY;
        } else {
            self.short.attributes &= !READ_ONLY;
        }
    }

    fn set_archive(&mut self) {
        self.short.attributes |= ARCHIVE;
    }

    fn created(&self) -> Timestamp {
        self.short.created()
    }

    fn modified(&self) -> Timestamp {
        self.short.modified()
    }

    fn accessed(&self) -> Timestamp {
        self.short.accessed()
    }

    fn set_modified(&mut self, at: Timestamp) {
        self.short.set_modified(at);
    }

    fn set_accessed(&mut self, at: Timestamp) {
        self.short.set_accessed(at);
    }

    fn size(&self) -> u64 {
        // The size field of a directory is 0 and ignored (fatgen103, "FAT Directory Structure").
        if self.short.is_directory() {
            return 0;
        }
        self.short.size.get().into()
    }

    fn set_size(&mut self, size_bytes: u64, _valid_bytes: u64) {
        if !self.short.is_directory() {
            // Callers have checked the size against the maximum.
            let size = u32::try_from(size_bytes).unwrap_or(u32::MAX);
            self.short.size.set(size);
        }
    }

    fn first(&self) -> Option<Cluster> {
        Some(self.short.cluster()).filter(|first| *first != Cluster(0))
    }

    fn set_clusters(&mut self, first: Option<Cluster>, _is_contiguous: bool) {
        self.short.set_cluster(first.unwrap_or(Cluster(0)));
    }

    fn entries(&self) -> Vec<RawEntry> {
        let short = self.short.to_bytes();
        self.long.iter().copied().chain([short]).collect()
    }

    fn named_as(&self, other: &Self) -> Self {
        self.short.named_as(&other.short).into()
    }
}
