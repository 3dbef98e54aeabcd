//! The contents of files: the extents of their directory records (ECMA-119, 6.5).

use diskfs_vfs::{FileExtent, FileExtentKind, FileType};

use crate::directory_record::{DirectoryRecord, Run};
use crate::error::{Error, ErrorKind, Result, corrupt, device_failed};
use crate::node::Node;
use crate::volume::Volume;

/// The maximum number of extents of a file. An extent has up to 4 GiB and a volume 2^32 blocks of 2
/// KiB, so a file with more extents would be larger than its volume.
const MAX_EXTENTS: usize = 2049;

/// An extent of a file.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// The offset of the extent in the file.
    offset: u64,
    run: Run,
    /// The place of its directory record.
    place: u64,
}

impl Extent {
    fn end(self) -> u64 {
        self.offset.saturating_add(self.run.len_bytes.into())
    }
}

/// The extents of a file in order. The iterator ends after the first error.
#[derive(Debug)]
struct Extents<'a> {
    volume: &'a Volume,
    next: Option<DirectoryRecord>,
    offset: u64,
    left: usize,
}

impl<'a> Extents<'a> {
    fn new(volume: &'a Volume, node: &Node) -> Self {
        Self {
            volume,
            next: Some(node.record.clone()),
            offset: 0,
            left: MAX_EXTENTS,
        }
    }

    /// Returns the record of the extent that follows that of `record`.
    fn after(&mut self, record: &DirectoryRecord) -> Result<Option<DirectoryRecord>> {
        if !record.has_next_extent() {
            return Ok(None);
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return Err(corrupt(
                "invalid file: it has more than 2049 extents",
                record.place,
            ));
        }
        let at = record.end();
        if let Some(next) = self.volume.record_at(at)? {
            return Ok(Some(next));
        }
        let sector = at.next_multiple_of(crate::volume_descriptor::SECTOR_BYTES);
        let next = self.volume.record_at(sector)?;
        let missing = || {
            corrupt(
                "invalid file: missing directory record of its next extent",
                at,
            )
        };
        next.map(Some).ok_or_else(missing)
    }
}

impl Iterator for Extents<'_> {
    type Item = Result<Extent>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.next.take()?;
        let piece = Extent {
            offset: self.offset,
            run: record.data,
            place: record.place,
        };
        self.offset = piece.end();
        match self.after(&record) {
            Ok(next) => self.next = next,
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(piece))
    }
}

/// Returns the size of a file. Files other than regular files and directories have size 0.
pub(crate) fn size_bytes(volume: &Volume, node: &Node) -> Result<u64> {
    match node.file_type {
        FileType::Directory => Ok(node.record.data.len_bytes.into()),
        FileType::Regular => {
            let mut size_bytes = 0;
            for piece in Extents::new(volume, node) {
                size_bytes = piece?.end();
            }
            Ok(size_bytes)
        }
        _ => Ok(0),
    }
}

/// Fails unless the node is a regular file whose bytes are stored as they are.
fn check(node: &Node) -> Result<()> {
    match node.file_type {
        FileType::Regular => {}
        FileType::Directory => return Err(ErrorKind::IsADirectory.into()),
        _ => return Err(ErrorKind::Invalid.into()),
    }
    let compressed = node.system_use.first(b"ZF").is_some();
    let sparse = node.system_use.first(b"SF").is_some();
    let reason = match () {
        () if node.record.is_interleaved => "reading interleaved files is not supported",
        () if compressed => "reading files compressed with zisofs is not supported",
        () if sparse => "reading sparse files of Rock Ridge is not supported",
        () => return Ok(()),
    };
    Err(Error::new(ErrorKind::Unsupported, reason))
}

/// Reads from byte `offset` into `buf`, at most to the end of the file.
pub(crate) fn read_at(volume: &Volume, node: &Node, offset: u64, buf: &mut [u8]) -> Result<usize> {
    check(node)?;
    let mut done = 0_usize;
    let mut at = offset;
    for piece in Extents::new(volume, node) {
        let piece = piece?;
        let rest = buf.get_mut(done..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        if at >= piece.end() {
            continue;
        }
        volume.check(piece.run, piece.place)?;
        let skipped = at.saturating_sub(piece.offset);
        let left = u64::from(piece.run.len_bytes).saturating_sub(skipped);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        let part = rest.get_mut(..len).unwrap_or_default();
        let start = piece.run.start_bytes.saturating_add(skipped);
        volume.device.read_at(start, part).map_err(device_failed)?;
        done = done.saturating_add(len);
        at = piece.end();
    }
    Ok(done)
}

/// Returns the runs of a file from byte `offset` on.
pub(crate) fn extents<'a>(
    volume: &'a Volume,
    node: &Node,
    offset: u64,
) -> Result<impl Iterator<Item = Result<FileExtent>> + Send + use<'a>> {
    check(node)?;
    let pieces = Extents::new(volume, node);
    Ok(pieces.filter_map(move |piece| match piece {
        Ok(piece) => extent(volume, piece, offset).transpose(),
        Err(error) => Some(Err(error)),
    }))
}

fn extent(volume: &Volume, piece: Extent, from: u64) -> Result<Option<FileExtent>> {
    let offset = from.max(piece.offset);
    let len_bytes = piece.end().saturating_sub(offset);
    if len_bytes == 0 {
        return Ok(None);
    }
    volume.check(piece.run, piece.place)?;
    let skipped = offset.saturating_sub(piece.offset);
    Ok(Some(FileExtent {
        offset,
        len_bytes,
        kind: FileExtentKind::Stored {
            device_offset: piece.run.start_bytes.saturating_add(skipped),
        },
    }))
}
