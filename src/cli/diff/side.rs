//! A side of a comparison: one of the two trees.

use diskfs::vfs::{FileExtentKind, Follow};
use diskfs::{Disk, Node, Result, SortedEntry};

use crate::cli::options::SourceArgs;
use crate::cli::session::Session;
use crate::cli::show::name::join;

/// A directory of an image's filesystem.
#[derive(Debug)]
pub(super) struct Side {
    disk: Disk,
    /// The file at which the comparison begins.
    pub(super) start: Node,
    /// The offset on the disk at which the root's filesystem begins, if it is contiguous.
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
        session.print_warnings(&disk);
        Ok(Self {
            start: filesystem.node(path, Follow::All)?,
            start_bytes: start_bytes(&disk, filesystem.volume()),
            disk,
        })
    }

    /// Returns the node of an entry.
    pub(super) fn node(&self, entry: &SortedEntry) -> Node {
        self.start.below(&entry.path, entry.metadata.inode)
    }

    /// Returns the path of an entry.
    pub(super) fn path_of(&self, entry: &SortedEntry) -> Vec<u8> {
        join(self.start.path(), &entry.path)
    }

    /// Returns true if two files, one of each side and both of this size, must have the same
    /// contents because they are stored in the same place. No contents are read. `false` means that
    /// they may differ.
    pub(super) fn shares(
        &self,
        node: &Node,
        other: &Self,
        of_other: &Node,
        size_bytes: u64,
    ) -> bool {
        // An error here recurs when the contents are read, and is reported then.
        let known = self.find_shared(node, other, of_other, size_bytes);
        known.unwrap_or_default().unwrap_or_default()
    }

    fn find_shared(
        &self,
        node: &Node,
        other: &Self,
        of_other: &Node,
        size_bytes: u64,
    ) -> Result<Option<bool>> {
        let (Some(image), Some(other_image)) = (self.disk.image(), other.disk.image()) else {
            return Ok(None);
        };
        let (Some(begin), Some(other_begin)) = (self.start_bytes, other.start_bytes) else {
            return Ok(None);
        };
        let is_elsewhere = |node: &Node| node.filesystem().mount_of(node.inode()) != 0;
        if is_elsewhere(node) || is_elsewhere(of_other) {
            return Ok(None);
        }
        let mut runs = node.extents(0)?;
        let mut of_other = of_other.extents(0)?;
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

/// Returns the offset at which a volume begins on the image's own disk, or `None` if the volume is
/// assembled from pieces or decrypted.
fn start_bytes(disk: &Disk, volume: &str) -> Option<u64> {
    if let Some(offset) = volume.strip_prefix('@') {
        return offset.parse().ok();
    }
    let volume = disk.volume(volume).ok()?;
    volume
        .start_bytes()
        .filter(|_| volume.disk_index().unwrap_or(0) == 0)
}
