//! Thin volumes of dm-thin: the mapping of their blocks to blocks of their pool's data.
//!
//! Linux, `drivers/md/dm-thin-metadata.c`,
//! `Documentation/admin-guide/device-mapper/thin-provisioning.rst`.

mod device_details;
mod superblock;
mod volume;

pub(crate) use superblock::Superblock;
pub(crate) use volume::Thin;
