//! The metadata of a file.

use diskfs_vfs::{FileFlags, FileType, Metadata};

use crate::contents;
use crate::error::Result;
use crate::node::Node;
use crate::rrip::{self, Timestamps};
use crate::volume::Volume;

/// The permissions of all files without Rock Ridge: readable by everyone, as on Linux.
const PLAIN_PERMISSIONS: u16 = 0o555;

impl Node {
    /// Returns the metadata of the file, as `stat` shows it.
    pub(crate) fn metadata(&self, volume: &Volume) -> Result<Metadata> {
        let place = self.record.place;
        let size_bytes = match self.file_type {
            FileType::Symlink => u64::try_from(self.target()?.len()).unwrap_or_default(),
            _ => contents::size_bytes(volume, self)?,
        };
        let times = Timestamps::find(&self.system_use);
        let recorded = self.record.recorded;
        let device = match self.file_type {
            FileType::CharacterDevice | FileType::BlockDevice => {
                rrip::device(&self.system_use, place)?
            }
            _ => None,
        };
        let permissions = self.posix.map_or(PLAIN_PERMISSIONS, |posix| {
            u16::try_from(posix.mode & 0o7777).unwrap_or_default()
        });
        Ok(Metadata {
            inode: self.inode(),
            generation: 0,
            file_type: self.file_type,
            permissions,
            links: self.posix.map_or(1, |posix| posix.links),
            uid: self.posix.map_or(0, |posix| posix.uid),
            gid: self.posix.map_or(0, |posix| posix.gid),
            size_bytes,
            allocated_bytes: size_bytes.next_multiple_of(512),
            accessed: times.accessed.unwrap_or(recorded),
            modified: times.modified.unwrap_or(recorded),
            changed: times.changed.or(times.created).unwrap_or(recorded),
            created: times.created,
            device,
            block_size: volume.block_bytes(),
            flags: FileFlags::default(),
        })
    }
}
