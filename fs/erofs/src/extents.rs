//! The extents of a file.

use diskfs_vfs::{FileExtent, FileExtentKind};

use crate::error::{Result, corrupt};
use crate::inode::Inode;
use crate::map::map;
use crate::mapped::{Mapped, Source};
use crate::volume::Volume;

/// The extents of a file: ranges of one kind. The iterator ends after the first error.
#[derive(Debug)]
pub(crate) struct Extents<'a> {
    volume: &'a Volume,
    inode: Inode,
    offset: u64,
    pending: Option<FileExtent>,
}

impl<'a> Extents<'a> {
    pub(crate) fn new(volume: &'a Volume, inode: Inode, offset: u64) -> Result<Self> {
        inode.check_file()?;
        Ok(Self {
            volume,
            inode,
            offset,
            pending: None,
        })
    }

    fn piece(&mut self) -> Result<Option<FileExtent>> {
        let offset = self.offset;
        if offset >= self.inode.size_bytes {
            return Ok(None);
        }
        let mapped = map(self.volume, &self.inode, offset)?;
        let end = mapped.end().min(self.inode.size_bytes);
        if end <= offset {
            let reason = "invalid extent: it is empty";
            return Err(corrupt(reason, self.inode.body().at));
        }
        self.offset = end;
        Ok(Some(FileExtent {
            offset,
            len_bytes: end.saturating_sub(offset),
            kind: self.kind(&mapped, offset),
        }))
    }

    fn kind(&self, mapped: &Mapped, offset: u64) -> FileExtentKind {
        match mapped.source {
            Source::Hole => FileExtentKind::Hole,
            Source::Stored { device: 0, at } if self.volume.devices.is_single() => {
                let skip = offset.saturating_sub(mapped.start);
                FileExtentKind::Stored {
                    device_offset: at.saturating_add(skip),
                }
            }
            _ => FileExtentKind::Inline,
        }
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
            self.offset = u64::MAX;
            self.pending = None;
        }
        extent.transpose()
    }
}
