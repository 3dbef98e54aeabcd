//! How much of the fast commit area is valid.

use std::ops::Range;

use diskfs_vfs::Result;

use crate::bytes::len_u64;
use crate::checksum::crc32c;

use super::super::block_header::Sequence;
use super::super::error::unsupported;
use super::super::log::{LogBlock, LogReader};
use super::tag::{TAIL_COVERED_BYTES, Tag, Tags};

/// How many bytes of tags are replayed. The area has 256 blocks unless `mke2fs` is told otherwise,
/// and Linux makes a full commit long before it holds so much. It bounds what the edits take in
/// memory, which is some ten times as much.
const USED_BYTES_MAX: u64 = 4 << 20;

/// The area: which blocks of the journal, and what to expect there.
#[derive(Debug, Clone)]
pub(super) struct Area {
    pub(super) blocks: Range<u32>,
    pub(super) inode_size: u16,
    /// The transaction that the fast commits are a part of: the one after the last full commit.
    pub(super) tid: Sequence,
}

/// How many tags there are up to the last valid tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValidTags {
    pub(super) count: usize,
    /// Fast commits, each of which ends with a tail.
    pub(super) commits: u32,
}

/// Whether the scan goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    GoOn,
    End,
}

#[derive(Debug)]
struct Scan {
    tid: Sequence,
    seen: usize,
    crc: u32,
    valid: ValidTags,
}

/// Goes through the area up to the first thing that is not valid. What comes before it, up to the
/// last tail, counts: each fast commit is whole, or never was.
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
        if step == Step::End {
            break;
        }
        used_bytes = len_u64(bytes.len()).saturating_add(used_bytes);
        if used_bytes > USED_BYTES_MAX {
            return Err(unsupported(format_args!(
                "its fast commits are longer than the {USED_BYTES_MAX} bytes that are replayed"
            )));
        }
    }
    Ok(scan.valid)
}

impl Scan {
    fn block(&mut self, bytes: &[u8], inode_size: u16) -> Result<Step> {
        let mut tags = Tags::new(bytes, inode_size);
        while let Some((start, tag)) = tags.next() {
            if self.tag(&tag, tags.bytes_from(start))? == Step::End {
                return Ok(Step::End);
            }
        }
        Ok(if tags.is_done() {
            Step::GoOn
        } else {
            Step::End
        })
    }

    fn tag(&mut self, tag: &Tag<'_>, bytes: &[u8]) -> Result<Step> {
        if self.seen == 0 && !matches!(tag, Tag::Head { .. }) {
            return Ok(Step::End);
        }
        self.seen = self.seen.saturating_add(1);
        match *tag {
            Tag::Head { features, .. } if features != 0 => Err(unsupported(format_args!(
                "its fast commits have features that this driver lacks: {features:#x}"
            ))),
            Tag::Head { tid, .. } if tid != self.tid => Ok(Step::End),
            Tag::Tail { tid, crc } => Ok(self.tail(tid, crc, bytes)),
            _ => {
                self.crc = crc32c(self.crc, bytes);
                Ok(Step::GoOn)
            }
        }
    }

    fn tail(&mut self, tid: Sequence, stored: u32, bytes: &[u8]) -> Step {
        let covered = bytes.get(..TAIL_COVERED_BYTES).unwrap_or_default();
        let crc = crc32c(self.crc, covered);
        if tid != self.tid || stored != crc {
            return Step::End;
        }
        self.crc = 0;
        self.valid.count = self.seen;
        self.valid.commits = self.valid.commits.saturating_add(1);
        Step::GoOn
    }
}
