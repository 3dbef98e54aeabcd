//! Adapters outwards: an open filesystem or disk, served to somebody else.

#[cfg(feature = "fuse")]
pub mod fuse;
#[cfg(feature = "vhost-user")]
pub mod vhost_user;
