//! Userspace virtual hard disks v2 (VHDX) with logs and parents, for reading, and new disks.
//!
//! [`Vhdx::open`] reads the headers, replays the log in memory if there is one, and reads the region
//! table and the metadata. The result is an [`ImageMap`](diskfs_block::ImageMap): it says where each
//! run of the guest's disk is stored in [`Vhdx::file`], which is the image's file with the replayed
//! log over it. Entries of the block allocation table and sector bitmaps are read when they are
//! used. The file is never written. [`VhdxLayout`] is the layout of a new disk, which its caller
//! writes.
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

mod bat_entry;
mod check;
mod checksum;
mod extended;
mod file_type;
mod header;
mod log;
mod metadata;
mod metadata_table;
mod parent_locator;
mod region_table;
mod vhdx;
mod write;

pub use parent_locator::Parent;
pub use vhdx::Vhdx;
pub use write::{VhdxLayout, VhdxOptions, default_block_bytes};
