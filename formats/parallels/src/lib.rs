//! Userspace Parallels disk images, for reading.
//!
//! [`Parallels::open`] reads the header. The result is an [`ImageMap`](diskfs_block::ImageMap): it
//! says where each run of the guest's disk is stored in the file. Entries of the block allocation
//! table are read when they are used.
//!
//! # Errors
//!
//! `Corrupt` has the byte of the wrong field. `Unsupported` names the feature.
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

mod check;
mod header;
mod parallels;

pub use parallels::Parallels;
