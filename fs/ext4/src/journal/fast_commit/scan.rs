//! The scan for the valid part of the fast commit area.

use std::ops::Range;

use diskfs_vfs::Result;

use crate::bytes::len_u64;
use crate::checksum::crc32c;

use super::super::block_header::Sequence;
use super::super::error::unsupported;
use super::super::log::{LogBlock, LogReader};
use super::tag::{TAIL_COVERED_BYTES, Tag, Tags};

/// The maximum number of bytes of tags that are replayed. The area has 256 blocks by default, and
/// Linux makes a full commit long before it contains so much. This bounds the memory for the edits,
/// which is some ten times as much.
const USED_BYTES_MAX: u64 = 4 << 20;

/// The area: its blocks of the journal, and the expected contents.
#[derive(Debug, Clone)]
pub(super) struct Area {
    pub(super) blocks: Range<u32>,
    pub(super) inode_size: u16,
    /// The transaction that the fast commits belong to: the one after the last full commit.
    pub(super) tid: Sequence,
}

/// The number of tags up to the last valid tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValidTags {
    pub(super) count: usize,
    /// The number of fast commits, each of which ends with a tail.
    pub(super) commits: u32,
}

/// The result of a step: whether the scan continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanStep {
    Continue,
    End,
}

#[derive(Debug)]
struct Scan {
    tid: Sequence,
    seen: usize,
    crc: u32,
    valid: ValidTags,
}

/// Scans the area up to the first invalid tag. Only the tags up to the last tail before it count:
/// each fast commit is either complete or was never made.
pub(super) fn scan(area: &Area, reader: &mut LogReader<'_>) -> Result<ValidTags> {
    let mut scan = Scan {
        tid: area.tid,
        seen: 0,
        crc: 0,
        valid: ValidTags {
            count: 0,
            commits: 0,
        },
    };
    let mut used_bytes = 0;
    for block in area.blocks.clone() {
        let bytes = reader.block(LogBlock(block))?;
        let step = scan.block(bytes, area.inode_size)?;
        if step == ScanStep::End {
            break;
        }
        used_bytes = len_u64(bytes.len()).saturating_add(used_bytes);
        if used_bytes > USED_BYTES_MAX {
            return Err(unsupported(format_args!(
                "its fast commits are too large: at most {USED_BYTES_MAX} bytes are replayed"
            )));
        }
    }
    Ok(scan.valid)
}

impl Scan {
    fn block(&mut self, bytes: &[u8], inode_size: u16) -> Result<ScanStep> {
        let mut tags = Tags::new(bytes, inode_size);
        while let Some((start, tag)) = tags.next() {
            if self.tag(&tag, tags.bytes_from(start))? == ScanStep::End {
                return Ok(ScanStep::End);
            }
        }
        Ok(if tags.is_done() {
            ScanStep::Continue
        } else {
            ScanStep::End
        })
    }

    fn tag(&mut self, tag: &Tag<'_>, bytes: &[u8]) -> Result<ScanStep> {
        if self.seen == 0 && !matches!(tag, Tag::Head { .. }) {
            return Ok(ScanStep::End);
        }
        self.seen = self.seen.saturating_add(1);
        match *tag {
            Tag::Head { features, .. } if features != 0 => Err(unsupported(format_args!(
                "its fast commits have unsupported features: {features:#x}"
            ))),
            Tag::Head { tid, .. } if tid != self.tid => Ok(ScanStep::End),
            Tag::Tail { tid, crc } => Ok(self.tail(tid, crc, bytes)),
            _ => {
                self.crc = crc32c(self.crc, bytes);
                Ok(ScanStep::Continue)
            }
        }
    }

    fn tail(&mut self, tid: Sequence, stored: u32, bytes: &[u8]) -> ScanStep {
        let covered = bytes.get(..TAIL_COVERED_BYTES).unwrap_or_default();
        let crc = crc32c(self.crc, covered);
        if tid != self.tid || stored != crc {
            return ScanStep::End;
        }
        self.crc = 0;
        self.valid.count = self.seen;
        self.valid.commits = self.valid.commits.saturating_add(1);
        ScanStep::Continue
    }
}
