//! The commands for QEMU that attach a disk.

use std::path::Path;

use clap::ValueEnum;
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::machine::Bus;
use super::name::DiskName;

/// The cache mode, as libvirt and KubeVirt name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Cache {
    None,
    Writethrough,
    Writeback,
}

/// The commands that attach a disk.
pub(super) struct Commands {
    pub(super) blockdev_add: Value,
    pub(super) device_add: Value,
}

/// A disk to attach.
pub(super) struct NewDisk<'a> {
    pub(super) id: &'a DiskName,
    pub(super) serial: &'a str,
    /// The bus, and its ID if the disk must be on a certain one.
    pub(super) bus: (Bus, Option<&'a str>),
    pub(super) cache: Cache,
    pub(super) read_only: bool,
}

impl NewDisk<'_> {
    /// Returns the commands for a disk that is served at `socket`.
    pub(super) fn commands(&self, socket: &Path) -> Result<Commands> {
        let not_text = || Error::new(ErrorKind::Invalid, "the socket's name is not UTF-8");
        let path = socket.to_str().ok_or_else(not_text)?;
        let blockdev_add = json!({
            "driver": "nbd",
            "node-name": self.id.node(),
            "server": { "type": "unix", "path": path },
            "read-only": self.read_only,
            "discard": "unmap",
            "cache": { "direct": self.cache == Cache::None, "no-flush": false },
        });
        let write_cache = match self.cache {
            Cache::Writethrough => "off",
            Cache::None | Cache::Writeback => "on",
        };
        let (bus, place) = self.bus;
        let mut device_add = json!({
            "driver": bus.driver(),
            "id": self.id.as_str(),
            "drive": self.id.node(),
            "serial": self.serial,
            "write-cache": write_cache,
        });
        if let Some(place) = place {
            device_add["bus"] = place.into();
        }
        Ok(Commands {
            blockdev_add,
            device_add,
        })
    }
}
