//! A file of a chain, opened but not yet read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, File};

use crate::Format;
use crate::base::{FileId, Identity};
use crate::gate::Namer;

/// A file to open as an image, with its properties.
#[derive(Clone)]
pub(crate) struct Source {
    /// The path, for messages and for resolving the names in the image.
    pub(crate) path: PathBuf,
    pub(crate) id: Option<FileId>,
    /// The user id of the file's owner.
    pub(crate) owner: Option<u32>,
    /// The identity of a file, while it is locked, or of a version of an image on another machine.
    pub(crate) identity: Option<Identity>,
    /// The version of an image on another machine.
    pub(crate) version: Option<String>,
    pub(crate) device: Arc<dyn BlockRead>,
    /// The file of the host that the device is; `None` for a device that is not a file.
    pub(crate) host: Option<Arc<File>>,
    /// The format that something other than the content says.
    pub(crate) format: Option<Format>,
    /// The file for writing, if it may be written.
    pub(crate) writable: Option<Arc<dyn BlockWrite>>,
    /// True if the format was probed from the content.
    pub(crate) probed: bool,
    pub(crate) allocated_bytes: Option<u64>,
    pub(crate) warnings: Vec<String>,
}

impl Source {
    /// Creates a source for a device that is not a file. The name is for messages.
    pub(crate) fn of_device(
        name: &Path,
        device: Arc<dyn BlockRead>,
        writable: Option<Arc<dyn BlockWrite>>,
    ) -> Self {
        Self {
            path: name.to_owned(),
            id: None,
            owner: None,
            identity: None,
            version: None,
            device,
            host: None,
            format: None,
            writable,
            probed: false,
            allocated_bytes: None,
            warnings: Vec::new(),
        }
    }

    /// Returns the namer of the files that the image names.
    pub(crate) fn namer(&self) -> Namer<'_> {
        Namer {
            path: &self.path,
            owner: self.owner,
        }
    }
}
