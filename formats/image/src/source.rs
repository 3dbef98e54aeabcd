//! A file of a chain, opened but not read.

use std::path::PathBuf;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};

use crate::base::{FileId, Identity};
use crate::gate::Namer;

/// A file to be opened as an image, and what is known of it.
#[derive(Clone)]
pub(crate) struct Source {
    /// For messages, and to resolve the names that the image holds.
    pub(crate) path: PathBuf,
    pub(crate) id: Option<FileId>,
    /// The file's user.
    pub(crate) owner: Option<u32>,
    /// The file's identity, while it is locked.
    pub(crate) identity: Option<Identity>,
    pub(crate) device: Arc<dyn BlockRead>,
    /// The same, if it may be written to.
    pub(crate) writable: Option<Arc<dyn BlockWrite>>,
    /// Its format was found by looking at the content.
    pub(crate) probed: bool,
    pub(crate) allocated_bytes: Option<u64>,
    pub(crate) warnings: Vec<String>,
}

impl Source {
    /// A device that is no file by itself.
    pub(crate) fn of_device(
        device: Arc<dyn BlockRead>,
        writable: Option<Arc<dyn BlockWrite>>,
    ) -> Self {
        Self {
            path: PathBuf::from("device"),
            id: None,
            owner: None,
            identity: None,
            device,
            writable,
            probed: false,
            allocated_bytes: None,
            warnings: Vec::new(),
        }
    }

    /// Returns who names the files that the image holds the names of.
    pub(crate) fn namer(&self) -> Namer<'_> {
        Namer {
            path: &self.path,
            owner: self.owner,
        }
    }
}
