//! Images on other machines.

use std::fmt::Debug;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Result};

/// An image on another machine, opened for reading.
#[derive(Debug, Clone)]
pub struct RemoteImage {
    /// The bytes of the image.
    pub device: Arc<dyn BlockRead>,
    /// The version that the server names, which changes with the image.
    pub version: Option<String>,
}

/// An opener of images on other machines: exports of NBD, objects of HTTP servers and of stores. The
/// caller brings the clients.
pub trait RemoteImages: Debug + Send + Sync {
    /// Opens the image of a URI for reading.
    ///
    /// # Errors
    /// Those of the client.
    fn open(&self, uri: &str) -> Result<RemoteImage>;

    /// Opens the image of a URI for writing. Nothing locks it.
    ///
    /// # Errors
    /// `ReadOnly` if the server does not allow writing; those of the client.
    fn open_writable(&self, uri: &str) -> Result<Arc<dyn BlockWrite>>;
}
