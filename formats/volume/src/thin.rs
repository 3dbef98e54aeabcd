//! Thin volumes of dm-thin: which block of their pool's data each of their blocks is in.
//!
//! Linux, `drivers/md/dm-thin-metadata.c`, `Documentation/admin-guide/device-mapper/thin-provisioning.rst`.

mod device_details;
mod superblock;
mod volume;

pub(crate) use superblock::Superblock;
pub(crate) use volume::Thin;
