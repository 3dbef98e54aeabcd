//! Writing to an image.
//!
//! A write to a cluster without other references goes directly to its place. For any other cluster
//! a new one is allocated, the bytes are written there, and only then does the L2 table point to
//! it. Tables are changed in memory and written to the file by a flush ([`commit`]), in an order
//! that makes a crash harmless.

mod allocate;
mod bitmap_change;
mod bitmap_checks;
mod bitmap_clusters;
mod bitmap_copy;
mod bitmap_edit;
mod bitmaps;
mod commit;
mod contiguous;
mod count_up;
mod cow;
mod dirty;
mod freed;
mod header_update;
mod l2_update;
mod marks;
mod metadata;
mod plan;
mod populate;
mod refcount_block;
mod refcount_table;
mod requests;
mod resize;
mod resize_tables;
mod unmap;

pub(crate) use bitmap_change::{BitmapChange, Existing, PreparedChange};
pub(crate) use bitmap_checks::usable_in;
pub(crate) use bitmap_copy::BitmapSource;
pub(crate) use resize::Fill;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use diskfs_block::{BlockWrite, Error, ErrorKind, Result};

use crate::numbers::{to_u64, to_usize};
use crate::qcow2::WritableFiles;
use crate::qcow2::header::Header;
use crate::qcow2::reader::Reader;
use crate::qcow2::table_store::TableStore;
use crate::qcow2::units::{Geometry, GuestOffset, HostOffset};
use crate::qcow2::write::bitmaps::Recorder;
use crate::qcow2::write::header_update::Started;
use crate::qcow2::write::metadata::{Locked, Metadata};
use crate::qcow2::write::plan::{PlanFor, Planned};
use crate::qcow2::write::requests::Requests;

/// The writer of an image.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The image file, which holds all tables.
    image: Arc<dyn BlockWrite>,
    /// The external data file, if the image has one.
    external: Option<Arc<dyn BlockWrite>>,
    /// The file for the guest's bytes, the image file or the external data file, with encryption.
    data: Arc<dyn BlockWrite>,
    reader: Arc<Reader>,
    store: Arc<TableStore>,
    header: Header,
    /// The size of the guest's disk in bytes.
    size_bytes: u64,
    metadata: Mutex<Metadata>,
    /// The condition variable that is signalled when an allocation is complete.
    landed: Condvar,
    /// The lock that is held for the whole of a flush, so that only one runs.
    flushing: Mutex<()>,
    requests: Requests,
    /// True if a flush is due because changes use too much memory.
    full: AtomicBool,
    started: Mutex<Started>,
    begun: AtomicBool,
    /// The bitmaps in which every write must be marked.
    recorders: Mutex<Vec<Recorder>>,
    /// True if there are such bitmaps.
    records: AtomicBool,
    /// True if writing has ended.
    closed: AtomicBool,
}

