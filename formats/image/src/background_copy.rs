//! Copying the backing file into an overlay while the overlay is used.

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use diskfs_block::bytes::is_zero;
use diskfs_block::{BlockRead, Error, ErrorKind, Result, check_cancelled};

use crate::OpenOptions;
use crate::backing_runs::{PIECE_BYTES, bytes_from_backing, runs_from_backing, unit_bytes};
use crate::description::Description;
use crate::gate::Access;
use crate::node::Node;
use crate::numbers::{to_u64, to_usize};
use crate::qcow2::Qcow2;
use crate::qcow2::header::Header;

/// Returns true if the image at `path` is an overlay into which the backing file `name` was copied
/// whole, so that it does not need it any more.
///
/// # Errors
/// As for opening the file, and `Corrupt` if it is no qcow2 image.
pub fn has_copied(path: &Path, name: &Path, options: &OpenOptions) -> Result<bool> {
    let file = options.files.open(path, Access::Read)?;
    let header = Header::read(&file).map_err(|e| e.in_file(path))?;
    let record = header
        .extensions
        .base
        .filter(|_| header.backing_name.is_none());
    Ok(record.is_some_and(|record| record.is_copied(name.as_os_str().as_bytes())))
}

/// The number of bytes to ask for before they are read, so that several requests to a distant server
/// are on their way.
const AHEAD_BYTES: u64 = 8 * PIECE_BYTES;

/// A copy of everything that a disk needs of its backing file into its overlay.
///
/// The overlay can be read and written meanwhile; what was written to it stays. Zeroes are not
/// copied. The files stay open and locked as long as there is a copy.
#[derive(Debug, Clone)]
pub struct BackgroundCopy {
    node: Arc<Node>,
    unit_bytes: usize,
    /// True after [`stop`](Self::stop). The lock is held while the overlay is written to.
    stopped: Arc<Mutex<bool>>,
}

impl BackgroundCopy {
    pub(crate) fn new(node: &Arc<Node>, description: &Description) -> Result<Self> {
        let unsupported =
            |reason: &'static str| Error::unsupported(reason).in_file(&description.path);
        match &description.qcow2 {
            None => Err(unsupported("only a qcow2 image has a backing file to copy")),
            Some(qcow2) if !qcow2.snapshots.is_empty() => Err(unsupported(
                "an image with internal snapshots needs its backing file: its snapshots may use it",
            )
            .with_hint(
                "delete the snapshots first (`diskfs snapshot delete`), or omit --background-copy",
            )),
            Some(_) => Ok(Self {
                node: Arc::clone(node),
                unit_bytes: to_usize(unit_bytes(description)),
                stopped: Arc::default(),
            }),
        }
    }

    /// Copies, and then removes the backing file from the overlay. Calls `progress` with the number
    /// of bytes done since the last call and the total. After an error, it can be called again.
    ///
    /// # Errors
    /// `Cancelled` after [`stop`](Self::stop), or if `progress` breaks; those of reading the backing
    /// file and of writing the overlay.
    pub fn run(&self, progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> Result<()> {
        let total = bytes_from_backing(&self.node, true)?;
        let mut at = 0;
        while at < self.node.size_bytes() {
            let (runs, end) = runs_from_backing(&self.node, at, true)?;
            for run in runs {
                let mut from = run.start;
                while from < run.end {
                    let left = run.end.saturating_sub(from);
                    self.node.will_need(from, left.min(AHEAD_BYTES));
                    let len_bytes = left.min(PIECE_BYTES);
                    self.copy(from, len_bytes)?;
                    from = from.saturating_add(len_bytes);
                    check_cancelled(progress(len_bytes, total))?;
                }
            }
            at = end;
        }
        self.write(Qcow2::detach)
    }

    /// Waits for the write of the moment, and lets no other one begin.
    pub fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn copy(&self, at: u64, len_bytes: u64) -> Result<()> {
        let mut bytes = vec![0; to_usize(len_bytes)];
        self.node.read_at(at, &mut bytes)?;
        let mut offset = at;
        let units: Vec<_> = bytes.chunks(self.unit_bytes).collect();
        for alike in units.chunk_by(|a, b| is_zero(a) == is_zero(b)) {
            let part = alike.concat();
            if !is_zero(&part) {
                self.write(|qcow2| qcow2.populate(offset, &part))?;
            }
            offset = offset.saturating_add(to_u64(part.len()));
        }
        Ok(())
    }

    fn write(&self, action: impl FnOnce(&Qcow2) -> Result<()>) -> Result<()> {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        if *stopped {
            return Err(Error::new(ErrorKind::Cancelled, "the copy was stopped"));
        }
        match self.node.as_ref() {
            Node::Qcow2(qcow2, _) => action(qcow2),
            Node::Raw(_) | Node::Mapped(..) => Ok(()),
        }
    }
}
