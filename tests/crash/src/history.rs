//! The states of a filesystem, one after each operation, with the parts that were made durable.
//!
//! State `k` is the one after the first `k` operations. Only changes are stored.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use diskfs_vfs::{Fallocate, InodeNumber, SyncFile};

use crate::node::Node;
use crate::operation::Operation;

/// A file from a state on; `None` if no file has the number from then on.
type Version = (usize, Option<Arc<Node>>);

/// The operations of a run, with the states that they lead to.
#[derive(Debug, Default)]
pub struct History {
    versions: HashMap<InodeNumber, Vec<Version>>,
    /// The files that each operation changed.
    changed: Vec<Vec<InodeNumber>>,
    /// The numbers of device events when each operation started and ended.
    events: Vec<Range<usize>>,
    durable: Vec<Durable>,
    cuts: HashMap<InodeNumber, Vec<Cut>>,
    /// The operations that a crash can interrupt halfway, with their file.
    in_steps: HashMap<usize, InodeNumber>,
    moves: HashMap<InodeNumber, Vec<Move>>,
    /// The states after an operation on a file's contents, whether it succeeded or failed: each
    /// step of such an operation sets the times.
    timed_in_steps: HashMap<usize, InodeNumber>,
}

/// The guarantee of a completed sync.
#[derive(Debug, Clone, Copy)]
struct Durable {
    /// The number of device events when the sync returned.
    end: usize,
    /// The earliest state that a crash can lead to.
    state: usize,
    /// The file whose contents are at least those of `contents`; `None` for all files.
    file: Option<InodeNumber>,
    contents: usize,
    /// True if the times are durable, too.
    times: bool,
}

/// The earliest states that a file can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarliestStates {
    /// The earliest state of its contents and size.
    pub contents: usize,
    /// The earliest state of its times.
    pub times: usize,
}

/// The removal of bytes. Once it is visible, no earlier bytes of the range may be.
#[derive(Debug, Clone)]
struct Cut {
    state: usize,
    bytes: Range<u64>,
}

/// The removal or insertion of a range in a file, which moved the bytes after it.
#[derive(Debug, Clone)]
struct Move {
    state: usize,
    range: Range<u64>,
    what: Fallocate,
}

impl Move {
    /// Returns the new offset of the byte that was at `offset`; `None` if it was removed.
    fn place_after(&self, offset: u64) -> Option<u64> {
        let len_bytes = self.range.end - self.range.start;
        if offset < self.range.start {
            return Some(offset);
        }
        match self.what {
            Fallocate::InsertRange => Some(offset + len_bytes),
            _ if offset < self.range.end => None,
            _ => Some(offset - len_bytes),
        }
    }
}

/// The states that a crash can lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The number of events that the device had seen.
    pub events: usize,
    /// The earliest state.
    pub low: usize,
    /// The latest state: the one after the operation that was running.
    pub high: usize,
}

impl History {
    /// Sets the state before the first operation.
    pub fn begin(&mut self, nodes: impl IntoIterator<Item = Node>) {
        for node in nodes {
            let version = (0, Some(Arc::new(node.clone())));
            self.versions.insert(node.inode, vec![version]);
        }
    }

    /// Returns the number of operations.
    pub fn operations(&self) -> usize {
        self.changed.len()
    }

    /// Returns the current version of a file.
    pub fn latest(&self, inode: InodeNumber) -> Option<&Arc<Node>> {
        self.at(inode, usize::MAX)
    }

    /// Returns the version of a file in a state.
    pub fn at(&self, inode: InodeNumber, state: usize) -> Option<&Arc<Node>> {
        let versions = self.versions.get(&inode)?;
        let at = versions.partition_point(|(from, _)| *from <= state);
        versions.get(at.checked_sub(1)?)?.1.as_ref()
    }

    /// Returns the versions of the file that existed in `state`, from the one in state `low` to
    /// that in state `high`, limited to the time in which it existed.
    pub fn versions(
        &self,
        inode: InodeNumber,
        state: usize,
        low: usize,
        high: usize,
    ) -> Vec<(usize, &Arc<Node>)> {
        let Some(all) = self.versions.get(&inode) else {
            return Vec::new();
        };
        // One file with this number: between two states in which no file has it.
        let here = all.partition_point(|(from, _)| *from <= state);
        let birth = all[..here]
            .iter()
            .rposition(|(_, node)| node.is_none())
            .map_or(0, |at| at + 1);
        let death = all[here..].iter().position(|(_, node)| node.is_none());
        let life = &all[birth..death.map_or(all.len(), |at| here + at)];
        let first = life.partition_point(|(from, _)| *from <= low).max(1) - 1;
        life.iter()
            .skip(first)
            .take_while(|(from, _)| *from <= high)
            .filter_map(|(from, node)| Some((*from, node.as_ref()?)))
            .collect()
    }

    /// Returns the files that an operation changed.
    pub fn changed_by(&self, operation: usize) -> &[InodeNumber] {
        self.changed.get(operation).map_or(&[], Vec::as_slice)
    }

    /// Returns the state, up to `state`, at which the last bytes at `offset` were removed.
    pub fn last_cut(&self, inode: InodeNumber, offset: u64, state: usize) -> usize {
        let cuts = self.cuts.get(&inode).into_iter().flatten();
        let before = cuts.filter(|cut| cut.state <= state && cut.bytes.contains(&offset));
        before.map(|cut| cut.state).max().unwrap_or(0)
    }