impl Writer {
    pub(crate) fn new(
        files: WritableFiles,
        data: Arc<dyn BlockWrite>,
        header: Header,
        reader: Arc<Reader>,
        store: Arc<TableStore>,
    ) -> Result<Self> {
        let metadata = Metadata::load(files.image.as_ref(), &header)?;
        Ok(Self {
            size_bytes: header.size_bytes,
            image: files.image,
            external: files.data,
            data,
            reader,
            store,
            header,
            metadata: Mutex::new(metadata),
            landed: Condvar::new(),
            flushing: Mutex::default(),
            requests: Requests::default(),
            full: AtomicBool::new(false),
            started: Mutex::default(),
            begun: AtomicBool::new(false),
            recorders: Mutex::default(),
            records: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }

    const fn geometry(&self) -> Geometry {
        self.header.geometry
    }

    /// Returns the file for the guest's bytes.
    fn data(&self) -> &dyn BlockWrite {
        self.data.as_ref()
    }

    /// Returns true if the external data file is a raw image of the guest's disk, and must stay
    /// one.
    fn is_external_raw(&self) -> bool {
        self.external.is_some() && self.header.autoclear.raw_external_data()
    }

    /// Returns the requests in flight, whose clusters must not be reused: see [`requests`].
    pub(crate) const fn requests(&self) -> &Requests {
        &self.requests
    }

    fn lock(&self) -> Locked<'_> {
        let state = self.metadata.lock();
        Locked::new(self, state.unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes `buf` at `offset`; the caller has checked the range.
    pub(crate) fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.begin()?;
        self.record(offset, to_u64(buf.len()));
        self.in_pieces(offset, buf, |at, rest| self.write_some(at, rest))
    }

    /// Calls `step` with what is left of `buf`, and its offset, until nothing is left. Each call
    /// returns the length that it is done with.
    fn in_pieces(
        &self,
        offset: u64,
        buf: &[u8],
        step: impl Fn(GuestOffset, &[u8]) -> Result<u64>,
    ) -> Result<()> {
        let (mut at, mut rest) = (GuestOffset(offset), buf);
        while !rest.is_empty() {
            let done = self.with_room(|| step(at, rest))?;
            at = at.plus(done);
            rest = rest.get(to_usize(done)..).unwrap_or_default();
        }
        self.flush_if_large()
    }

    /// Writes the front of `buf`, as much as is possible in one piece, and returns its length.
    fn write_some(&self, at: GuestOffset, buf: &[u8]) -> Result<u64> {
        loop {
            if let Some(done) = self.write_in_place(at, buf)? {
                return Ok(done);
            }
            if let Planned::Allocation(plan) = self.plan(at, to_u64(buf.len()), PlanFor::Write)? {
                let done = plan.len_bytes();
                let front = buf.get(..to_usize(done)).unwrap_or(buf);
                self.carry_out(&plan, front)?;
                return Ok(done);
            }
        }
    }

    /// Overwrites clusters without other references. It takes no lock that blocks others.
    fn write_in_place(&self, at: GuestOffset, buf: &[u8]) -> Result<Option<u64>> {
        let _request = self.requests.enter();
        let mapping = &self.reader.mapping;
        let Some(run) = mapping.overwritable_run(at, to_u64(buf.len()))? else {
            return Ok(None);
        };
        self.check_target(run.host, run.len_bytes)?;
        let front = buf.get(..to_usize(run.len_bytes)).unwrap_or(buf);
        self.extend_to_cluster(run.host, run.len_bytes)?;
        self.data().write_at(run.host.0, front)?;
        Ok(Some(run.len_bytes))
    }

    /// Extends the file to the end of its truncated last cluster. A cluster that begins past the
    /// end is corrupt, as for a reader.
    fn extend_to_cluster(&self, host: HostOffset, len_bytes: u64) -> Result<()> {
        if host.plus(len_bytes).0 <= self.data().size_bytes() {
            return Ok(());
        }
        self.reader.stored_len(host, len_bytes)?;
        let mut locked = self.lock();
        match self.external {
            Some(_) => locked.extend_data_file(host.plus(len_bytes)),
            None => locked.extend_file(host.plus(len_bytes)),
        }
    }

    /// Runs `action`. If no space is left, runs it again after freed clusters became available.
    fn with_room<T>(&self, action: impl Fn() -> Result<T>) -> Result<T> {
        match action() {
            Err(e) if e.kind() == ErrorKind::NoSpace && self.lock().has_freed() => {
                self.flush()?;
                action()
            }
            other => other,
        }
    }

    /// Flushes if too many changes or freed clusters are held in memory.
    fn flush_if_large(&self) -> Result<()> {
        if self.full.load(Ordering::Relaxed) {
            self.flush()?;
        }
        Ok(())
    }

    /// Flushes if the changes so far are too many. Loops that change tables without writing data use
    /// this.
    fn flush_when_full(&self) -> Result<()> {
        if self.lock().is_full() {
            self.flush()?;
        }
        Ok(())
    }

    /// Fails unless the guest's bytes may be at `host`. If an L2 table points to the image's own
    /// tables, the guest could overwrite them.
    fn check_target(&self, host: HostOffset, len_bytes: u64) -> Result<()> {
        if self.external.is_some() || !self.header.overlaps_tables(host, len_bytes) {
            return Ok(());
        }
        let reason = "a guest cluster overlaps the image's own tables";
        Err(Error::corrupt(reason)
            .at(host.0)
            .with_hint("run `qemu-img check` on the image"))
    }

    /// Ends writing, with everything durable and freed clusters reusable.
    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.finish().inspect_err(|_| {
            // Closing can be tried again.
            self.closed.store(false, Ordering::Release);
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Err(e) = self.close() {
            tracing::warn!("cannot flush an image that was dropped without being closed: {e}");
        }
    }
}
