//! A filesystem at the other side of a stream.
//!
//! [`client::Remote`] is a [`FsRead`](diskfs_vfs::FsRead) and [`FsWrite`](diskfs_vfs::FsWrite) over
//! a filesystem that the kernel of a microVM has mounted. At the other side, [`server::serve`]
//! answers requests from a mounted filesystem. They communicate by [`protocol`]: frames over any
//! reliable, ordered stream of bytes.
//!
//! ```
//! use std::os::unix::net::UnixStream;
//! use std::sync::Arc;
//! use std::time::Duration;
//! use diskfs_remote::client::{Client, MountRequest};
//! use diskfs_remote::server::{Machine, Served, serve};
//! use diskfs_vfs::{FsRead, FsWrite, NewAttributes, NewKind, testing::WritableMemoryFs};
//!
//! struct Memory;
//!
//! impl Machine for Memory {
//!     fn mount(&self, _request: &MountRequest) -> diskfs_vfs::Result<Arc<dyn Served>> {
//!         Ok(Arc::new(WritableMemoryFs::new()))
//!     }
//! }
//!
//! let (here, there) = UnixStream::pair()?;
//! let server = std::thread::spawn(move || serve(there.try_clone()?, there, &Memory));
//! let client = Client::connect(here.try_clone()?, here, Duration::from_secs(5))?;
//! let fs = client.mount(&MountRequest::new("vda", "memory"))?;
//! let file = fs.create(fs.root(), b"f", NewKind::Regular, &NewAttributes::for_root(0o644))?;
//! fs.write_at(file, 0, b"far away")?;
//! fs.close()?;
//! client.shut_down()?;
//! server.join().unwrap()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! Errors of the remote filesystem keep their kind and their reason. When the stream ends or the
//! peer breaks the protocol, all waiting and later calls fail with `Io` and that reason.
//!
//! # Trust
//!
//! Neither side trusts the other, the client least: the image that a guest's kernel has mounted may
//! have compromised that kernel. Lengths, numbers and names are checked on arrival. A peer that
//! breaks the protocol is disconnected.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

pub mod client;
pub mod protocol;
pub mod server;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
