//! Objects: what a store has under one name, in one version.

use std::fmt::Debug;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use diskfs_block::{Error, ErrorKind};

/// The bytes of a range, which arrive later.
pub(crate) type Fetching = Pin<Box<dyn Future<Output = Result<Bytes, FetchError>> + Send>>;

/// An object that was opened: all fetches return bytes of the same version.
pub(crate) trait Object: Debug + Send + Sync {
    /// Fetches a range of the object: all of its bytes.
    fn fetch(self: Arc<Self>, range: Range<u64>) -> Fetching;
}

/// An object with what its opening has found out.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) object: Arc<dyn Object>,
    /// The strong validator of the version, if the server names one.
    pub(crate) strong_version: Option<String>,
    pub(crate) size_bytes: u64,
    /// The validator of the version, if the server names one.
    pub(crate) version: Option<String>,
    /// The bytes at the beginning of the object that came with the first answer.
    pub(crate) first: Bytes,
}

/// A failed fetch.
#[derive(Debug)]
pub(crate) enum FetchError {
    /// A failure that may pass: another attempt may succeed.
    Passing {
        /// The reason.
        reason: String,
        /// The time before the next attempt that the server asks for.
        after: Option<Duration>,
    },
    /// A failure that another attempt would not change.
    Final(Error),
}

impl FetchError {
    /// Creates a failure that may pass.
    pub(crate) fn passing(reason: impl Into<String>) -> Self {
        Self::Passing {
            reason: reason.into(),
            after: None,
        }
    }

    /// Creates the failure of an object that is not the one that was opened.
    pub(crate) fn changed(difference: &str) -> Self {
        let reason = format!("the image changed on the server: {difference}");
        let error = Error::new(ErrorKind::Io, reason);
        Self::Final(error.with_hint("open it again"))
    }
}

impl From<Error> for FetchError {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}
