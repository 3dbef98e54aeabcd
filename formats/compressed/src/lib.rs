//! Userspace compressed files (gzip, bzip2, xz, zstd, LZ4), as streams and as disks.
//!
//! [`stream`] decompresses a file from its beginning. [`Compressed::open`] finds the parts of a file
//! that can be decompressed by themselves, so that a disk can be read at any place: blocks of xz,
//! frames of zstd, members of BGZF. A file whose parts are too large has to be decompressed as a
//! whole.
//!
//! # Errors
//!
//! `Corrupt` has the byte of the wrong field.
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

mod bgzf;
mod codec;
mod compressed;
mod device_reader;
mod legacy_lz4;
mod recent;
mod seek_table;
mod streams;
mod units;
mod xz_index;
mod zstd_frames;

pub use codec::Codec;
pub use compressed::Compressed;
pub use device_reader::DeviceReader;
pub use streams::{Streams, is_compressed, stream};
