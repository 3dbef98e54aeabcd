//! Userspace virtual hard disks (VHD) with parents, for reading, and new disks without parents.
//!
//! [`Vhd::open`] reads the footer and, for dynamic and differencing disks, the header. The result
//! is an [`ImageMap`](diskfs_block::ImageMap): it says where each run of the disk is stored.
//! Entries of the block allocation table and sector bitmaps are read when they are used. QEMU
//! calls the format vpc. [`VhdLayout`] is the layout of a new disk, which its caller writes.
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

mod checksum;
mod dynamic_header;
mod footer;
mod geometry;
mod parent;
mod parent_locator;
mod vhd;
mod write;

pub use footer::{DiskType, ends_with_footer};
pub use parent::Parent;
pub use vhd::Vhd;
pub use write::{SizeRule, VhdLayout, VhdOptions, virtual_size_bytes};
