//! The metadata of an inode, as the kernel shows it.

use diskfs_vfs::{Device, FileAttributes, FileFlags, FileType, InodeNumber, Metadata};

use super::{Fork, Inode, InodeFlags, InodeFlags2};
use crate::superblock::Superblock;

impl Inode {
    /// Returns the metadata as stat(2) does.
    pub(crate) fn metadata(&self, superblock: &Superblock) -> Metadata {
        /// The smallest preferred size of a read, a page.
        const READ_BYTES_MIN: u32 = 4096;
        Metadata {
            inode: InodeNumber(self.number),
            generation: self.generation,
            file_type: self.file_type,
            permissions: self.permissions,
            links: self.links,
            uid: self.uid,
            gid: self.gid,
            size_bytes: self.size_bytes,
            allocated_bytes: superblock.bytes_of(self.blocks),
            accessed: self.accessed,
            modified: self.modified,
            changed: self.changed,
            created: self.created,
            device: self.device(),
            block_size: superblock.block_bytes.max(READ_BYTES_MIN),
            flags: FileFlags {
                immutable: self.flags.contains(InodeFlags::IMMUTABLE),
                append_only: self.flags.contains(InodeFlags::APPEND),
                no_dump: self.flags.contains(InodeFlags::NODUMP),
                casefold: superblock.features.ignores_case() && self.is(FileType::Directory),
                ..FileFlags::default()
            },
        }
    }

    fn device(&self) -> Option<Device> {
        let is_device = self.is(FileType::CharacterDevice) || self.is(FileType::BlockDevice);
        match self.data {
            Fork::Device(device) if is_device => Some(device),
            _ => None,
        }
    }

    /// Returns the attributes that chattr(1) changes, and the project.
    pub(crate) fn file_attributes(&self) -> FileAttributes {
        /// The bits of linux/fs.h.
        const BITS: [(InodeFlags, u32); 6] = [
            (InodeFlags::SYNC, 0x0000_0008),
            (InodeFlags::IMMUTABLE, 0x0000_0010),
            (InodeFlags::APPEND, 0x0000_0020),
            (InodeFlags::NODUMP, 0x0000_0040),
            (InodeFlags::NOATIME, 0x0000_0080),
            (InodeFlags::PROJINHERIT, 0x2000_0000),
        ];
        const DAX: u32 = 0x0200_0000;
        let dax = self.flags2.contains(InodeFlags2::DAX);
        let of_flags = BITS.iter().filter(|(flag, _)| self.flags.contains(*flag));
        let flags = of_flags.fold(0, |bits, (_, bit)| bits | bit);
        FileAttributes {
            flags: if dax { flags | DAX } else { flags },
            project: self.project,
        }
    }
}
