//! Changes of the set of persistent bitmaps: specification, section "Bitmaps".
//!
//! New tables, bits and a new directory are written to free clusters. When they and their counts
//! are durable, one write of one sector of the header activates the directory. Then the clusters
//! that are no longer referred to are freed. A crash leaves the old bitmaps or the new ones, and
//! leaked clusters at most.

use diskfs_block::{BlockRead, Error, Result};

use crate::description::{Bitmap, BitmapState};
use crate::numbers::{to_u64, to_usize};
use crate::qcow2::bitmap_bits::BitmapBits;
use crate::qcow2::bitmap_directory::{self, AUTO, BitmapEntry, DIRECTORY_MAX_BYTES};
use crate::qcow2::bitmap_table::{self, BitmapCluster};
use crate::qcow2::first_cluster::SectorWrite;
use crate::qcow2::header::Header;
use crate::qcow2::header_extensions::BitmapDirectory;
use crate::qcow2::write::Writer;
use crate::qcow2::write::allocate::HostRun;
use crate::qcow2::write::bitmap_change::{BitmapChange, Existing};
use crate::qcow2::write::bitmap_checks::{missing, unknown_kind, usable_in};
use crate::qcow2::write::freed::Freed;
use crate::qcow2::write::marks::Marks;

/// A bitmap, and its directory entry as it will be stored.
pub(super) struct EditedBitmap {
    pub(super) entry: BitmapEntry,
    pub(super) raw: Vec<u8>,
}

/// A change in preparation.
pub(super) struct Edit<'a> {
    pub(super) writer: &'a Writer,
    pub(super) bitmaps: Vec<EditedBitmap>,
    /// The stored directory, unless it is void.
    directory: Option<BitmapDirectory>,
    /// The new clusters.
    pub(super) made: Vec<HostRun>,
    /// The clusters that the new directory does not refer to.
    pub(super) freed: Vec<Freed>,
}

impl<'a> Edit<'a> {
    pub(super) fn read(writer: &'a Writer) -> Result<Self> {
        let header = &writer.header;
        if header.version < 3 {
            let reason = "bitmaps are not supported in a version 2 image";
            return Err(Error::unsupported(reason)
                .with_hint("convert it to version 3 with `diskfs amend -o compat=1.1`"));
        }
        // Without the bit the bitmaps are void, and may have been overwritten.
        let directory = header
            .extensions
            .bitmaps
            .filter(|_| header.autoclear.bitmaps());
        let image = writer.image.as_ref();
        let entries = match directory {
            Some(_) => bitmap_directory::read(image, header)?,
            None => Vec::new(),
        };
        let read_raw = |entry: BitmapEntry| {
            let mut raw = vec![0; to_usize(entry.len_bytes)];
            image.read_at(entry.at.0, &mut raw)?;
            Ok(EditedBitmap { entry, raw })
        };
        Ok(Self {
            writer,
            bitmaps: entries.into_iter().map(read_raw).collect::<Result<_>>()?,
            directory,
            made: Vec::new(),
            freed: Vec::new(),
        })
    }

