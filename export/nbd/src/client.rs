//! A client of NBD: a block device that a server exports.
//!
//! ```no_run
//! use diskfs_block::BlockRead;
//! use diskfs_nbd::client::{Nbd, Options, Uri};
//!
//! let uri: Uri = "nbd://localhost/disk".parse()?;
//! let device = Nbd::connect(&uri, Options::default())?;
//! let mut sector = [0; 512];
//! device.read_at(0, &mut sector)?;
//! # Ok::<(), diskfs_block::Error>(())
//! ```

mod allocation;
mod covered;
mod dial;
mod driver;
mod durability;
mod exchange;
mod handshake;
mod link;
mod links;
mod nbd;
mod nbd_write;
mod options;
mod peer;
mod pending;
mod replies;
mod shape;
mod uri;

pub use nbd::Nbd;
pub use options::{Options, Tls};
pub use peer::Connect;
pub use uri::{Address, Uri};

/// The reading side of a client, for the fuzzers.
#[cfg(feature = "testing")]
pub(crate) mod testing {
    use std::sync::Arc;

    use super::pending::{Kind, Pending, Table};
    use super::{handshake, replies};
    use crate::stream::Stream;

    /// Opens an export, and reads the replies to a read, a block status and a write, each of
    /// several sizes. Returns true if the stream ends between two replies.
    pub(crate) async fn read_replies(stream: Stream) -> bool {
        let Ok((mut stream, opened)) = handshake::open(stream, "export", None).await else {
            return false;
        };
        let table = Table::default();
        let buffers = Arc::default();
        for size in [512, 4096, 65536, 1 << 20] {
            for kind in [Kind::Read, Kind::Status, Kind::Plain, Kind::Read] {
                let _ = table.add(Arc::new(Pending::new(kind, (4096, size), &buffers)));
            }
        }
        let failure = replies::read_all(&mut stream, &opened, &table).await;
        table.end("the stream ended");
        failure.is_end()
    }
}
