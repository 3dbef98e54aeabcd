//! Tar archives of this machine.

mod spool;
mod unpack;

use std::fs::File as HostFile;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::super::super::guest::Guest;
use super::super::super::stage::Contents;
use super::{Owner, absolute, ownership};
use diskfs_archive::Archive;
use diskfs_disk::{Error, Result};
use unpack::Unpacker;

/// An archive, plain or compressed (gzip, xz, zstd, lz4), unpacked below a directory. Owners are the archive's numbers
/// unless one is given; modes, symlinks, hard links and extended attributes are kept, devices and FIFOs are left out,
/// holes are filled. A file takes the place of a symlink; directories that are there stay as they are. Names that would
/// leave the directory are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Tar {
    /// The archive, a file of this machine.
    pub from: PathBuf,
    /// The directory that it is unpacked below, which is made where it is missing.
    pub to: String,
    /// The owner of all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

impl Tar {
    pub(in super::super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let to = absolute(guest, &self.to)?;
        let owner = match &self.owner {
            Some(owner) => Some(ownership::numbers(guest, owner)?),
            None => None,
        };
        // It is a regular file: others may not end.
        Contents::of_host(&self.from)?;
        let in_file = |error: Error| error.in_file(&self.from);
        let file = HostFile::open(&self.from).map_err(|error| in_file(error.into()))?;
        guest.stage.make_dirs(to, 0o755)?;
        let mut archive = Archive::new(diskfs_archive::decompressed(file).map_err(in_file)?);
        let mut unpacker = Unpacker::new(guest, to, owner)?;
        while let Some(member) = archive.next().map_err(in_file)? {
            unpacker.put(guest, &member, &mut archive.contents())?;
        }
        unpacker.tell(guest);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
