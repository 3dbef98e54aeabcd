//! The qcow2 format: <https://www.qemu.org/docs/master/interop/qcow2.html>, called "the
//! specification" in the modules here. Each on-disk structure has one module.
//!
//! Mapping (from guest offsets to host offsets) is separate from reading the data, so that writing
//! can change the mapping and reuse the reader.

pub(crate) mod amend;
#[cfg(test)]
mod amend_tests;
pub(crate) mod backing_name;
#[cfg(test)]
mod backing_name_tests;
pub(crate) mod base_record;
pub(crate) mod bitmap_bits;
mod bitmap_directory;
#[cfg(test)]
mod bitmap_edit_tests;
mod bitmap_table;
pub(crate) mod cache;
pub(crate) mod check;
mod compressed;
#[cfg(test)]
mod counting;
mod decompress;
pub(crate) mod encryption_header;
mod feature_names;
pub(crate) mod features;
mod first_cluster;
mod growth;
pub(crate) mod header;
mod header_extensions;
pub(crate) mod l1_entry;
mod l1_table;
pub(crate) mod l2_entry;
mod mapping;
#[cfg(test)]
mod mapping_tests;
mod reader;
pub(crate) mod refcounts;
pub(crate) mod repair;
#[cfg(test)]
mod repair_tests;
#[cfg(test)]
mod resize_tests;
mod snapshot_table;
pub(crate) mod snapshots;
#[cfg(test)]
mod snapshots_tests;
pub(crate) mod stated;
mod table_reader;
mod table_store;
pub(crate) mod units;
#[cfg(test)]
mod walk_tests;
pub(crate) mod workers;
mod write;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};

use crate::base::Identity;
use crate::description::{Bitmap, Encryption, Qcow2Details};
use crate::encryption::{Decrypt, NoKey, Unlock, no_key};
use crate::layer::{Layer, Status, read_only};
use crate::qcow2::bitmap_bits::BitmapBits;
pub(crate) use crate::qcow2::bitmap_directory::{BitmapEntry, read as read_bitmaps};
use crate::qcow2::cache::{Caches, LayerId};
use crate::qcow2::check::CheckReport;
use crate::qcow2::compressed::CompressedClusters;
use crate::qcow2::decompress::Decompressor;
use crate::qcow2::feature_names::FeatureField;
use crate::qcow2::features::bits;
use crate::qcow2::header::{Header, Table, check_l1};
use crate::qcow2::l1_table::refuse_shared_l2_tables;
use crate::qcow2::mapping::{Mapping, Run, RunKind};
use crate::qcow2::reader::{Backing, Reader};
use crate::qcow2::snapshot_table::SnapshotEntry;
use crate::qcow2::table_store::TableStore;
use crate::qcow2::units::{GuestOffset, HostOffset};
use crate::qcow2::workers::Workers;
pub(crate) use crate::qcow2::write::{BitmapChange, BitmapSource, Existing, Fill, PreparedChange};
use crate::qcow2::write::{Writer, usable_in};

/// An image whose header is read, but whose backing file and data file are not open yet.
#[derive(Debug)]
pub(crate) struct Unopened {
    file: Arc<dyn BlockRead>,
    header: Header,
    snapshots: Vec<SnapshotEntry>,
    bitmaps: Vec<Bitmap>,
    opened_snapshot: Option<usize>,
    pub(crate) warnings: Vec<String>,
}

/// The opened files that an image names, and the resources that the chain shares.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) backing: Option<Arc<dyn Layer>>,
    pub(crate) data_file: Option<Arc<dyn BlockRead>>,
    /// The decryption of its clusters, if they are encrypted and a key was given.
    pub(crate) encryption: Option<Arc<dyn Decrypt>>,
    /// The image's files for writing, if it is opened for that.
    pub(crate) writable: Option<WritableFiles>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) layer: LayerId,
    /// The number of bytes that the host has allocated for the image file, if known.
    pub(crate) allocated_bytes: Option<u64>,
}

/// The files of an image that is opened for writing.
#[derive(Debug, Clone)]
pub(crate) struct WritableFiles {
    /// The image file: all tables, and the data unless there is an external data file.
    pub(crate) image: Arc<dyn BlockWrite>,
    /// The external data file.
    pub(crate) data: Option<Arc<dyn BlockWrite>>,
}

