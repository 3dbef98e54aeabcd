//! Userspace Apple disk images (DMG), for reading.
//!
//! [`Dmg::open`] reads the trailer at the end of the file and the block tables in its property
//! list. The result is an [`ImageMap`](diskfs_block::ImageMap): it says where each run of the
//! guest's disk is stored in the file, and decompresses chunks.
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

mod block_table;
mod chunk;
mod codec;
mod dmg;
mod property_list;
mod trailer;

pub use dmg::Dmg;
pub use trailer::ends_with_trailer;
