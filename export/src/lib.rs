//! Exports of an open filesystem or disk: as a FUSE mount and as a vhost-user block device.

#[cfg(feature = "fuse")]
mod disk_file;
#[cfg(feature = "fuse")]
pub mod fuse;
#[cfg(feature = "vhost-user")]
pub mod vhost_user;

#[cfg(feature = "fuse")]
pub use disk_file::DiskFile;
