//! An opened image of a chain.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Extent, ExtentKind, Result, check_bounds};

use crate::layer::{Layer, Status, read_only};
use crate::mapped::Mapped;
use crate::numbers::to_u64;
use crate::qcow2::{Fill, Qcow2};
use crate::raw::{Raw, RawWriter};

/// An image with all its backing files.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one per image of a chain, always behind an Arc"
)]
pub(crate) enum Node {
    Raw(Raw),
    /// A qcow2 image with its backing file.
    Qcow2(Qcow2, Option<Arc<Node>>),
    /// An image of a format that is only read, with its parent.
    Mapped(Mapped, Option<Arc<Node>>),
}

impl Layer for Node {
    fn status_at(&self, offset: u64, max_len: u64) -> Result<Status> {
        match self {
            Self::Raw(raw) => raw.status_at(offset, max_len),
            Self::Qcow2(qcow2, _) => qcow2.status_at(offset, max_len),
            Self::Mapped(mapped, _) => mapped.status_at(offset, max_len),
        }
    }
}

/// The largest number of runs to merge into one result of `extent_at`, which bounds its cost in an
/// image of many small runs. Callers that want more call it again.
const MERGE_MAX: u32 = 64;

impl BlockRead for Node {
    fn size_bytes(&self) -> u64 {
        match self {
            Self::Raw(raw) => raw.size_bytes(),
            Self::Qcow2(qcow2, _) => qcow2.size_bytes(),
            Self::Mapped(mapped, _) => mapped.size_bytes(),
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, to_u64(buf.len()), self.size_bytes())?;
        match self {
            Self::Raw(raw) => raw.read_at(offset, buf),
            Self::Qcow2(qcow2, _) => qcow2.read_at(offset, buf),
            Self::Mapped(mapped, _) => mapped.read_at(offset, buf),
        }
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        self.merged(offset, Status::kind)
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        self.merged(offset, Status::kind_in_top)
    }

    fn block_size(&self) -> u32 {
        match self {
            Self::Raw(raw) => raw.block_size(),
            Self::Qcow2(qcow2, _) => qcow2.block_size(),
            Self::Mapped(mapped, _) => mapped.block_size(),
        }
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        let len_bytes = len_bytes.min(self.size_bytes().saturating_sub(offset));
        if len_bytes == 0 {
            return;
        }
        match self {
            Self::Raw(raw) => raw.will_need(offset, len_bytes),
            Self::Qcow2(qcow2, _) => qcow2.will_need(offset, len_bytes),
            Self::Mapped(mapped, _) => mapped.will_need(offset, len_bytes),
        }
    }
}

/// The writing half of a node. A node that was opened read-only returns [`ReadOnly`].
///
/// [`ReadOnly`]: diskfs_block::ErrorKind::ReadOnly
impl BlockWrite for Node {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        check_bounds(offset, to_u64(buf.len()), self.size_bytes())?;
        match self {
            Self::Raw(raw) => raw.writer()?.write_at(offset, buf),
            Self::Qcow2(qcow2, _) => qcow2.write_at(offset, buf),
            Self::Mapped(..) => Err(read_only()),
        }
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        check_bounds(offset, len_bytes, self.size_bytes())?;
        match self {
            Self::Raw(raw) => raw.writer()?.write_zeroes(offset, len_bytes),
            Self::Qcow2(qcow2, _) => qcow2.write_zeroes(offset, len_bytes),
            Self::Mapped(..) => Err(read_only()),
        }
    }

    fn unmap(&self, offset: u64, len_bytes: u64) -> Result<()> {
        check_bounds(offset, len_bytes, self.size_bytes())?;
        match self {
            Self::Raw(raw) => raw.writer()?.unmap(offset, len_bytes),
            Self::Qcow2(qcow2, _) => qcow2.unmap(offset, len_bytes),
            Self::Mapped(..) => Err(read_only()),
        }
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        check_bounds(offset, len_bytes, self.size_bytes())?;
        match self {
            Self::Raw(raw) => raw.writer()?.discard(offset, len_bytes),
            Self::Qcow2(qcow2, _) => qcow2.discard(offset, len_bytes),
            Self::Mapped(..) => Err(read_only()),
        }
    }

    fn flush(&self) -> Result<()> {
        match self {
            Self::Raw(raw) => raw.writer.as_ref().map_or(Ok(()), RawWriter::flush),
            Self::Qcow2(qcow2, _) => qcow2.flush(),
            Self::Mapped(..) => Ok(()),
        }
    }
}

impl Node {
    /// Returns the run that begins at `offset`, merged from runs of the same kind.
    fn merged(&self, offset: u64, kind_of: impl Fn(&Status) -> ExtentKind) -> Result<Extent> {
        check_bounds(offset, 1, self.size_bytes())?;
        let end = self.size_bytes();
        let first = self.status_at(offset, end.saturating_sub(offset))?;
        let kind = kind_of(&first);
        let mut at = offset.saturating_add(first.len_bytes);
        for _ in 0..MERGE_MAX {
            if at >= end {
                break;
            }
            let next = self.status_at(at, end.saturating_sub(at))?;
            if kind_of(&next) != kind {
                break;
            }
            at = at.saturating_add(next.len_bytes);
        }
        Ok(Extent {
            len_bytes: at.saturating_sub(offset),
            kind,
        })
    }

    /// Changes the size of the disk, and ends writing.
    pub(crate) fn resize(self, size_bytes: u64, fill: Fill) -> Result<()> {
        match self {
            Self::Raw(raw) => {
                let writer = raw.writer.ok_or_else(read_only)?;
                writer.resize(size_bytes, fill)
            }
            Self::Qcow2(qcow2, _) => qcow2.resize(size_bytes, fill),
            Self::Mapped(..) => Err(read_only()),
        }
    }

    /// Ends writing, with everything durable.
    pub(crate) fn close(&self) -> Result<()> {
        match self {
            Self::Raw(_) => self.flush(),
            Self::Qcow2(qcow2, _) => qcow2.close(),
            Self::Mapped(..) => Ok(()),
        }
    }
}
