//! The layout of a sparse extent: what the three kinds of headers have in common.

use std::num::NonZeroU64;

use diskfs_block::{BlockRead, Error, Result};

use crate::cowd_header::{self, CowdHeader};
use crate::entry::EntryFormat;
use crate::footer::read_footer;
use crate::magic::{Magic, magic_of};
use crate::se_sparse_header::{self, SeSparseHeader};
use crate::sectors::to_bytes;
use crate::sparse_header::{Compression, SparseHeader};

/// The largest compressed grain, which is decompressed whole. All known writers use 64 KiB.
pub(crate) const MAX_COMPRESSED_GRAIN_BYTES: u64 = 8 << 20;

/// The places of the tables of a sparse extent, and their formats.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The size of the extent.
    pub(crate) capacity_bytes: u64,
    /// The size of a grain.
    pub(crate) grain_bytes: NonZeroU64,
    /// The entries of a grain table.
    pub(crate) table_entries: NonZeroU64,
    /// The bytes at which the grain directory and its redundant copy begin: the one to use first.
    /// All of them lie within the file.
    pub(crate) directories: Vec<u64>,
    /// The format of all entries.
    pub(crate) entries: EntryFormat,
    /// The compression of grains.
    pub(crate) compression: Option<Compression>,
}

/// The fields of a header that each kind has.
struct Common {
    capacity_sectors: u64,
    grain_sectors: u64,
    table_entries: u64,
    directory_sectors: Vec<u64>,
    /// The number of entries that the directory has, where the header states it.
    directory_entries: Option<u64>,
    entries: EntryFormat,
    compression: Option<Compression>,
}

impl Layout {
    /// Reads the headers of a sparse extent.
    ///
    /// # Errors
    /// `Corrupt` if the file is not a sparse extent, or if no grain directory lies within it; as
    /// for the headers.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        let common = match magic_of(file)? {
            Some(Magic::Sparse) => sparse(file)?,
            Some(Magic::Cowd) => cowd(&CowdHeader::read(file)?),
            Some(Magic::SeSparse) => se_sparse(&SeSparseHeader::read(file)?)?,
            None => {
                return Err(Error::corrupt("not a sparse VMDK extent: wrong magic number").at(0));
            }
        };
        Self::check(&common, file.size_bytes())
    }

    fn check(common: &Common, file_bytes: u64) -> Result<Self> {
        let capacity_bytes = to_bytes(common.capacity_sectors, "capacity", 0)?;
        let grain_bytes = to_bytes(common.grain_sectors, "grain size", 0)?;
        let invalid = || Error::corrupt("invalid VMDK extent: empty grains or grain tables").at(0);
        let layout = Self {
            capacity_bytes,
            grain_bytes: NonZeroU64::new(grain_bytes).ok_or_else(invalid)?,
            table_entries: NonZeroU64::new(common.table_entries).ok_or_else(invalid)?,
            directories: Vec::new(),
            entries: common.entries,
            compression: common.compression,
        };
        layout.check_compression()?;
        layout.check_directory_entries(common.directory_entries)?;
        layout.with_directories(&common.directory_sectors, file_bytes)
    }

    fn check_compression(&self) -> Result<()> {
        if self.compression.is_some() && self.grain_bytes.get() > MAX_COMPRESSED_GRAIN_BYTES {
            let reason = format!(
                "unsupported compressed grains of {} bytes",
                self.grain_bytes
            );
            return Err(Error::unsupported(reason).at(0));
        }
        Ok(())
    }

    fn check_directory_entries(&self, entries: Option<u64>) -> Result<()> {
        match entries {
            Some(entries) if entries < self.tables() => {
                let reason = format!(
                    "invalid VMDK extent: the grain directory has {entries} entries, but the \
                     capacity needs {}",
                    self.tables()
                );
                Err(Error::corrupt(reason).at(0))
            }
            _ => Ok(()),
        }
    }

    /// Keeps the directories that lie within the file. This bounds the capacity, too.
    fn with_directories(mut self, sectors: &[u64], file_bytes: u64) -> Result<Self> {
        let len_bytes = self.directory_bytes();
        let starts = sectors
            .iter()
            .filter_map(|sector| to_bytes(*sector, "grain directory", 0).ok());
        let is_inside = |start: &u64| {
            let end = start.checked_add(len_bytes);
            end.is_some_and(|end| end <= file_bytes)
        };
        self.directories = starts.filter(is_inside).collect();
        if self.directories.is_empty() && len_bytes > 0 {
            let reason = "grain directory past the end of the file; the file may be truncated";
            return Err(Error::corrupt(reason).at(0));
        }
        Ok(self)
    }

    /// Returns the number of grains.
    pub(crate) fn grains(&self) -> u64 {
        self.capacity_bytes.div_ceil(self.grain_bytes.get())
    }

    /// Returns the number of grain tables.
    pub(crate) fn tables(&self) -> u64 {
        self.grains().div_ceil(self.table_entries.get())
    }

    /// Returns the size of the grain directory.
    pub(crate) fn directory_bytes(&self) -> u64 {
        self.tables().saturating_mul(self.entries.entry_bytes())
    }

    /// Returns the size of a grain table: the last one may be shorter.
    pub(crate) fn table_bytes(&self, table: u64) -> u64 {
        let first = table.saturating_mul(self.table_entries.get());
        let left = self.grains().saturating_sub(first);
        let entries = left.min(self.table_entries.get());
        entries.saturating_mul(self.entries.entry_bytes())
    }
}

fn sparse(file: &dyn BlockRead) -> Result<Common> {
    let mut header = SparseHeader::read(file)?;
    // What the footer states takes precedence.
    if header.directory_sector.is_none() {
        header = read_footer(file)?;
    }
    let Some(directory) = header.directory_sector else {
        return Err(Error::corrupt(
            "invalid footer of a VMDK: no grain directory",
        ));
    };
    let mut directory_sectors = vec![directory];
    directory_sectors.extend(header.redundant_sector);
    Ok(Common {
        capacity_sectors: header.capacity_sectors,
        grain_sectors: header.grain_sectors,
        table_entries: header.table_entries,
        directory_sectors,
        directory_entries: None,
        entries: EntryFormat::Sectors {
            has_zeroed: header.has_zeroed_grains,
        },
        compression: header.compression,
    })
}

fn cowd(header: &CowdHeader) -> Common {
    Common {
        capacity_sectors: header.capacity_sectors,
        grain_sectors: header.grain_sectors,
        table_entries: cowd_header::TABLE_ENTRIES,
        directory_sectors: vec![header.directory_sector],
        directory_entries: Some(header.directory_entries),
        entries: EntryFormat::Sectors { has_zeroed: false },
        compression: None,
    }
}

fn se_sparse(header: &SeSparseHeader) -> Result<Common> {
    Ok(Common {
        capacity_sectors: header.capacity_sectors,
        grain_sectors: header.grain_sectors,
        table_entries: se_sparse_header::TABLE_ENTRIES,
        directory_sectors: vec![header.directory_sector],
        directory_entries: Some(header.directory_entries),
        entries: EntryFormat::SeSparse {
            tables_start: to_bytes(header.tables_sector, "grain tables offset", 0)?,
            grains_start: to_bytes(header.grains_sector, "grains offset", 0)?,
        },
        compression: None,
    })
}
