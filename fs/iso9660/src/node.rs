//! A file: its directory record and the Rock Ridge entries of that record.

use diskfs_vfs::{FileType, InodeNumber};

use crate::directory_record::DirectoryRecord;
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::rrip::{self, PosixAttributes};
use crate::susp::SystemUse;
use crate::volume::Volume;

/// A file or directory.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) record: DirectoryRecord,
    pub(crate) system_use: SystemUse,
    pub(crate) file_type: FileType,
    pub(crate) posix: Option<PosixAttributes>,
}

impl Node {
    /// Reads the file with an inode number: the offset of its record or, for a directory, of its
    /// own record (`.`).
    pub(crate) fn read(volume: &Volume, inode: InodeNumber) -> Result<Self> {
        let no_file = || Error::from(ErrorKind::NotFound).in_inode(inode);
        let mut record = volume.record_at(inode.0)?.ok_or_else(no_file)?;
        if record.is_parent() || record.is_directory() && !record.is_self() {
            return Err(corrupt(
                "invalid directory: missing its own record at the start",
                inode.0,
            ));
        }
        // Use the location where the directory was found, whatever the record says.
        if record.is_self() {
            record.data.start_bytes = record.place;
        }
        let system_use = volume.system_use(&record)?;
        Self::new(record, system_use)
    }

    /// Builds a file from its record.
    pub(crate) fn new(record: DirectoryRecord, system_use: SystemUse) -> Result<Self> {
        let posix = PosixAttributes::find(&system_use, record.place)?;
        let of_record = if record.is_directory() {
            FileType::Directory
        } else {
            FileType::Regular
        };
        let file_type = posix
            .and_then(|posix| FileType::from_mode(posix.mode))
            .unwrap_or(of_record);
        if (file_type == FileType::Directory) != record.is_directory() {
            let reason = "invalid directory record: it and its PX entry disagree on the file type";
            return Err(corrupt(reason, record.place));
        }
        Ok(Self {
            record,
            system_use,
            file_type,
            posix,
        })
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }

    pub(crate) fn inode(&self) -> InodeNumber {
        InodeNumber(self.record.place)
    }

    /// Returns the target of a symlink.
    pub(crate) fn target(&self) -> Result<Vec<u8>> {
        if self.file_type != FileType::Symlink {
            return Err(ErrorKind::Invalid.into());
        }
        rrip::target(&self.system_use, self.record.place)
    }
}
