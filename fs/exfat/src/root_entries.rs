//! The entries that only the root directory has (exFAT specification, 7.1 to 7.3): those of the
//! bitmap, the up-case table and the label.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_clusters::{Cluster, Root, Sectors, for_each_entry};

use crate::boot_sector::BootSector;
use crate::bytes::index;
use crate::directory_entry::{
    ALLOCATION_BITMAP, BitmapEntry, END, LabelEntry, UPCASE_TABLE, UpcaseEntry, VOLUME_LABEL,
};
use crate::error::{Corrupt, Error, ErrorKind, Result, device_failed};
use crate::fat::FatTable;
use crate::upcase_table::{MAX_BYTES, UpcaseTable};

/// The size of the largest directory (exFAT specification, 7.4.4).
pub(crate) const MAX_DIRECTORY_BYTES: u64 = 256 << 20;

/// The special entries of the root directory.
#[derive(Debug, Default)]
pub(crate) struct RootEntries {
    /// The bitmap that belongs to the table in use.
    bitmap: Option<BitmapEntry>,
    upcase: Option<UpcaseEntry>,
    label: Option<LabelEntry>,
}

impl RootEntries {
    pub(crate) fn read(
        device: &Arc<dyn BlockRead>,
        boot: &BootSector,
        fat: &FatTable,
    ) -> Result<Self> {
        let geometry = &boot.geometry;
        let Root::Chain { first } = geometry.root else {
            return Ok(Self::default());
        };
        let sectors = Sectors::new(Arc::clone(device), geometry.sector_bytes);
        let runs = geometry.runs(&fat.chain(first)?, MAX_DIRECTORY_BYTES);
        let mut found = Self::default();
        for_each_entry(&sectors, &runs, |_, _, entry| {
            let [kind, flags, ..] = *entry;
            match kind {
                END => return false,
                ALLOCATION_BITMAP if flags & 1 == boot.active => {
                    found.bitmap.get_or_insert(zerocopy::transmute!(*entry));
                }
                UPCASE_TABLE => {
                    found.upcase.get_or_insert(zerocopy::transmute!(*entry));
                }
                VOLUME_LABEL => {
                    found.label.get_or_insert(zerocopy::transmute!(*entry));
                }
                _ => {}
            }
            found.bitmap.is_none() || found.upcase.is_none() || found.label.is_none()
        })?;
        Ok(found)
    }

    /// Returns the first cluster of the bitmap and its length in bytes.
    pub(crate) fn bitmap(&self, boot: &BootSector) -> Result<(Cluster, u64)> {
        let entry = self
            .bitmap
            .ok_or(Corrupt::NoSuchRootEntry("allocation bitmap"))?;
        let first = Cluster(entry.first_cluster.get());
        boot.geometry.check_first(first)?;
        Ok((first, entry.data_length.get()))
    }

    /// Returns the first cluster of the up-case table.
    pub(crate) fn upcase_first(&self, boot: &BootSector) -> Result<Cluster> {
        let entry = self
            .upcase
            .ok_or(Corrupt::NoSuchRootEntry("up-case table"))?;
        let first = Cluster(entry.first_cluster.get());
        boot.geometry.check_first(first)?;
        Ok(first)
    }

    /// Returns the up-case table. If it is damaged, returns the recommended table and the reason.
    pub(crate) fn upcase_table(
        &self,
        device: &dyn BlockRead,
        boot: &BootSector,
        fat: &FatTable,
    ) -> Result<(UpcaseTable, Option<Error>)> {
        match self.read_upcase_table(device, boot, fat) {
            Ok(table) => Ok((table, None)),
            Err(e) if e.kind() == ErrorKind::Corrupt => Ok((UpcaseTable::recommended(), Some(e))),
            Err(e) => Err(e),
        }
    }

    fn read_upcase_table(
        &self,
        device: &dyn BlockRead,
        boot: &BootSector,
        fat: &FatTable,
    ) -> Result<UpcaseTable> {
        let entry = self
            .upcase
            .ok_or(Corrupt::NoSuchRootEntry("up-case table"))?;
        let len_bytes = entry.data_length.get();
        let wrong = || Corrupt::Length {
            what: "up-case table",
            found: len_bytes,
            range: "2 bytes to 128 KiB",
        };
        if !(2..=MAX_BYTES).contains(&len_bytes) {
            return Err(wrong().into());
        }
        let first = Cluster(entry.first_cluster.get());
        boot.geometry.check_first(first)?;
        let mut bytes = vec![0; index(len_bytes)];
        let mut left = bytes.as_mut_slice();
        for run in fat.chain(first)?.runs() {
            let len = index(boot.geometry.bytes_of(run.count)).min(left.len());
            let (piece, rest) = left.split_at_mut(len);
            let offset = boot.geometry.offset_of(run.first);
            device.read_at(offset, piece).map_err(device_failed)?;
            left = rest;
        }
        if !left.is_empty() {
            return Err(wrong().into());
        }
        UpcaseTable::parse(&bytes, entry.table_checksum.get())
    }

    pub(crate) fn label(&self) -> String {
        self.label.map(|entry| entry.text()).unwrap_or_default()
    }
}