/// An open qcow2 image.
#[derive(Debug)]
pub(crate) struct Qcow2 {
    path: PathBuf,
    /// The writer, if the image is opened for writing.
    writer: Option<Writer>,
    size_bytes: u64,
    reader: Arc<Reader>,
    header: Header,
    /// True if the image is encrypted and no key was given.
    is_locked: bool,
    /// True if clusters were allocated without being written, see [`refcounts`].
    preallocated: OnceLock<bool>,
    allocated_bytes: Option<u64>,
}

impl Unopened {
    /// Reads the header and the tables of snapshots and bitmaps.
    pub(crate) fn read(file: Arc<dyn BlockRead>, snapshot: Option<&str>) -> Result<Self> {
        let header = Header::read(file.as_ref())?;
        let mut warnings = Vec::new();
        let snapshots = snapshot_table::read(file.as_ref(), &header)?.entries;
        let opened_snapshot = snapshot
            .map(|wanted| snapshot_table::find(&snapshots, wanted))
            .transpose()?;
        let bitmaps = bitmap_directory::list(file.as_ref(), &header, &mut warnings);
        if header.incompatible.dirty() {
            warnings.push(
                "was not closed properly (dirty bit); refcounts may be wrong, which \
                 does not affect reading"
                    .to_owned(),
            );
        }
        if header.incompatible.corrupt() {
            warnings.push(
                "is marked corrupt, and its data may be wrong; run `qemu-img check` on it"
                    .to_owned(),
            );
        }
        Ok(Self {
            file,
            header,
            snapshots,
            bitmaps,
            opened_snapshot,
            warnings,
        })
    }

    /// Returns the size of the current disk in bytes.
    pub(crate) const fn size_bytes(&self) -> u64 {
        self.header.size_bytes
    }

    /// Returns true if the image names other files.
    pub(crate) fn names_files(&self) -> bool {
        self.header.backing_name.is_some() || self.header.incompatible.external_data_file()
    }

    pub(crate) fn backing_name(&self) -> Option<&[u8]> {
        self.header.backing_name.as_deref()
    }

    /// Returns the recorded state of the backing file, if the image has it.
    pub(crate) fn expected_base(&self) -> Option<Identity> {
        let record = self.header.extensions.base?;
        record.expected(self.header.backing_name.as_deref()?)
    }

    pub(crate) fn backing_format_name(&self) -> Option<&str> {
        self.header.extensions.backing_format.as_deref()
    }

    /// Returns the name of the external data file, if the image has one.
    pub(crate) fn data_file_name(&self) -> Result<Option<&[u8]>> {
        if !self.header.incompatible.external_data_file() {
            return Ok(None);
        }
        match &self.header.extensions.data_file {
            Some(name) => Ok(Some(name)),
            None => Err(Error::corrupt("missing name of the external data file")
                .with_hint("set it with `qemu-img amend -o data_file=FILE`")),
        }
    }

    /// Returns the decryption of the clusters of the image at `path`, if they are encrypted, with
    /// `unlock` as the source of the key.
    pub(crate) fn encryption(
        &self,
        path: &Path,
        unlock: Option<&dyn Unlock>,
    ) -> Result<Option<Arc<dyn Decrypt>>> {
        let (Some(luks), Some(unlock)) = (self.header.encryption, unlock) else {
            return Ok(None);
        };
        let header = luks.device(Arc::clone(&self.file))?;
        unlock.unlock(path, &header)
    }

    pub(crate) fn details(&self) -> Qcow2Details {
        let header = &self.header;
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        Qcow2Details {
            version: header.version,
            cluster_size_bytes: header.geometry.cluster_size(),
            compression: header.compression,
            refcount_bits: u32::try_from(header.refcount_bits()).unwrap_or(u32::MAX),
            extended_l2: header.incompatible.extended_l2(),
            lazy_refcounts: header.compatible.lazy_refcounts(),
            dirty: header.incompatible.dirty(),
            corrupt: header.incompatible.corrupt(),
            features: self.feature_names(),
            backing_name: header.backing_name.as_deref().map(text),
            backing_format_name: header.extensions.backing_format.clone(),
            data_file: None,
            data_file_raw: header.autoclear.raw_external_data(),
            snapshots: self.snapshots.iter().map(|s| s.snapshot.clone()).collect(),
            opened_snapshot: self.opened_snapshot,
            bitmaps: self.bitmaps.clone(),
            encryption: header.encryption.map(|luks| Encryption {
                header_offset_bytes: luks.at.0,
                header_len_bytes: luks.size_bytes,
                is_unlocked: false,
            }),
        }
    }

