//! Tar archives as streams of members (POSIX.1-2017, pax; GNU tar manual, "Basic Tar Format"),
//! container images, and the file trees that their layers make.
//!
//! Archives may be hostile. [`Archive`] returns names as they are stored; its caller must make sure
//! that unpacking them does not lead out of the destination. [`Tree`] does that itself.
//!
//! Pax headers are parsed here and not by the entries of the `tar` crate: those split pax records
//! at newlines, which values of extended attributes may contain.

mod acl_text;
mod archive;
#[cfg_attr(
    not(test),
    warn(clippy::arithmetic_side_effects, clippy::as_conversions)
)]
#[cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]
mod background;
mod damage;
#[cfg_attr(
    not(test),
    warn(clippy::arithmetic_side_effects, clippy::as_conversions)
)]
#[cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]
mod digest;
#[cfg_attr(
    not(test),
    warn(clippy::arithmetic_side_effects, clippy::as_conversions)
)]
#[cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]
mod host;
#[cfg_attr(
    not(test),
    warn(clippy::arithmetic_side_effects, clippy::as_conversions)
)]
#[cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]
pub mod image;
#[cfg_attr(
    not(test),
    warn(clippy::arithmetic_side_effects, clippy::as_conversions)
)]
#[cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]
mod layer;
mod libarchive;
mod member;
#[cfg_attr(
    not(test),
    warn(clippy::arithmetic_side_effects, clippy::as_conversions)
)]
#[cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]
mod pack;
mod pax;
#[cfg_attr(
    not(test),
    warn(clippy::arithmetic_side_effects, clippy::as_conversions)
)]
#[cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]
mod small_file;
mod sparse_map;
#[cfg_attr(
    not(test),
    warn(clippy::arithmetic_side_effects, clippy::as_conversions)
)]
#[cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]
pub mod tree;
pub mod unpack;

use std::io::{self, BufRead, Read};

use damage::Decoded;
use diskfs_disk::Result;

pub use archive::{Archive, Contents};
pub use digest::Digest;
pub use host::HostOptions;
pub use image::Image;
pub use layer::Layer;
pub use member::{Member, MemberKind};
pub use small_file::SmallFile;
pub use tree::Tree;

/// Decompresses an archive, if its first bytes are those of a known compression format.
///
/// # Errors
/// `Corrupt` for damaged data, also from the returned reader; `Unsupported` for an unknown format;
/// `Io`.
pub fn decompressed<'r>(mut input: impl Read + 'r) -> Result<Box<dyn Read + 'r>> {
    let mut start = Vec::new();
    input.by_ref().take(6).read_to_end(&mut start)?;
    let is_packed = unpack::is_compressed(&start);
    let mut whole = io::BufReader::new(io::Cursor::new(start).chain(input));
    if !is_packed {
        return Ok(Box::new(whole));
    }
    // The chain starts with the first bytes, which are in memory, so this call returns all of them.
    whole.fill_buf()?;
    let plain = unpack::stream(whole, unpack::Streams::All).map_err(damage::damaged)?;
    Ok(Box::new(Decoded(plain.ok_or_else(unpack::unknown)?)))
}
