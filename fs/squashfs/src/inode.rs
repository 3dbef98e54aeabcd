//! Inodes of all types, basic and extended.

use diskfs_vfs::{FileType, InodeNumber};

use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::inode_body::{Contents, Directory, File, InodeBody};
use crate::inode_reference::InodeReference;
use crate::raw_inode::RawBaseInode;
use crate::volume::Volume;

/// The difference between the types of basic and extended inodes.
const EXTENDED: u16 = 7;

/// The size of a directory includes `.` and `..`, which are not stored.
pub(crate) const DOTS_BYTES: u32 = 3;

/// An inode.
#[derive(Debug, Clone)]
pub(crate) struct Inode {
    pub(crate) number: InodeNumber,
    pub(crate) reference: InodeReference,
    /// The number that the inode itself has.
    pub(crate) stored_number: u32,
    pub(crate) file_type: FileType,
    pub(crate) mode: u16,
    /// The indices of the owner and the group in the ID table.
    pub(crate) owner: (u16, u16),
    pub(crate) modified_seconds: u32,
    pub(crate) links: u32,
    /// The index of the attributes.
    pub(crate) xattr: Option<u32>,
    pub(crate) contents: Contents,
}

impl Inode {
    /// Reads the inode with a number.
    ///
    /// # Errors
    /// `NotFound` if no inode can have the number; `Corrupt` if the inode is invalid.
    pub(crate) fn read(volume: &Volume, number: InodeNumber) -> Result<Self> {
        let read = || {
            let inode = Self::read_at(volume, volume.reference_of(number)?)?;
            if inode.number != number {
                let reason = format!("invalid export table: it leads to inode {}", inode.number);
                return Err(corrupt(reason, volume.superblock.inode_table));
            }
            Ok(inode)
        };
        read().map_err(|error: Error| error.in_inode(number))
    }

    /// Reads the inode at a place.
    pub(crate) fn read_at(volume: &Volume, reference: InodeReference) -> Result<Self> {
        let mut cursor = volume.blocks.cursor(volume.inode_table(), reference)?;
        let place = cursor.place();
        let base: RawBaseInode = cursor.read_raw()?;
        let stored_type = base.inode_type.get();
        let is_extended = stored_type > EXTENDED;
        let basic_type = stored_type.wrapping_sub(if is_extended { EXTENDED } else { 0 });
        let Some(file_type) = file_type(basic_type) else {
            let reason = format!("invalid inode: unknown type {stored_type}");
            return Err(corrupt(reason, place));
        };
        let body = InodeBody::read(&mut cursor, file_type, is_extended)?;
        Ok(Self {
            number: volume.number_of(reference, base.inode_number.get())?,
            reference,
            stored_number: base.inode_number.get(),
            file_type,
            mode: base.mode.get(),
            owner: (base.uid.get(), base.guid.get()),
            modified_seconds: base.mtime.get(),
            links: body.links,
            xattr: body.xattr,
            contents: body.contents,
        })
    }

    /// Returns the contents of a directory.
    ///
    /// # Errors
    /// `NotADirectory`.
    pub(crate) fn directory(&self) -> Result<&Directory> {
        match &self.contents {
            Contents::Directory(directory) => Ok(directory),
            _ => Err(Error::from(ErrorKind::NotADirectory).in_inode(self.number)),
        }
    }

    /// Returns the contents of a regular file.
    ///
    /// # Errors
    /// `IsADirectory`, or `Invalid` for other types.
    pub(crate) fn file(&self) -> Result<&File> {
        let kind = match &self.contents {
            Contents::File(file) => return Ok(file),
            Contents::Directory(_) => ErrorKind::IsADirectory,
            _ => ErrorKind::Invalid,
        };
        Err(Error::from(kind).in_inode(self.number))
    }

    /// Returns the target of a symlink.
    ///
    /// # Errors
    /// `Invalid` for other types.
    pub(crate) fn target(&self, volume: &Volume) -> Result<Vec<u8>> {
        let Contents::Symlink { target, len } = self.contents else {
            return Err(Error::from(ErrorKind::Invalid).in_inode(self.number));
        };
        let mut cursor = volume.blocks.cursor_at(target, volume.inode_table());
        cursor.read_vec(diskfs_block::bytes::index(len))
    }
}

/// Returns the file type of a basic inode or a directory entry.
pub(crate) fn file_type(number: u16) -> Option<FileType> {
    Some(match number {
        1 => FileType::Directory,
        2 => FileType::Regular,
        3 => FileType::Symlink,
        4 => FileType::BlockDevice,
        5 => FileType::CharacterDevice,
        6 => FileType::Fifo,
        7 => FileType::Socket,
        _ => return None,
    })
}