    fn feature_names(&self) -> Vec<String> {
        let names = &self.header.extensions.feature_names;
        [
            (FeatureField::Incompatible, self.header.incompatible.0),
            (FeatureField::Compatible, self.header.compatible.0),
            (FeatureField::Autoclear, self.header.autoclear.0),
        ]
        .into_iter()
        .flat_map(|(field, value)| bits(value).map(move |bit| names.describe(field, bit)))
        .collect()
    }

    /// Returns the L1 table and the disk's size: the current ones, or the snapshot's.
    fn state(&self) -> Result<(u64, Table)> {
        let Some(entry) = self.opened_snapshot.and_then(|i| self.snapshots.get(i)) else {
            return Ok((self.header.size_bytes, self.header.l1));
        };
        let size_bytes = entry
            .snapshot
            .virtual_size_bytes
            .unwrap_or(self.header.size_bytes);
        check_l1(
            self.file.as_ref(),
            self.header.geometry,
            entry.l1,
            size_bytes,
        )?;
        Ok((size_bytes, entry.l1))
    }

    /// Fails for an image that must not be written.
    fn refuse_writing(&self) -> Result<()> {
        if self.header.incompatible.corrupt() {
            return Err(
                Error::corrupt("refusing to write to an image that is marked corrupt")
                    .at(72)
                    .with_hint("repair it with `qemu-img check -r all`; reading is still possible"),
            );
        }
        Ok(())
    }

    pub(crate) fn open(mut self, path: PathBuf, around: Surroundings) -> Result<Qcow2> {
        if let Some(files) = &around.writable {
            self.refuse_writing()?;
            if self.header.incompatible.dirty() {
                repair::complete(files.image.as_ref())?;
                self.header = Header::read(self.file.as_ref())?;
            }
        }
        let (size_bytes, l1) = self.state()?;
        if around.writable.is_some() {
            refuse_shared_l2_tables(self.file.as_ref(), l1)?;
        }
        let rules = self.header.l2_rules();
        let store = around.writable.as_ref().map(|_| {
            let budget_bytes = around.caches.tables.capacity();
            Arc::new(TableStore::new(
                budget_bytes,
                self.header.geometry.slice_size(),
            ))
        });
        let mapping = Mapping {
            file: Arc::clone(&self.file),
            caches: around.caches,
            layer: around.layer,
            rules,
            l1,
            store: store.clone(),
        };
        let compressed = CompressedClusters::new(
            Arc::clone(&self.file),
            Arc::clone(&mapping.caches),
            around.workers,
            around.layer,
            self.header.geometry,
            Decompressor::new(self.header.compression),
        );
        let is_encrypted = self.header.encryption.is_some();
        let is_locked = is_encrypted && around.encryption.is_none();
        let no_key = NoKey::new(&path);
        let encryption: Option<&dyn Decrypt> = match &around.encryption {
            None if is_locked => Some(&no_key),
            given => given.as_deref(),
        };
        let DataFiles {
            read: data,
            written,
        } = DataFiles::open(
            around.data_file.unwrap_or(self.file),
            around.writable.as_ref(),
            encryption,
        )?;
        let reader = Arc::new(Reader {
            mapping,
            data,
            is_encrypted,
            compressed,
            backing: Backing::new(around.backing),
        });
        let writer = match (around.writable, written, store) {
            (Some(files), Some(data), Some(store)) => {
                let header = self.header.clone();
                let reader = Arc::clone(&reader);
                Some(Writer::new(files, data, header, reader, store)?)
            }
            _ => None,
        };
        Ok(Qcow2 {
            path,
            writer,
            size_bytes,
            reader,
            header: self.header,
            is_locked,
            preallocated: OnceLock::new(),
            allocated_bytes: around.allocated_bytes,
        })
    }
}

/// The files with the guest's data, for reading and for writing, with decryption and encryption.
struct DataFiles {
    read: Arc<dyn BlockRead>,
    written: Option<Arc<dyn BlockWrite>>,
}

impl DataFiles {
    /// Opens the files. A file that is written is read through the same device, so that readers
    /// never see half-written sectors.
    fn open(
        data: Arc<dyn BlockRead>,
        writable: Option<&WritableFiles>,
        encryption: Option<&dyn Decrypt>,
    ) -> Result<Self> {
        let written = writable.map(|files| Arc::clone(files.data.as_ref().unwrap_or(&files.image)));
        let (read, written) = match (encryption, written) {
            (None, written) => (data, written),
            (Some(encryption), None) => (encryption.reader(data)?, None),
            (Some(encryption), Some(written)) => {
                let both = encryption.writer(written)?;
                let read: Arc<dyn BlockRead> = both.clone();
                (read, Some(both))
            }
        };
        Ok(Self { read, written })
    }
}