    /// Returns the image with the source of a merge, and its header.
    pub(super) fn source<'b>(
        &'b self,
        image: Option<(&'b dyn BlockRead, &'b Header)>,
    ) -> (&'b dyn BlockRead, &'b Header) {
        image.unwrap_or((self.writer.image.as_ref(), &self.writer.header))
    }

    fn index_of(&self, name: &str) -> Result<usize> {
        let mut names = self.bitmaps.iter().map(|it| &it.entry.bitmap.name);
        names
            .position(|other| other == name)
            .ok_or_else(|| missing(self.bitmaps.iter().map(|it| &it.entry), name))
    }

    pub(super) fn find(&self, name: &str) -> Result<&BitmapEntry> {
        let found = self.bitmaps.get(self.index_of(name)?);
        let entry = &found.ok_or_else(|| Error::invalid("no such bitmap"))?.entry;
        if entry.is_understood {
            return Ok(entry);
        }
        Err(unknown_kind(name))
    }

    pub(super) fn tables_of(&self, entry: &BitmapEntry) -> Result<Vec<BitmapCluster>> {
        bitmap_table::read(self.writer.image.as_ref(), &self.writer.header, entry)
    }

    /// Writes the tables and bits that the change needs. Returns false if nothing changes.
    pub(super) fn carry_out(&mut self, change: BitmapChange<'_>) -> Result<bool> {
        match change {
            BitmapChange::Add {
                name,
                granularity_bytes,
                recording,
                existing,
            } => {
                if existing == Existing::KeptIfUnmarked && self.index_of(name).is_ok() {
                    return Ok(false);
                }
                let granularity_bytes = self.granularity(granularity_bytes);
                let header = &self.writer.header;
                let size_bytes = self.writer.size_bytes;
                let clusters = bitmap_table::clusters_for(header, size_bytes, granularity_bytes);
                let clusters = vec![BitmapCluster::Zeroes; to_usize(clusters)];
                self.add(name, granularity_bytes, recording, &clusters)?;
                Ok(true)
            }
            BitmapChange::Copy(source) => self.copy_all(source),
            BitmapChange::Remove { name } => {
                let index = self.index_of(name)?;
                self.free_bits(index)?;
                self.bitmaps.remove(index);
                Ok(true)
            }
            BitmapChange::Clear { name } => self.clear(name),
            BitmapChange::SetRecording { name, recording } => self.set_recording(name, recording),
            BitmapChange::Merge {
                name,
                source,
                image,
            } => self.merge(name, source, image),
        }
    }

    /// Adds a bitmap with these bits.
    pub(super) fn add(
        &mut self,
        name: &str,
        granularity_bytes: u64,
        recording: bool,
        clusters: &[BitmapCluster],
    ) -> Result<()> {
        let table_at = self.write_table(clusters)?;
        let bitmap = Bitmap {
            name: name.to_owned(),
            granularity_bytes,
            state: BitmapState::Consistent,
            recording,
        };
        let table_entries = u32::try_from(clusters.len()).unwrap_or(u32::MAX);
        let raw = bitmap_directory::encode(&bitmap, table_at, table_entries);
        let entry = BitmapEntry::new(bitmap, table_at, table_entries);
        self.bitmaps.push(EditedBitmap { entry, raw });
        Ok(())
    }

    fn clear(&mut self, name: &str) -> Result<bool> {
        let (_, clusters) = self.usable(name)?;
        if clusters.iter().all(|it| *it == BitmapCluster::Zeroes) {
            return Ok(false);
        }
        let index = self.index_of(name)?;
        self.free_bits(index)?;
        self.point_to_table(index, &vec![BitmapCluster::Zeroes; clusters.len()])?;
        Ok(true)
    }

    fn set_recording(&mut self, name: &str, recording: bool) -> Result<bool> {
        let index = self.index_of(name)?;
        let Some(bitmap) = self.bitmaps.get_mut(index) else {
            return Ok(false);
        };
        if bitmap.entry.bitmap.recording == recording {
            return Ok(false);
        }
        let flags = bitmap.entry.flags & !AUTO | if recording { AUTO } else { 0 };
        bitmap_directory::set_flags(&mut bitmap.raw, flags);
        Ok(true)
    }

    fn merge(
        &mut self,
        name: &str,
        source: &str,
        image: Option<(&dyn BlockRead, &Header)>,
    ) -> Result<bool> {
        let (entry, mut clusters) = self.usable(name)?;
        let mut marks = Marks::new(entry.bitmap.granularity_bytes);
        let (file, header) = self.source(image);
        let from = usable_in(file, header, source)?;
        let bits = BitmapBits::read(file, header, &from)?;
        bits.for_each_marked(file, |range| marks.mark(range.start, range.end))?;
        if marks.is_lost() {
            return Err(Error::unsupported(
                "the bitmap is too large to merge: over 64 MiB",
            ));
        }
        let is_changed = self.add_marks(&mut clusters, &marks)?;
        if is_changed {
            let index = self.index_of(name)?;
            self.free_table(index);
            self.point_to_table(index, &clusters)?;
        }
        Ok(is_changed)
    }

    fn point_to_table(&mut self, index: usize, clusters: &[BitmapCluster]) -> Result<()> {
        let table_at = self.write_table(clusters)?;
        if let Some(bitmap) = self.bitmaps.get_mut(index) {
            bitmap_directory::set_table(&mut bitmap.raw, table_at);
        }
        Ok(())
    }

    /// Writes the new directory, and returns the write that activates it.
    pub(super) fn write_directory(&mut self) -> Result<SectorWrite> {
        let raw: Vec<u8> = self
            .bitmaps
            .iter()
            .flat_map(|it| &it.raw)
            .copied()
            .collect();
        let directory = if raw.is_empty() {
            None
        } else {
            Some(BitmapDirectory {
                count: u32::try_from(self.bitmaps.len()).unwrap_or(u32::MAX),
                at: self.write_new(&raw)?,
                size_bytes: to_u64(raw.len()),
            })
        };
        if let Some(old) = self.directory {
            self.check_directory(old)?;
            self.free(old.at, old.size_bytes);
        }
        self.writer.prepare_bitmaps(directory)
    }

    /// Fails if the stored directory cannot be freed.
    fn check_directory(&self, old: BitmapDirectory) -> Result<()> {
        let header = &self.writer.header;
        if old.size_bytes <= DIRECTORY_MAX_BYTES
            && header.geometry.is_cluster_aligned(old.at.0)
            && !header.overlaps_tables(old.at, old.size_bytes)
        {
            return Ok(());
        }
        Err(Error::corrupt("the bitmap directory overlaps other tables").at(old.at.0))
    }
}