    /// Splits a range into pieces within which [`last_cut`](Self::last_cut) has the same result.
    pub fn pieces(&self, inode: InodeNumber, bytes: &Range<u64>) -> Vec<Range<u64>> {
        let cuts = self.cuts.get(&inode).into_iter().flatten();
        let bounds = cuts.flat_map(|cut| [cut.bytes.start, cut.bytes.end]);
        let inside = bounds.filter(|at| bytes.contains(at));
        let starts: BTreeSet<_> = inside.chain([bytes.start]).collect();
        let ends = starts.iter().skip(1).copied().chain([bytes.end]);
        let pieces = starts.iter().copied().zip(ends);
        pieces.map(|(start, end)| start..end).collect()
    }

    /// Returns the offset in the later state `to` of the byte that is at `offset` in state `from`.
    pub fn place_in(&self, inode: InodeNumber, offset: u64, from: usize, to: usize) -> Option<u64> {
        let moves = self.moves.get(&inode).into_iter().flatten();
        moves
            .filter(|moved| from < moved.state && moved.state <= to)
            .try_fold(offset, |offset, moved| moved.place_after(offset))
    }

    /// Returns true if a crash during the operation can leave this file's contents half changed.
    pub fn is_in_steps(&self, operation: usize, inode: InodeNumber) -> bool {
        self.in_steps.get(&operation) == Some(&inode)
    }

    /// Returns true if the operation that led to the state set this file's times in several steps.
    pub fn is_timed_in_steps(&self, state: usize, inode: InodeNumber) -> bool {
        self.timed_in_steps.get(&state) == Some(&inode)
    }

    /// Records an operation, with the new versions of the files that it changed.
    pub fn push(
        &mut self,
        events: Range<usize>,
        nodes: impl IntoIterator<Item = (InodeNumber, Option<Node>)>,
    ) {
        let state = self.changed.len() + 1;
        let mut changed = Vec::new();
        for (inode, node) in nodes {
            if self.latest(inode).map(|node| &**node) == node.as_ref() {
                continue;
            }
            let versions = self.versions.entry(inode).or_default();
            if versions.is_empty() {
                versions.push((0, None));
            }
            versions.push((state, node.map(Arc::new)));
            changed.push(inode);
        }
        self.changed.push(changed);
        self.events.push(events);
    }

    /// Records that the last operation changed this file's contents, or started to.
    pub fn note_times(&mut self, inode: InodeNumber) {
        self.timed_in_steps.insert(self.operations(), inode);
    }

    /// Records the bytes that the last operation removed, and whether a crash can leave it half
    /// done.
    pub fn note_contents(&mut self, inode: InodeNumber, operation: &Operation, size_before: u64) {
        let state = self.changed.len();
        let bytes = match operation {
            Operation::SetLen { size_bytes, .. } if *size_bytes < size_before => {
                *size_bytes..u64::MAX
            }
            Operation::Fallocate {
                offset,
                len_bytes,
                what,
                ..
            } => match what {
                Fallocate::Allocate | Fallocate::AllocateKeepSize => return,
                Fallocate::CollapseRange | Fallocate::InsertRange => {
                    self.in_steps.insert(state - 1, inode);
                    self.moves.entry(inode).or_default().push(Move {
                        state,
                        range: *offset..offset + len_bytes,
                        what: *what,
                    });
                    *offset..u64::MAX
                }
                _ => *offset..offset + len_bytes,
            },
            _ => return,
        };
        self.cuts
            .entry(inode)
            .or_default()
            .push(Cut { state, bytes });
    }

    /// Records that the last operation made everything durable.
    pub fn note_sync(&mut self) {
        self.note_durable(self.operations(), None, true);
    }

    /// Records that the last operation made one file durable.
    pub fn note_sync_file(&mut self, inode: InodeNumber, what: SyncFile) {
        let versions = self.versions.get(&inode).map_or(&[][..], Vec::as_slice);
        let of = |pair: &[Version]| pair[1].0;
        // Overwritten contents of the same length can be on the disk without a commit. Then only
        // they are durable, and no earlier change.
        let is_data = |pair: &&[Version]| match (&pair[0].1, &pair[1].1) {
            (Some(a), Some(b)) => match (a.contents(), b.contents()) {
                (Some(a), Some(b)) => a.size_bytes != b.size_bytes,
                _ => a.body != b.body,
            },
            _ => true,
        };
        let mut changes = versions.windows(2);
        let state = match what {
            SyncFile::All => changes.next_back().map_or(0, of),
            SyncFile::Data => changes.rfind(is_data).map_or(0, of),
        };
        self.note_durable(state, Some(inode), what == SyncFile::All);
    }

    fn note_durable(&mut self, state: usize, file: Option<InodeNumber>, times: bool) {
        self.durable.push(Durable {
            end: self.events.last().map_or(0, |events| events.end),
            state,
            file,
            contents: self.operations(),
            times,
        });
    }

    /// Returns the states that a crash after this number of device events can lead to.
    pub fn window(&self, events: usize) -> Window {
        let done = self.durable.iter().filter(|sync| sync.end <= events);
        let low = done.map(|sync| sync.state).max().unwrap_or(0);
        let begun = self.events.partition_point(|range| range.start < events);
        Window {
            events,
            low,
            // A sync that finds everything durable sends nothing to the device. The operations
            // before it changed nothing either, so its state is visible, too.
            high: begun.max(low),
        }
    }

    /// Returns the earliest states that a file can have after a crash.
    pub fn earliest_states(&self, window: Window, inode: InodeNumber) -> EarliestStates {
        let about = |sync: &&Durable| {
            sync.end <= window.events && sync.file.is_none_or(|file| file == inode)
        };
        let syncs = || self.durable.iter().filter(about);
        let last = |states: &mut dyn Iterator<Item = usize>| states.max().unwrap_or(0);
        EarliestStates {
            contents: last(&mut syncs().map(|sync| sync.contents)),
            times: last(&mut syncs().filter(|sync| sync.times).map(|sync| sync.contents)),
        }
    }
}
