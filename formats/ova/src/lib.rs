//! OVA and OVF packages of virtual machines: the disks in them.
//!
//! An OVA is a tar archive of an OVF envelope (XML), the files that it refers to, and a manifest of
//! digests. [`Ova::open`] finds the files by their ranges in the archive, without unpacking
//! anything, and [`Ova::device`] returns the file of a disk as a device. What format it has is told
//! by the envelope ([`Disk::format`]), and is checked by whoever opens it.
//!
//! ```no_run
//! use std::sync::Arc;
//! use diskfs_block::{BlockRead, File};
//! use diskfs_ova::Ova;
//!
//! let ova = Ova::open(Arc::new(File::open("machine.ova")?))?;
//! for disk in ova.disks() {
//!     let size = ova.device(disk)?.map(|file| file.size_bytes());
//!     println!("{}: {:?}, {size:?} bytes", disk.id, disk.file_name());
//! }
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! [`Envelope::parse`] parses an OVF that is not in an archive; its files lie beside it, and the
//! caller's policy decides about the names.
//!
//! # Errors
//!
//! `Corrupt` has the byte of the archive. `Unsupported` names the feature: compressed files, files
//! in chunks, sparse members of tar.
//!
//! # Limits
//!
//! `DESIGN.md` has all limits: what is read and what is refused.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod envelope;
mod manifest;
mod ova;
mod tar;
mod units;

pub use envelope::{Disk, Envelope, FileReference};
pub use manifest::FileDigest;
pub use ova::{Ova, percent_decoded};
pub use tar::{Member, is_tar, members_where};
