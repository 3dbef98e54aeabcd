//! Userspace VirtualBox disk images (VDI), for reading, and new images.
//!
//! [`Vdi::open`] reads the header. The result is an [`ImageMap`](diskfs_block::ImageMap): it says
//! where each run of the guest's disk is stored in the file. Entries of the block map are read when
//! they are used. [`VdiLayout`] is the layout of a new image, which its caller writes.
//!
//! # Errors
//!
//! `Corrupt` has the byte of the wrong field. `Unsupported` names the feature: an undo image, another
//! version, extra bytes in blocks.
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
mod ids;
mod vdi;
mod write;

pub use header::ImageType;
pub use ids::DiskIds;
pub use vdi::Vdi;
pub use write::{VdiLayout, VdiOptions};
