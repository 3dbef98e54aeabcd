//! The step `tar`: unpacks local tar archives.

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

/// A tar archive, plain or compressed (gzip, bzip2, xz, zstd, lz4), which is unpacked into a
/// directory of the guest. Owners are the archive's numeric IDs unless `owner` is given. Modes,
/// symlinks, hard links and extended attributes are kept; devices and FIFOs are skipped; holes are
/// filled. A file replaces an existing symlink, and existing directories stay unchanged. Members
/// whose names would leave the directory are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Tar {
    /// The archive, a local file.
    pub from: PathBuf,
    /// The directory in the guest to unpack into, which is created if it is missing.
    pub to: String,
    /// The owner of all unpacked files and directories.
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
        // The archive must be a regular file: reading anything else might never end.
        Contents::of_host(&self.from)?;
        let in_file = |error: Error| error.in_file(&self.from);
        let file = HostFile::open(&self.from).map_err(|error| in_file(error.into()))?;
        guest.stage.make_dirs(to, 0o755)?;
        let mut archive = Archive::read_ahead(file).map_err(in_file)?;
        let mut unpacker = Unpacker::new(guest, self.from.clone(), to, owner)?;
        while let Some(member) = archive.next().map_err(in_file)? {
            unpacker.put(guest, &member, &mut archive.contents())?;
        }
        unpacker.add_notes(guest);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
