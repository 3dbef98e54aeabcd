//! The options of `diskfs.open`.

use std::path::PathBuf;

use diskfs::Gate;
use diskfs_session::{Access, SessionOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::exception;

/// The options of `diskfs.open`, which are attributes of a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    mode: String,
    overlay: Option<PathBuf>,
    format: Option<String>,
    snapshot: Option<String>,
    /// Pairs of a volume, or of all, and its passphrase.
    passphrases: Vec<(Option<String>, Vec<u8>)>,
    /// The directories in which backing files may be; `None` refuses all backing files.
    backing: Option<Vec<PathBuf>>,
    add: Vec<PathBuf>,
    force_share: bool,
}

impl Options {
    /// Returns the options of the session.
    ///
    /// # Errors
    /// `ValueError` for an unknown mode; `Unsupported` for an unknown format.
    pub(crate) fn session(self, py: Python<'_>) -> PyResult<SessionOptions> {
        let access = match (&*self.mode, self.overlay) {
            ("r", None) => Access::ReadOnly,
            ("r+", None) => Access::Write,
            ("r+", Some(overlay)) => Access::Overlay(overlay),
            ("dry-run", None) => Access::DryRun,
            (mode, None) => {
                let text = format!("invalid mode {mode:?}; use \"r\", \"r+\" or \"dry-run\"");
                return Err(PyValueError::new_err(text));
            }
            (_, Some(_)) => {
                let text = "an overlay can only be used with the mode \"r+\"";
                return Err(PyValueError::new_err(text));
            }
        };
        let mut options = SessionOptions::with_access(access);
        options.gate = match self.backing {
            Some(directories) => directories.into_iter().fold(Gate::default(), Gate::allow),
            None => Gate::closed(),
        };
        if let Some(format) = &self.format {
            let set = options.set_format(format);
            set.map_err(|error| exception(py, &error))?;
        }
        if let Some(snapshot) = &self.snapshot {
            options.set_snapshot(snapshot);
        }
        for (volume, passphrase) in &self.passphrases {
            options.add_passphrase(volume.as_deref(), passphrase);
        }
        for path in &self.add {
            options.add_disk(path);
        }
        if self.force_share {
            options.force_share();
        }
        Ok(options)
    }
}
