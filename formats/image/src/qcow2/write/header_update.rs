//! Changes of the header, and the work before the first write.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use diskfs_block::{Error, ErrorKind, Result};

use crate::numbers::to_usize;
use crate::qcow2::features::Autoclear;
use crate::qcow2::first_cluster::{FirstCluster, SectorWrite};
use crate::qcow2::header::Table;
use crate::qcow2::header_extensions::{BitmapDirectory, ExtensionKind};
use crate::qcow2::units::HostOffset;
use crate::qcow2::write::Writer;

/// The offsets of header fields (specification, section "Header").
const SIZE_AT: u64 = 24;
const L1_TABLE_AT: u64 = 36;
const REFCOUNT_TABLE_AT: u64 = 48;
const AUTOCLEAR_AT: u64 = 88;

/// The start of writing: whether anything was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Started {
    #[default]
    No,
    Yes,
}

impl Writer {
    /// Does what the specification requires of a program before it changes an image.
    pub(super) fn begin(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::ReadOnly, "the image was closed"));
        }
        if self.begun.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if *started == Started::No {
            let keeps_bitmaps = self.begin_bitmaps()?;
            self.clear_features(keeps_bitmaps)?;
            *started = Started::Yes;
            self.begun.store(true, Ordering::Release);
        }
        Ok(())
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Clears autoclear bits. They stand for data that writers must keep up to date. The unknown
    /// ones are cleared, and the bitmaps' bit if their directory is broken.
    pub(super) fn clear_features(&self, keeps_bitmaps: bool) -> Result<()> {
        let mut kept = self.header.autoclear.0 & Autoclear::KNOWN;
        if !keeps_bitmaps {
            kept &= !Autoclear::BITMAPS;
        }
        if self.header.version < 3 || kept == self.header.autoclear.0 {
            return Ok(());
        }
        self.image.write_at(AUTOCLEAR_AT, &kept.to_be_bytes())?;
        self.image.flush()
    }

    /// Updates the pointer to the refcount table. Both fields are in one sector, so a crash leaves
    /// the old table or the new one.
    pub(super) fn point_to_refcount_table(&self, at: HostOffset, clusters: u64) -> Result<()> {
        let clusters = u32::try_from(clusters).unwrap_or(u32::MAX);
        let mut fields = [0; 12];
        let (offset, count) = fields.split_at_mut(8);
        offset.copy_from_slice(&at.0.to_be_bytes());
        count.copy_from_slice(&clusters.to_be_bytes());
        self.image.write_at(REFCOUNT_TABLE_AT, &fields)
    }

    /// Updates the pointer to the L1 table. Both fields are in one sector, so a crash leaves the old
    /// table or the new one.
    pub(super) fn point_to_l1_table(&self, l1: Table) -> Result<()> {
        let entries = u32::try_from(l1.entries).unwrap_or(u32::MAX);
        let mut fields = [0; 12];
        let (count, offset) = fields.split_at_mut(4);
        count.copy_from_slice(&entries.to_be_bytes());
        offset.copy_from_slice(&l1.at.0.to_be_bytes());
        self.image.write_at(L1_TABLE_AT, &fields)
    }

    /// Updates the size of the guest's disk.
    pub(super) fn write_size(&self, size_bytes: u64) -> Result<()> {
        self.image.write_at(SIZE_AT, &size_bytes.to_be_bytes())
    }

    /// Prepares the header for a new bitmap directory, or for none, and returns the write that
    /// activates it.
    pub(super) fn prepare_bitmaps(
        &self,
        directory: Option<BitmapDirectory>,
    ) -> Result<SectorWrite> {
        let image = self.image.as_ref();
        let cluster = FirstCluster::read(image, &self.header)?;
        let kept = cluster.extensions()?;
        let mut header = cluster.header().to_vec();
        let autoclear = self.header.autoclear.0 & Autoclear::KNOWN & !Autoclear::BITMAPS
            | directory.map_or(0, |_| Autoclear::BITMAPS);
        let at = to_usize(AUTOCLEAR_AT);
        if let Some(place) = header.get_mut(at..at.saturating_add(8)) {
            place.copy_from_slice(&autoclear.to_be_bytes());
        }
        // Without the names of features, which are only used in messages, there is more room.
        let fronts = [true, false].map(|with_names| {
            let mut bytes = header.clone();
            let mut directory = directory;
            for (kind, raw) in &kept {
                match kind {
                    Some(ExtensionKind::Bitmaps) => {
                        if let Some(directory) = directory.take() {
                            directory.push_extension(&mut bytes);
                        }
                    }
                    Some(ExtensionKind::FeatureNames) if !with_names => {}
                    _ => bytes.extend_from_slice(raw),
                }
            }
            if let Some(directory) = directory {
                directory.push_extension(&mut bytes);
            }
            bytes
        });
        cluster.prepare(image, fronts, cluster.name())
    }
}
