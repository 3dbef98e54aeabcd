//! A filesystem at the other end of a stream.
//!
//! What a kernel in a microVM has mounted is shown here as one more
//! [`FsRead`](diskfs_vfs::FsRead) and [`FsWrite`](diskfs_vfs::FsWrite): [`client::Remote`]. At the
//! other end [`server::serve`] answers from whatever is mounted there. Between them goes
//! [`protocol`]: frames over any stream of bytes that is reliable and in order.
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
//! What the filesystem there answers comes with its kind and its reason. When the stream ends, or
//! what comes over it makes no sense, every call that waits and every later one answers `Io` with
//! that as its reason.
//!
//! # Trust
//!
//! Either end takes the other for hostile, the client above all: a guest's kernel may have been
//! taken over by the image that it mounted. Lengths, numbers and names are checked at the door; who
//! breaks the protocol is not spoken with any more.
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
