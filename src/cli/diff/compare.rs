//! Comparison of two files.

use std::cell::RefCell;
use std::io::{Read, Seek, SeekFrom};

use diskfs::vfs::{FileExtentKind, FileType};
use diskfs::{File, Node, Result, SortedEntry};

use super::pairs::Pair;
use super::side::Side;

/// The number of bytes per read of each side: both sides together use as much memory as a copy.
const PIECE_BYTES: usize = 512 << 10;

/// A difference between two files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Aspect {
    Type,
    Mode,
    Owner,
    Size,
    Content,
    Xattrs,
    /// The targets of symlinks, the old one first.
    Target(Vec<u8>, Vec<u8>),
    Device,
    Modified,
}

/// The result of comparing a pair.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) pair: Pair,
    /// The differences of a file that exists on both sides.
    pub(super) aspects: Vec<Aspect>,
    /// The number of bytes of contents that were read on both sides.
    pub(super) read_bytes: u64,
}

impl Outcome {
    pub(super) fn is_difference(&self) -> bool {
        !matches!(self.pair, Pair::Both(_)) || !self.aspects.is_empty()
    }
}

/// The two sides of a comparison, and its options.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparison<'a> {
    pub(super) from: &'a Side,
    pub(super) to: &'a Side,
    pub(super) times: bool,
    pub(super) trust_times: bool,
}

impl Comparison<'_> {
    pub(super) fn outcome(&self, pair: Pair) -> Result<Outcome> {
        let (mut aspects, mut read_bytes) = (Vec::new(), 0);
        if let Pair::Both(both) = &pair {
            aspects = self.aspects(&both.from, &both.to, &mut read_bytes)?;
        }
        Ok(Outcome {
            pair,
            aspects,
            read_bytes,
        })
    }

    fn aspects(
        &self,
        from: &SortedEntry,
        to: &SortedEntry,
        read_bytes: &mut u64,
    ) -> Result<Vec<Aspect>> {
        let (a, b) = (&from.metadata, &to.metadata);
        if a.file_type != b.file_type {
            return Ok(vec![Aspect::Type]);
        }
        let mut aspects = Vec::new();
        let mut note = |differs: bool, aspect| {
            if differs {
                aspects.push(aspect);
            }
        };
        note(a.permissions != b.permissions, Aspect::Mode);
        note((a.uid, a.gid) != (b.uid, b.gid), Aspect::Owner);
        if a.file_type == FileType::Regular {
            let resized = a.size_bytes != b.size_bytes;
            note(resized, Aspect::Size);
            let trusted = self.trust_times && a.modified == b.modified;
            let rewritten = resized || !trusted && !self.has_same_contents(from, to, read_bytes)?;
            note(rewritten, Aspect::Content);
        }
        let (from, to) = (self.from.node(from), self.to.node(to));
        note(from.xattrs()? != to.xattrs()?, Aspect::Xattrs);
        if a.file_type == FileType::Symlink {
            let (old, new) = (from.read_link()?, to.read_link()?);
            note(old != new, Aspect::Target(old, new));
        }
        note(a.device != b.device, Aspect::Device);
        note(self.times && a.modified != b.modified, Aspect::Modified);
        Ok(aspects)
    }

    /// Returns true if two files of the same size have the same contents. Reads them only if
    /// nothing else proves it.
    fn has_same_contents(
        &self,
        from: &SortedEntry,
        to: &SortedEntry,
        read_bytes: &mut u64,
    ) -> Result<bool> {
        let size_bytes = from.metadata.size_bytes;
        let (a, b) = (self.from.node(from), self.to.node(to));
        if size_bytes == 0 || self.from.shares(&a, self.to, &b, size_bytes) {
            return Ok(true);
        }
        let mut a = a.open_with(&from.metadata)?;
        let mut b = b.open_with(&to.metadata)?;
        let mut at = 0;
        while at < size_bytes {
            let hole_end = hole_end(a.node(), at).min(hole_end(b.node(), at));
            if hole_end > at {
                at = hole_end;
                continue;
            }
            let len = piece_len(size_bytes - at);
            let is_same = with_buffers(len, |buf, other| {
                read(&mut a, at, buf)?;
                read(&mut b, at, other)?;
                Ok(buf == other)
            })?;
            *read_bytes = read_bytes.saturating_add(2 * len as u64);
            if !is_same {
                return Ok(false);
            }
            at = at.saturating_add(len as u64);
        }
        Ok(true)
    }
}

fn piece_len(left: u64) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES)
}

/// Returns the end of the hole at `at`, or `at` itself if there is no hole or the filesystem cannot
/// tell.
fn hole_end(node: &Node, at: u64) -> u64 {
    let runs = node.extents(at);
    match runs.ok().and_then(|mut runs| runs.next()) {
        Some(Ok(run)) if run.kind == FileExtentKind::Hole && run.offset == at => {
            at.saturating_add(run.len_bytes)
        }
        _ => at,
    }
}

/// Calls `work` with two buffers of this length, which each thread allocates once.
fn with_buffers<T>(len: usize, work: impl FnOnce(&mut [u8], &mut [u8]) -> Result<T>) -> Result<T> {
    thread_local! {
        static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> = RefCell::default();
    }
    BUFFERS.with_borrow_mut(|(a, b)| {
        if a.len() < len {
            a.resize(len, 0);
            b.resize(len, 0);
        }
        work(&mut a[..len], &mut b[..len])
    })
}

/// Fills `buf`, with zeroes after the end of a file that is shorter than its metadata says.
fn read(file: &mut File, at: u64, buf: &mut [u8]) -> Result<()> {
    file.seek(SeekFrom::Start(at))?;
    let read = file.read(buf)?;
    buf[read..].fill(0);
    Ok(())
}
