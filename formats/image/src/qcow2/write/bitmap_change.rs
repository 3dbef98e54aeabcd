//! The steps of a change of bitmaps.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use diskfs_block::{BlockRead, Result};

use crate::qcow2::first_cluster::SectorWrite;
use crate::qcow2::header::Header;
use crate::qcow2::write::Writer;
use crate::qcow2::write::bitmap_copy::BitmapSource;
use crate::qcow2::write::bitmap_edit::Edit;
use crate::qcow2::write::header_update::Started;

/// A change of bitmaps: of one, or of all that are copied.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BitmapChange<'a> {
    Add {
        name: &'a str,
        /// The granularity; `None` for QEMU's default.
        granularity_bytes: Option<u64>,
        recording: bool,
        existing: Existing,
    },
    Remove {
        name: &'a str,
    },
    Clear {
        name: &'a str,
    },
    SetRecording {
        name: &'a str,
        recording: bool,
    },
    /// Adds the marks of another bitmap, which is in the same image if `image` is `None`.
    Merge {
        name: &'a str,
        source: &'a str,
        image: Option<(&'a dyn BlockRead, &'a Header)>,
    },
    /// Adds the bitmaps of another image with their marks.
    Copy(BitmapSource<'a>),
}

/// The treatment of a bitmap that has the name of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// The new one is refused.
    Refused,
    /// A bitmap without marks, with the same properties, is taken for the new one.
    KeptIfUnmarked,
}

/// A change for which everything is written, so that one write activates it.
#[must_use = "a change that is neither activated nor cancelled leaks clusters"]
pub(crate) struct PreparedChange<'a> {
    edit: Edit<'a>,
    /// `None` if nothing changes.
    activation: Option<SectorWrite>,
}

impl Writer {
    /// Fails for a change of a bitmap that is impossible, without a change.
    pub(crate) fn check_change(&self, change: BitmapChange<'_>) -> Result<()> {
        Edit::read(self)?.check(change)
    }

    /// Prepares a change of a bitmap. If that fails, nothing has changed.
    pub(crate) fn prepare_change(&self, change: BitmapChange<'_>) -> Result<PreparedChange<'_>> {
        let mut edit = Edit::read(self)?;
        edit.check(change)?;
        self.begin_without_marks()?;
        let activation = edit.carry_out(change).and_then(|is_changed| {
            let activation = is_changed.then(|| edit.write_directory()).transpose()?;
            self.flush()?;
            Ok(activation)
        });
        match activation {
            Ok(activation) => Ok(PreparedChange { edit, activation }),
            Err(e) => {
                edit.give_back();
                Err(e)
            }
        }
    }

    /// Begins to change the image, but not the disk, so that bitmaps stay valid.
    fn begin_without_marks(&self) -> Result<()> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if *started == Started::No {
            self.clear_features(true)?;
            *started = Started::Yes;
            self.begun.store(true, Ordering::Release);
        }
        Ok(())
    }
}

impl PreparedChange<'_> {
    /// Returns true if activating it changes something.
    pub(crate) const fn is_new(&self) -> bool {
        self.activation.is_some()
    }

    /// Activates the change, and ends writing.
    pub(crate) fn activate(mut self) -> Result<()> {
        let writer = self.edit.writer;
        if let Some(activation) = self.activation {
            activation.carry_out(writer.image.as_ref())?;
            writer.lock().state.freed.append(&mut self.edit.freed);
        }
        writer.close()
    }

    /// Frees what was written for the change, and ends writing.
    pub(crate) fn cancel(mut self) {
        self.edit.give_back();
    }
}
