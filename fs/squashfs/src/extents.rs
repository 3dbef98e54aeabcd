//! The extents of a file.

use diskfs_vfs::{FileExtent, FileExtentKind};

use crate::block_list::FileBlocks;
use crate::data_block::DataBlock;
use crate::error::Result;
use crate::inode::Inode;
use crate::volume::Volume;

/// The extents of a file: runs of blocks of one kind. The iterator ends after the first error.
#[derive(Debug)]
pub(crate) struct Extents<'a> {
    blocks: FileBlocks<'a>,
    block_bytes: u64,
    /// The offset of the next block in the file; where the caller began, for the first.
    offset: u64,
    size_bytes: u64,
    pending: Option<FileExtent>,
}

impl<'a> Extents<'a> {
    pub(crate) fn new(volume: &'a Volume, inode: &Inode, offset: u64) -> Result<Self> {
        let file = inode.file()?;
        let block_bytes = u64::from(volume.superblock.block_bytes);
        let first = offset.checked_div(block_bytes).unwrap_or(0);
        Ok(Self {
            blocks: FileBlocks::new(volume, inode.reference, file, first)?,
            block_bytes,
            offset,
            size_bytes: file.size_bytes,
            pending: None,
        })
    }

    /// Returns the extent of the next block, or of the fragment.
    fn piece(&mut self) -> Result<Option<FileExtent>> {
        if self.offset >= self.size_bytes {
            return Ok(None);
        }
        let offset = self.offset;
        let skip = offset.checked_rem(self.block_bytes).unwrap_or(0);
        let end = offset
            .saturating_sub(skip)
            .saturating_add(self.block_bytes)
            .min(self.size_bytes);
        let kind = match self.blocks.next().transpose()? {
            Some(block) => kind(block, skip),
            None => FileExtentKind::Inline,
        };
        self.offset = end;
        Ok(Some(FileExtent {
            offset,
            len_bytes: end.saturating_sub(offset),
            kind,
        }))
    }

    fn extent(&mut self) -> Result<Option<FileExtent>> {
        while let Some(piece) = self.piece()? {
            match &mut self.pending {
                Some(run) if continues(run, &piece) => {
                    run.len_bytes = run.len_bytes.saturating_add(piece.len_bytes);
                }
                pending => {
                    if let Some(run) = pending.replace(piece) {
                        return Ok(Some(run));
                    }
                }
            }
        }
        Ok(self.pending.take())
    }
}

fn kind(block: DataBlock, skip: u64) -> FileExtentKind {
    if block.size.is_hole() {
        FileExtentKind::Hole
    } else if block.size.is_compressed() {
        FileExtentKind::Inline
    } else {
        FileExtentKind::Stored {
            device_offset: block.start.saturating_add(skip),
        }
    }
}

/// Returns true if two neighbouring pieces are one extent.
fn continues(run: &FileExtent, piece: &FileExtent) -> bool {
    match (run.kind, piece.kind) {
        (
            FileExtentKind::Stored { device_offset },
            FileExtentKind::Stored {
                device_offset: next,
            },
        ) => device_offset.checked_add(run.len_bytes) == Some(next),
        (one, other) => one == other,
    }
}

impl Iterator for Extents<'_> {
    type Item = Result<FileExtent>;

    fn next(&mut self) -> Option<Self::Item> {
        let extent = self.extent();
        if extent.is_err() {
            self.offset = self.size_bytes;
            self.pending = None;
        }
        extent.transpose()
    }
}
