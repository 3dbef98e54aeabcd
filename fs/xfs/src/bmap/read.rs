//! Reads of a fork's blocks: from each extent straight to the caller's buffer.

use std::ops::Range;

use crate::bytes::{index, len_u64};
use crate::error::Result;
use crate::extent::Extent;
use crate::inode::{ForkKind, Inode};
use crate::volume::Volume;

use super::{Extents, extents_from};

/// The number of extents that one announcement covers. Each costs a system call of the device; a
/// reader that is not done with them after so many announces the next ones.
const ANNOUNCED_EXTENTS_MAX: usize = 64;

/// An extent in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) device_offset: u64,
    pub(crate) written: bool,
}

impl Span {
    pub(crate) fn of(volume: &Volume, extent: &Extent) -> Self {
        let superblock = &volume.superblock;
        Self {
            start: superblock.bytes_of(extent.file_block),
            end: superblock.bytes_of(extent.end()),
            // The extent was checked.
            device_offset: superblock.byte_of(extent.first).unwrap_or(u64::MAX),
            written: extent.written,
        }
    }

    /// Returns the part within `range`; `None` if it is empty.
    fn within(self, range: &Range<u64>) -> Option<Self> {
        let start = self.start.max(range.start);
        let end = self.end.min(range.end);
        let skipped = start.saturating_sub(self.start);
        (start < end).then_some(Self {
            start,
            end,
            device_offset: self.device_offset.saturating_add(skipped),
            written: self.written,
        })
    }

    /// Extends the span by `next` if that follows it in the file and on the device.
    fn absorb(&mut self, next: &Self) -> bool {
        let len = self.end.saturating_sub(self.start);
        let follows = self.end == next.start
            && self.written == next.written
            && self.device_offset.saturating_add(len) == next.device_offset;
        if follows {
            self.end = next.end;
        }
        follows
    }
}

/// The spans of a range of a file, each as long as possible; the iterator ends after the first
/// error.
struct Spans<'a> {
    volume: &'a Volume,
    extents: Extents<'a>,
    range: Range<u64>,
    pending: Option<Span>,
}

impl<'a> Spans<'a> {
    fn new(volume: &'a Volume, inode: &'a Inode, kind: ForkKind, range: Range<u64>) -> Self {
        let first = range.start.wrapping_shr(volume.superblock.block_bits);
        Self {
            volume,
            extents: extents_from(volume, inode, kind, first),
            range,
            pending: None,
        }
    }
}

impl Iterator for Spans<'_> {
    type Item = Result<Span>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let span = match self.extents.next() {
                Some(Ok(extent)) => Span::of(self.volume, &extent).within(&self.range),
                Some(Err(e)) => return Some(Err(e)),
                None => None,
            };
            let Some(span) = span else {
                return self.pending.take().map(Ok);
            };
            let Some(pending) = &mut self.pending else {
                self.pending = Some(span);
                continue;
            };
            if !pending.absorb(&span) {
                return self.pending.replace(span).map(Ok);
            }
        }
    }
}

/// Fills `buf` with the bytes of a fork from `offset` on; holes give zeroes.
pub(crate) fn read(
    volume: &Volume,
    inode: &Inode,
    kind: ForkKind,
    offset: u64,
    buf: &mut [u8],
) -> Result<()> {
    let end = offset.saturating_add(len_u64(buf.len()));
    let within = |byte: u64| index(byte.saturating_sub(offset));
    let spans = Spans::new(volume, inode, kind, offset..end);
    announce(volume, spans.extents.listed(), &(offset..end));
    let mut done = 0;
    for span in spans {
        let span = span?;
        fill(buf, done..within(span.start));
        done = within(span.end);
        let part = buf.get_mut(within(span.start)..done).unwrap_or_default();
        if span.written {
            let number = diskfs_vfs::InodeNumber(inode.number);
            let read = volume.read_device(span.device_offset, part);
            read.map_err(|e| e.in_inode(number))?;
        } else {
            part.fill(0);
        }
    }
    let len = buf.len();
    fill(buf, done..len);
    Ok(())
}

/// Fills a part of the buffer with zeroes.
fn fill(buf: &mut [u8], part: Range<usize>) {
    buf.get_mut(part).unwrap_or_default().fill(0);
}

/// Announces all extents of a read to the device before the first one is read, if there are
/// several.
fn announce(volume: &Volume, extents: &[Extent], range: &Range<u64>) {
    let spans = || {
        extents
            .iter()
            .map_while(|extent| Span::of(volume, extent).within(range))
            .take(ANNOUNCED_EXTENTS_MAX)
            .filter(|span| span.written)
    };
    if spans().nth(1).is_none() {
        return;
    }
    for span in spans() {
        announce_span(volume, &span);
    }
}

fn announce_span(volume: &Volume, span: &Span) {
    let len = span.end.saturating_sub(span.start);
    volume.device.will_need(span.device_offset, len);
}

/// Announces that a range of a file will be read soon.
pub(crate) fn will_need(volume: &Volume, inode: &Inode, range: Range<u64>) {
    let spans = Spans::new(volume, inode, ForkKind::Data, range);
    for span in spans.take(ANNOUNCED_EXTENTS_MAX) {
        match span {
            Ok(span) if span.written => announce_span(volume, &span),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
