//! The extents of a file.

use std::os::fd::BorrowedFd;

use diskfs_vfs::{FileExtent, FileExtentKind, Result};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::errors::{errno_of, failed};
use crate::kernel_calls::{MAP_EXTENTS, MapExtent, map_extents};

/// The flags of an extent that is not stored as plain bytes in one place: unknown, delayed,
/// encoded, encrypted, not aligned, inline, tail.
const NOT_PLAIN: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;

/// The flag of an extent that is allocated and reads as zeroes.
const UNWRITTEN: u32 = 0x800;

/// The flag of the last extent of a file.
const LAST: u32 = 0x1;

/// The meaning of physical addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Addresses {
    OfDevice,
    /// Addresses of another space, as in btrfs, whose address space spans all its devices.
    Other,
}

/// Returns the extents of a file between two offsets.
pub(super) fn extents(
    fd: BorrowedFd<'_>,
    from: u64,
    size: u64,
    addresses: Addresses,
) -> Result<Vec<FileExtent>> {
    let mut found = ExtentList {
        next: from,
        size,
        extents: Vec::new(),
    };
    loop {
        let mapped = match map_extents(fd, found.next) {
            Ok(mapped) => mapped,
            Err(error) if errno_of(&error) == Errno::OPNOTSUPP => return seek_extents(fd, found),
            Err(error) => return Err(failed(errno_of(&error))),
        };
        let is_last =
            mapped.len() < MAP_EXTENTS || mapped.iter().any(|extent| extent.flags & LAST != 0);
        let before = found.next;
        for extent in &mapped {
            found.add(extent.logical, extent.length, kind(extent, addresses));
        }
        // Without progress the loop would never end.
        if is_last || found.next <= before || found.next >= size {
            return Ok(found.end());
        }
    }
}

fn kind(extent: &MapExtent, addresses: Addresses) -> ExtentKind {
    if extent.flags & UNWRITTEN != 0 {
        ExtentKind::Hole
    } else if extent.flags & NOT_PLAIN != 0 || addresses == Addresses::Other {
        ExtentKind::Inline
    } else {
        ExtentKind::At {
            logical: extent.logical,
            physical: extent.physical,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum ExtentKind {
    Hole,
    Inline,
    At { logical: u64, physical: u64 },
}

/// The extents collected so far, without gaps.
struct ExtentList {
    next: u64,
    size: u64,
    extents: Vec<FileExtent>,
}

impl ExtentList {
    fn add(&mut self, offset: u64, len: u64, kind: ExtentKind) {
        let end = offset.saturating_add(len).min(self.size);
        let begin = offset.max(self.next);
        if begin >= end {
            return;
        }
        self.push(begin, ExtentKind::Hole);
        self.push(end, kind);
    }

    /// Adds an extent from the current position up to `end`.
    fn push(&mut self, end: u64, kind: ExtentKind) {
        let Some(len_bytes) = end.checked_sub(self.next).filter(|&len| len > 0) else {
            return;
        };
        let kind = match kind {
            ExtentKind::Hole => FileExtentKind::Hole,
            ExtentKind::Inline => FileExtentKind::Inline,
            ExtentKind::At { logical, physical } => FileExtentKind::Stored {
                device_offset: physical.saturating_add(self.next.saturating_sub(logical)),
            },
        };
        self.next = end;
        match self.extents.last_mut() {
            // An unwritten extent directly followed by a hole.
            Some(last) if (last.kind, kind) == (FileExtentKind::Hole, FileExtentKind::Hole) => {
                last.len_bytes = last.len_bytes.saturating_add(len_bytes);
            }
            _ => self.extents.push(FileExtent {
                offset: end.saturating_sub(len_bytes),
                len_bytes,
                kind,
            }),
        }
    }

    fn end(mut self) -> Vec<FileExtent> {
        self.push(self.size, ExtentKind::Hole);
        self.extents
    }
}

/// Finds the extents on a filesystem that only distinguishes data from holes.
fn seek_extents(fd: BorrowedFd<'_>, mut found: ExtentList) -> Result<Vec<FileExtent>> {
    while found.next < found.size {
        let data = match seek(fd, SeekFrom::Data(found.next)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(failed(errno)),
        };
        let hole = seek(fd, SeekFrom::Hole(data)).map_err(failed)?;
        if hole <= found.next {
            break;
        }
        found.add(data, hole.saturating_sub(data), ExtentKind::Inline);
    }
    Ok(found.end())
}