impl Qcow2 {
    pub(crate) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(crate) fn block_size(&self) -> u32 {
        u32::try_from(self.header.geometry.cluster_size()).unwrap_or(512)
    }

    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let _request = self.writer.as_ref().map(|writer| writer.requests().enter());
        self.reader
            .read_at(offset, buf)
            .map_err(|e| e.in_file(&self.path))
    }

    /// Returns how the run from `offset` on is stored, here or further down the chain.
    pub(crate) fn status_at(&self, offset: u64, max_len: u64) -> Result<Status> {
        self.status(GuestOffset(offset), max_len)
            .map_err(|e| e.in_file(&self.path))
    }

    fn status(&self, at: GuestOffset, max_len: u64) -> Result<Status> {
        let Run { len_bytes, kind } = self.reader.mapping.run_at(at, max_len)?;
        let here = Status {
            len_bytes,
            depth: 0,
            present: true,
            zero: false,
            data: false,
            compressed: false,
            host_offset: None,
        };
        let status = match kind {
            RunKind::Data(host) => self.data_status(host, here)?,
            RunKind::Compressed(_) => Status {
                data: true,
                compressed: true,
                ..here
            },
            RunKind::Zero(host) => Status {
                zero: true,
                host_offset: host.map(|host| host.0),
                ..here
            },
            // Offsets in the backing file are unrelated to offsets here.
            RunKind::Unallocated(host) => return self.backing_status(at, host, here),
        };
        Ok(self.without_ciphertext(status))
    }

    /// Removes the offset of an encrypted run, because the bytes there are not those that the guest
    /// sees.
    fn without_ciphertext(&self, status: Status) -> Status {
        Status {
            host_offset: status.host_offset.filter(|_| !self.reader.is_encrypted),
            ..status
        }
    }

    /// Returns the status of a run that is not allocated here: that of the backing file, or
    /// unallocated beyond the backing file's end.
    fn backing_status(
        &self,
        at: GuestOffset,
        host: Option<HostOffset>,
        here: Status,
    ) -> Result<Status> {
        let backing = self.reader.backing.get();
        let there = backing.map_or(0, |backing| backing.size_bytes().saturating_sub(at.0));
        match backing {
            Some(backing) if there > 0 => {
                let below = backing.status_at(at.0, here.len_bytes.min(there))?;
                Ok(Status {
                    depth: below.depth.saturating_add(1),
                    ..below
                })
            }
            _ => Ok(self.without_ciphertext(Status {
                present: false,
                zero: true,
                host_offset: host.map(|host| host.0),
                ..here
            })),
        }
    }

    /// Returns the status of a data cluster. Only if an image looks preallocated does it ask the
    /// file below for holes, as QEMU does, because that costs two system calls for each run.
    fn data_status(&self, host: HostOffset, here: Status) -> Result<Status> {
        let data = Status {
            data: true,
            host_offset: Some(host.0),
            ..here
        };
        if self.reader.is_encrypted || !self.is_preallocated() {
            return Ok(data);
        }
        let stored = self.reader.stored_len(host, here.len_bytes)?;
        if stored == 0 {
            return Ok(Status { zero: true, ..data });
        }
        let below = self.reader.data.extent_at(host.0)?;
        Ok(Status {
            len_bytes: below.len_bytes.min(stored),
            zero: below.kind.reads_as_zeroes(),
            ..data
        })
    }

    fn is_preallocated(&self) -> bool {
        *self.preallocated.get_or_init(|| {
            let file = self.reader.mapping.file.as_ref();
            // Invalid refcounts do not prevent reading: all clusters then count as data.
            self.allocated_bytes.is_some_and(|allocated| {
                refcounts::looks_preallocated(file, &self.header, allocated).unwrap_or(false)
            })
        })
    }

    pub(crate) fn check(&self) -> Result<CheckReport> {
        check::check(
            self.reader.mapping.file.as_ref(),
            &self.header,
            self.reader.mapping.rules,
        )
        .map_err(|e| e.in_file(&self.path))
    }

    /// Fails if L2 tables are shared, as opening for writing does. Callers use it before they walk
    /// all tables.
    pub(crate) fn refuse_shared_l2_tables(&self) -> Result<()> {
        let mapping = &self.reader.mapping;
        refuse_shared_l2_tables(mapping.file.as_ref(), mapping.l1)
            .map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn will_need(&self, offset: u64, len_bytes: u64) {
        self.reader.will_need(offset, len_bytes);
    }

    /// Returns the writer, for changes of what the guest sees.
    fn writer(&self) -> Result<&Writer> {
        if self.is_locked {
            // Fail before anything is allocated.
            return Err(no_key(&self.path));
        }
        self.writer.as_ref().ok_or_else(read_only)
    }

    pub(crate) fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.writer()
            .and_then(|writer| writer.write_at(offset, buf))
            .map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.writer()
            .and_then(|writer| writer.write_zeroes(offset, len_bytes))
            .map_err(|e| e.in_file(&self.path))
    }

    /// Makes the range read as zeroes, whatever backing file this image gets later.
    pub(crate) fn hide(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.writer()
            .and_then(|writer| writer.hide(offset, len_bytes))
            .map_err(|e| e.in_file(&self.path))
    }

    /// Stores bytes of the backing file where the image stores nothing itself.
    pub(crate) fn populate(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.writer()
            .and_then(|writer| writer.populate(offset, buf))
            .map_err(|e| e.in_file(&self.path))
    }

    /// Removes the backing file, of which the image needs nothing but zeroes any more.
    pub(crate) fn detach(&self) -> Result<()> {
        self.writer()
            .and_then(Writer::detach)
            .map_err(|e| e.in_file(&self.path))
    }

    /// Makes the range read as zeroes, and frees its clusters.
    pub(crate) fn unmap(&self, offset: u64, len_bytes: u64) -> Result<()> {
        // Discarding leaves parts of clusters as they are.
        self.discard(offset, len_bytes)?;
        self.write_zeroes(offset, len_bytes)
    }

    pub(crate) fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.writer()
            .and_then(|writer| writer.discard(offset, len_bytes))
            .map_err(|e| e.in_file(&self.path))
    }

    pub(crate) fn flush(&self) -> Result<()> {
        let flushed = self.writer.as_ref().map_or(Ok(()), Writer::flush);
        flushed.map_err(|e| e.in_file(&self.path))
    }

    /// Changes the size of the disk, and ends writing.
    pub(crate) fn resize(self, size_bytes: u64, fill: Fill) -> Result<()> {
        self.writer()?;
        let Self {
            path,
            writer,
            reader,
            ..
        } = self;
        // The writer changes the mapping, so it must be the only user of it.
        drop(reader);
        let mut writer = writer.ok_or_else(read_only)?;
        writer
            .resize(size_bytes, fill)
            .map_err(|e| e.in_file(&path))
    }

    /// Fails for a change of a persistent bitmap that is impossible, without a change.
    pub(crate) fn check_change(&self, change: BitmapChange<'_>) -> Result<()> {
        let writer = self.writer.as_ref().ok_or_else(read_only)?;
        writer
            .check_change(change)
            .map_err(|e| e.in_file(&self.path))
    }

    /// Prepares a change of a persistent bitmap. No key is needed, because bitmaps are not
    /// encrypted.
    pub(crate) fn prepare_change(&self, change: BitmapChange<'_>) -> Result<PreparedChange<'_>> {
        let writer = self.writer.as_ref().ok_or_else(read_only)?;
        writer
            .prepare_change(change)
            .map_err(|e| e.in_file(&self.path))
    }

    /// Returns the image file and its header, to read a bitmap.
    pub(crate) fn tables(&self) -> (&dyn BlockRead, &Header) {
        (self.reader.mapping.file.as_ref(), &self.header)
    }

    /// Returns the bits of a bitmap, whose size fits the disk, and the file with them.
    pub(crate) fn bitmap_bits(&self, name: &str) -> Result<(Arc<dyn BlockRead>, BitmapBits)> {
        let file = Arc::clone(&self.reader.mapping.file);
        let entry = usable_in(file.as_ref(), &self.header, name);
        let bits = entry.and_then(|entry| BitmapBits::read(file.as_ref(), &self.header, &entry));
        Ok((file, bits.map_err(|e| e.in_file(&self.path))?))
    }

    /// Returns true if the image has bitmaps that are void, because a program without support for
    /// bitmaps has written to the image.
    pub(crate) fn has_void_bitmaps(&self) -> bool {
        self.header.extensions.bitmaps.is_some() && !self.header.autoclear.bitmaps()
    }

    pub(crate) fn close(&self) -> Result<()> {
        let closed = self.writer.as_ref().map_or(Ok(()), Writer::close);
        closed.map_err(|e| e.in_file(&self.path))
    }
}

/// Creates the error for an object that the image does not have.
fn not_found(reason: String) -> Error {
    Error::new(ErrorKind::NotFound, reason)
}
