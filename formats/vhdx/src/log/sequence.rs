//! The active sequence of the log: MS-VHDX 2.3.2 and 2.3.3.

use diskfs_block::{Error, Result};

use crate::log::entry::Entry;
use crate::log::entry_header::EntryHeader;
use crate::log::ring::Ring;

/// The number of sectors to checksum, as a multiple of those in the log. Entries of a log that was
/// written by a program hardly overlap; in a malicious one, each sector could begin an entry of the
/// log's length.
const CHECKS_MAX: usize = 8;

/// The largest file that a log can make. It bounds the zeroes of descriptors: 64 TiB of disk, and
/// room for tables.
const FILE_MAX_BYTES: u64 = 128 << 40;

/// The entries to replay, in order; never empty.
#[derive(Debug)]
pub(crate) struct Sequence {
    entries: Vec<Entry>,
    head: Entry,
}

/// The knowledge about a sector of the log.
#[derive(Clone, Copy)]
enum Start {
    /// Not looked at yet.
    Unknown,
    /// A valid entry begins there, or none.
    Known(Option<Entry>),
}

/// The entries of the log that were looked at.
struct Known<'a> {
    ring: &'a Ring,
    /// For each sector, the entry that begins there.
    entries: Vec<Start>,
    sectors_left: usize,
}

impl Known<'_> {
    /// Returns the valid entry that begins at a sector.
    fn at(&mut self, sector: usize) -> Result<Option<Entry>> {
        if let Some(Start::Known(known)) = self.entries.get(sector) {
            return Ok(*known);
        }
        let entry = match EntryHeader::parse(self.ring, sector) {
            None => None,
            Some(header) => {
                let left = self.sectors_left.checked_sub(header.sectors);
                self.sectors_left = left.ok_or_else(|| {
                    Error::corrupt("entries of the log overlap").at(self.ring.place(sector))
                })?;
                Entry::check(self.ring, sector, header)
            }
        };
        if let Some(known) = self.entries.get_mut(sector) {
            *known = Start::Known(entry);
        }
        Ok(entry)
    }

    /// Returns the longest run of entries from a sector on, each with the number after the one
    /// before. It never goes around the ring more than once.
    fn run_from(&mut self, start: usize) -> Result<Vec<Entry>> {
        let mut run: Vec<Entry> = Vec::new();
        let mut at = start;
        let mut sectors = 0_usize;
        while let Some(entry) = self.at(at)? {
            sectors = sectors.saturating_add(entry.sectors);
            let continues = run.last().is_none_or(|last| {
                last.sequence_number.checked_add(1) == Some(entry.sequence_number)
            });
            if !continues || sectors > self.ring.sectors() {
                break;
            }
            run.push(entry);
            let next = at.saturating_add(entry.sectors);
            at = next.checked_rem(self.ring.sectors()).unwrap_or(0);
        }
        Ok(run)
    }
}

impl Sequence {
    /// Finds the valid sequence with the highest number; `None` if there is none.
    pub(crate) fn find(ring: &Ring) -> Result<Option<Self>> {
        let sectors = ring.sectors();
        let mut known = Known {
            ring,
            entries: vec![Start::Unknown; sectors],
            sectors_left: sectors.saturating_mul(CHECKS_MAX),
        };
        let mut best: Option<Self> = None;
        let mut tail = 0;
        while tail < sectors {
            let run = known.run_from(tail)?;
            let length: usize = run.iter().map(|entry| entry.sectors).sum();
            tail = match Self::from_run(run) {
                Some(sequence) => {
                    let is_newer = best.as_ref().is_none_or(|best| {
                        sequence.head.sequence_number > best.head.sequence_number
                    });
                    if is_newer {
                        best = Some(sequence);
                    }
                    tail.saturating_add(length)
                }
                None => tail.saturating_add(1),
            };
        }
        Ok(best)
    }

    /// Returns the sequence from the tail of the last entry on, if the run contains it.
    fn from_run(mut run: Vec<Entry>) -> Option<Self> {
        let head = *run.last()?;
        let tail = run.iter().position(|entry| entry.start == head.tail)?;
        Some(Self {
            entries: run.split_off(tail),
            head,
        })
    }

    pub(crate) const fn head(&self) -> &Entry {
        &self.head
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the size that the file must have after the replay.
    pub(crate) fn end_bytes(&self, ring: &Ring) -> Result<u64> {
        let ends = self.entries.iter().map(|entry| entry.end_bytes(ring));
        let end = ends.max().unwrap_or(0).max(self.head.last_bytes);
        if end > FILE_MAX_BYTES {
            let reason = format!("log would make the file {end} bytes long");
            return Err(Error::corrupt(reason).at(ring.place(self.head.start)));
        }
        Ok(end)
    }
}
