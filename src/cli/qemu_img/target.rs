//! The image that `qemu-img convert` creates or writes into.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use diskfs::block::BlockWrite;
use diskfs::image::WritableImage;
use diskfs::{Format, Keys, OpenOptions};

use super::failure::{Failure, Result};
use super::names::Named;
use super::new_format::NewFormat;
use super::secret::Secrets;
use crate::cli::options::ImageArgs;

/// A target, with its key if that is needed to write into it.
pub(super) struct Target {
    pub(super) path: PathBuf,
    /// The format of an image that exists; `None` to detect it.
    format: Option<Format>,
    is_luks: bool,
    keys: Option<Keys>,
}

impl Target {
    /// Returns the target with this file name.
    pub(super) fn of_name(name: &OsString, format: &str) -> Result<Self> {
        let format = NewFormat::parse(format)?;
        Ok(Self {
            path: Named::parse(name)?.path,
            format: Some(format.contents),
            is_luks: format.is_luks(),
            keys: None,
        })
    }

    /// Returns the target of a list of options.
    pub(super) fn of_options(list: &OsString, secrets: &Secrets) -> Result<Self> {
        let named = Named::parse_options(list)?;
        let keys = secrets.keys_of(&named).transpose();
        let keys = keys.map_err(|reason| to_open(&named.path, &reason))?;
        Ok(Self {
            path: named.path,
            format: named.format,
            is_luks: named.is_luks,
            keys,
        })
    }

    /// Returns the options for opening an image that exists.
    pub(super) fn open_options(&self) -> Result<OpenOptions> {
        let args = ImageArgs {
            format: self.format,
            ..ImageArgs::default()
        };
        let mut options = args.open_options()?;
        if let Some(keys) = &self.keys {
            options.unlock = Some(Arc::new(keys.clone()));
        }
        Ok(options)
    }

    /// Returns the disk of the open image.
    pub(super) fn contents(&self, image: &WritableImage) -> Result<Arc<dyn BlockWrite>> {
        let required = |option: &str| {
            let reason = format!("Parameter '{option}' is required for cipher");
            to_open(&self.path, &reason)
        };
        let qcow2 = image.description().qcow2.as_ref();
        let encryption = qcow2.and_then(|qcow2| qcow2.encryption);
        if encryption.is_some_and(|encryption| !encryption.is_unlocked) {
            return Err(required("encrypt.key-secret"));
        }
        if !self.is_luks {
            return Ok(image.device());
        }
        let keys = self.keys.as_ref().ok_or_else(|| required("key-secret"))?;
        let contents = keys.writable_contents(&self.path, image.device());
        contents.map_err(|error| Failure::to_open(&self.path, error))
    }
}

fn to_open(path: &std::path::Path, reason: &str) -> Failure {
    Failure::new(format!("Could not open '{}': {reason}", path.display()))
}
