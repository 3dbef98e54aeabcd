//! Images on HTTP servers, in object stores (S3, Google Cloud Storage, Azure) and in registries of
//! OCI images, as block devices.
//!
//! A [`Device`] asks for ranges of the object and caches them. It reads ahead where a caller reads
//! in order, repeats requests that failed in a way that may pass, and fails if the object changes
//! while it is open: it never mixes two versions.
//!
//! ```no_run
//! use diskfs_block::BlockRead;
//! use diskfs_objects::{Device, Options};
//!
//! let device = Device::open("https://example.org/d.qcow2", "d.qcow2", &Options::default())?;
//! let mut magic = [0; 4];
//! device.read_at(0, &mut magic)?;
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! A [`Download`] reads all bytes of an object in order, by several requests at once.
//!
//! # Limits
//!
//! `DESIGN.md` says what is supported, and where credentials come from.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod blocks;
mod counted;
mod device;
mod disk_cache;
mod download;
mod fetch;
mod http;
mod object;
mod open;
mod options;
mod read_ahead;
mod registry;
mod retry;
mod runtime;
mod secret_file;
mod store;
mod uri;

pub use counted::Statistics;
pub use device::Device;
pub use disk_cache::DiskCache;
pub use download::Download;
pub use options::Options;
pub use registry::{Registry, RegistryAccess};
pub use uri::is_uri;
