//! The exports of a server: a fixed list, or a catalog that opens them on demand.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use diskfs_block::{Error, ErrorKind, Result};

use super::export::Export;
use crate::protocol::ServerReply;

/// A changing set of exports, all of which are only read. A client opens an export of its own, so
/// the connections of one client may use different versions, and clients are told not to use
/// several.
///
/// A connection calls it on its own thread: a slow call delays no other connection.
pub trait Catalog: Debug + Send + Sync {
    /// Returns the names of the exports.
    ///
    /// # Errors
    /// Returns the errors of the place that has the exports.
    fn names(&self) -> Result<Vec<String>>;

    /// Opens an export, or returns `None` if there is none with this name.
    ///
    /// # Errors
    /// Returns the errors of opening it. The client is told the reason, without paths.
    fn open(&self, name: &str) -> Result<Option<Export>>;
}

/// The exports of a server.
#[derive(Debug)]
pub(super) enum Exports {
    Fixed(Vec<Arc<Export>>),
    Catalog(Box<dyn Catalog>),
}

impl Exports {
    /// Returns the replies to `NBD_OPT_LIST`.
    pub(super) fn list(&self) -> Result<Vec<ServerReply>> {
        match self {
            Self::Fixed(exports) => Ok(exports.iter().map(|export| listed(export)).collect()),
            Self::Catalog(catalog) => {
                let names = caught(|| catalog.names())?;
                let unnamed = |name| ServerReply {
                    name,
                    description: String::new(),
                };
                Ok(names.into_iter().map(unnamed).collect())
            }
        }
    }

    /// Opens the export with this name.
    pub(super) fn open(&self, name: &str) -> Result<Option<Arc<Export>>> {
        match self {
            Self::Fixed(exports) => {
                let found = exports.iter().find(|export| export.name == name);
                Ok(found.map(Arc::clone))
            }
            Self::Catalog(catalog) => {
                let opened = caught(|| catalog.open(name))?;
                opened.map(of_catalog).transpose()
            }
        }
    }

    /// Makes durable what clients wrote.
    pub(super) fn flush(&self) -> Result<()> {
        let Self::Fixed(exports) = self else {
            return Ok(());
        };
        let mut flushed = Ok(());
        for device in exports.iter().filter_map(|export| export.device.writer()) {
            flushed = flushed.and(device.flush());
        }
        flushed
    }
}

fn listed(export: &Export) -> ServerReply {
    ServerReply {
        name: export.name.clone(),
        description: export.description.clone(),
    }
}

/// Returns an export of a catalog, which nobody else has open.
fn of_catalog(mut export: Export) -> Result<Arc<Export>> {
    export.check()?;
    if export.device.writer().is_some() {
        return Err(Error::invalid("an export of a catalog is writable"));
    }
    export.is_shared = false;
    Ok(Arc::new(export))
}

/// Calls a catalog. A panic is a failure of the call.
fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "opening the export panicked")))
}
