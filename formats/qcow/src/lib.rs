//! Userspace QEMU copy-on-write images of version 1 (qcow), for reading.
//!
//! [`Qcow::open`] reads the header. The result is an [`ImageMap`](diskfs_block::ImageMap): it says
//! where each run of the guest's disk is stored in the file, and decompresses clusters. Entries of
//! tables are read when they are used. Versions 2 and 3 are another format.
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

mod header;
mod inflate;
mod l2_entry;
mod qcow;

pub use qcow::Qcow;
