//! One of the two trees that are compared.

use diskfs::vfs::{FileExtentKind, Follow, InodeNumber};
use diskfs::{Disk, Filesystem, Result};

use crate::cli::options::SourceArgs;
use crate::cli::session::Session;

/// A directory of an image's filesystem.
#[derive(Debug)]
pub(super) struct Side {
    disk: Disk,
    pub(super) filesystem: Filesystem,
    pub(super) path: Vec<u8>,
    pub(super) start: InodeNumber,
    /// Where the root's filesystem begins on the disk, where it is in one piece.
    start_bytes: Option<u64>,
}

impl Side {
    pub(super) fn new(
        session: &mut Session,
        disk: Disk,
        path: Vec<u8>,
        source: &SourceArgs,
    ) -> Result<Self> {
        let filesystem = source.volume.filesystem(&disk)?;
        session.warn_of(&disk);
        let start = filesystem.resolve(&path, Follow::All)?;
        Ok(Self {
            start_bytes: start_bytes(&disk, filesystem.volume()),
            disk,
            filesystem,
            path,
            start,
        })
    }

    /// Whether a file of each side, both of that size, surely have the same contents, by where they are
    /// stored. Nothing of them is read; `false` means nothing.
    pub(super) fn shares(
        &self,
        inode: InodeNumber,
        other: &Self,
        of_other: InodeNumber,
        size_bytes: u64,
    ) -> bool {
        // What keeps it from being known is met again when the contents are read, and told then.
        let known = self.find_shared(inode, other, of_other, size_bytes);
        known.unwrap_or_default().unwrap_or_default()
    }

    fn find_shared(
        &self,
        inode: InodeNumber,
        other: &Self,
        of_other: InodeNumber,
        size_bytes: u64,
    ) -> Result<Option<bool>> {
        let (Some(image), Some(other_image)) = (self.disk.image(), other.disk.image()) else {
            return Ok(None);
        };
        let (fs, other_fs) = (self.filesystem.as_fs(), other.filesystem.as_fs());
        let (Some(begin), Some(other_begin)) = (self.start_bytes, other.start_bytes) else {
            return Ok(None);
        };
        if fs.mount_of(inode) != 0 || other_fs.mount_of(of_other) != 0 {
            return Ok(None);
        }
        let mut runs = fs.extents_of(inode, 0)?;
        let mut of_other = other_fs.extents_of(of_other, 0)?;
        let mut at = 0;
        while at < size_bytes {
            let (Some(run), Some(other)) = (runs.next(), of_other.next()) else {
                return Ok(None);
            };
            let (run, other) = (run?, other?);
            if (run.offset, run.len_bytes) != (other.offset, other.len_bytes) || run.offset != at {
                return Ok(None);
            }
            let place = |kind, begin: u64| match kind {
                FileExtentKind::Stored { device_offset } => begin.checked_add(device_offset),
                FileExtentKind::Inline | FileExtentKind::Hole => None,
            };
            let is_hole = |kind| kind == FileExtentKind::Hole;
            if !(is_hole(run.kind) && is_hole(other.kind)) {
                let (Some(a), Some(b)) = (place(run.kind, begin), place(other.kind, other_begin))
                else {
                    return Ok(None);
                };
                if a != b || !image.shares(other_image, a, run.len_bytes)? {
                    return Ok(None);
                }
            }
            at = at.saturating_add(run.len_bytes);
        }
        Ok(Some(true))
    }
}

/// Where a volume begins on the image's own disk; `None` for one that is put together, or decrypted.
fn start_bytes(disk: &Disk, volume: &str) -> Option<u64> {
    if let Some(offset) = volume.strip_prefix('@') {
        return offset.parse().ok();
    }
    let volume = disk.volume(volume).ok()?;
    volume
        .start_bytes()
        .filter(|_| volume.disk_index().unwrap_or(0) == 0)
}
