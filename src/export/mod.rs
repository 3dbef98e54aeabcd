//! Adapters outwards: an open filesystem or disk, served to somebody else.

#[cfg(feature = "fuse")]
pub mod fuse;
