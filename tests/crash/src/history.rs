//! Every state that a filesystem had, one after each operation, and what of it was made durable.
//!
//! State `k` is the one after the first `k` operations. Only what changed is kept.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use diskfs_vfs::{Fallocate, InodeNumber, SyncFile};

use crate::node::Node;
use crate::operation::Operation;

/// A file as it was from one state on; `None` where there was none of that number.
type Version = (usize, Option<Arc<Node>>);

/// What was done, state by state.
#[derive(Debug, Default)]
pub struct History {
    versions: HashMap<InodeNumber, Vec<Version>>,
    /// The files that each operation changed.
    changed: Vec<Vec<InodeNumber>>,
    /// How many events the device had seen when each operation began and ended.
    events: Vec<Range<usize>>,
    durable: Vec<Durable>,
    cuts: HashMap<InodeNumber, Vec<Cut>>,
    /// Operations that a crash may leave half done, with the file that they are about.
    in_steps: HashMap<usize, InodeNumber>,
    moves: HashMap<InodeNumber, Vec<Move>>,
    /// States that are after an operation on a file's contents, done or failed on the way: each
    /// step of it sets the times.
    timed_in_steps: HashMap<usize, InodeNumber>,
}

/// What a completed sync promises.
#[derive(Debug, Clone, Copy)]
struct Durable {
    /// How many events the device had seen when it returned.
    end: usize,
    /// The earliest state that a crash may lead to.
    state: usize,
    /// Contents of this file, or of all, are at least as in that state.
    file: Option<InodeNumber>,
    contents: usize,
    /// Times are, too.
    times: bool,
}

/// From which state on a file may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// Its contents and size.
    pub contents: usize,
    /// Its times.
    pub times: usize,
}

/// What took bytes away: once it is seen, none that were there before may be.
#[derive(Debug, Clone)]
struct Cut {
    state: usize,
    bytes: Range<u64>,
}

/// What took a range out of a file or made room for one: what lies behind it moved.
#[derive(Debug, Clone)]
struct Move {
    state: usize,
    range: Range<u64>,
    what: Fallocate,
}

impl Move {
    /// Where the byte is that was at `offset`; `None` when it was taken out.
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

/// What a crash may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// How many events the device saw.
    pub events: usize,
    /// The earliest state.
    pub low: usize,
    /// The latest: the one after the operation that was going on.
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

    /// How many operations there were.
    pub fn operations(&self) -> usize {
        self.changed.len()
    }

    /// The file as it is now.
    pub fn latest(&self, inode: InodeNumber) -> Option<&Arc<Node>> {
        self.at(inode, usize::MAX)
    }

    /// The file as it was in that state.
    pub fn at(&self, inode: InodeNumber, state: usize) -> Option<&Arc<Node>> {
        let versions = self.versions.get(&inode)?;
        let at = versions.partition_point(|(from, _)| *from <= state);
        versions.get(at.checked_sub(1)?)?.1.as_ref()
    }

    /// The versions of a file that lived in `state`, from the one of state `low` to that of `high`,
    /// as far as it lived.
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
        // One life of the number: between two states in which it was nobody's.
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

    /// The files that the operation of that number changed.
    pub fn changed_by(&self, operation: usize) -> &[InodeNumber] {
        self.changed.get(operation).map_or(&[], Vec::as_slice)
    }

    /// The state at which the last bytes that `offset` had were taken away, up to `state`.
    pub fn last_cut(&self, inode: InodeNumber, offset: u64, state: usize) -> usize {
        let cuts = self.cuts.get(&inode).into_iter().flatten();
        let before = cuts.filter(|cut| cut.state <= state && cut.bytes.contains(&offset));
        before.map(|cut| cut.state).max().unwrap_or(0)
    }

    /// Where the answer of [`last_cut`](Self::last_cut) may change within a range: its pieces.
    pub fn pieces(&self, inode: InodeNumber, bytes: &Range<u64>) -> Vec<Range<u64>> {
        let cuts = self.cuts.get(&inode).into_iter().flatten();
        let bounds = cuts.flat_map(|cut| [cut.bytes.start, cut.bytes.end]);
        let inside = bounds.filter(|at| bytes.contains(at));
        let starts: BTreeSet<_> = inside.chain([bytes.start]).collect();
        let ends = starts.iter().skip(1).copied().chain([bytes.end]);
        let pieces = starts.iter().copied().zip(ends);
        pieces.map(|(start, end)| start..end).collect()
    }

    /// Where the byte at `offset` in state `from` is in the later state `to`.
    pub fn place_in(&self, inode: InodeNumber, offset: u64, from: usize, to: usize) -> Option<u64> {
        let moves = self.moves.get(&inode).into_iter().flatten();
        moves
            .filter(|moved| from < moved.state && moved.state <= to)
            .try_fold(offset, |offset, moved| moved.place_after(offset))
    }

    /// Whether a crash within that operation may leave this file's contents in the midst of it.
    pub fn is_in_steps(&self, operation: usize, inode: InodeNumber) -> bool {
        self.in_steps.get(&operation) == Some(&inode)
    }

    /// Whether the operation that led to that state set this file's times in several steps.
    pub fn is_timed_in_steps(&self, state: usize, inode: InodeNumber) -> bool {
        self.timed_in_steps.get(&state) == Some(&inode)
    }

    /// Notes an operation that was done, with the files that it changed as they are now.
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

    /// Notes that the last operation changed this file's contents, or began to.
    pub fn note_times(&mut self, inode: InodeNumber) {
        self.timed_in_steps.insert(self.operations(), inode);
    }

    /// Notes what the last operation took away, and whether a crash may leave it half done.
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

    /// Notes that the last operation made everything durable.
    pub fn note_sync(&mut self) {
        self.note_durable(self.operations(), None, true);
    }

    /// Notes that the last operation made one file durable.
    pub fn note_sync_file(&mut self, inode: InodeNumber, what: SyncFile) {
        let versions = self.versions.get(&inode).map_or(&[][..], Vec::as_slice);
        let of = |pair: &[Version]| pair[1].0;
        // Contents over others, of the same length, may be on the disk without a commit: then only
        // they are durable, and nothing that came before them.
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

    /// What a crash may lead to that lets the device see so many events.
    pub fn window(&self, events: usize) -> Window {
        let done = self.durable.iter().filter(|sync| sync.end <= events);
        let low = done.map(|sync| sync.state).max().unwrap_or(0);
        let begun = self.events.partition_point(|range| range.start < events);
        Window {
            events,
            low,
            // A sync that finds all durable already asks nothing of the device: what it follows
            // changed nothing either, and is there as well.
            high: begun.max(low),
        }
    }

    /// From which state on a file may be after a crash.
    pub fn floor(&self, window: Window, inode: InodeNumber) -> Floor {
        let about = |sync: &&Durable| {
            sync.end <= window.events && sync.file.is_none_or(|file| file == inode)
        };
        let syncs = || self.durable.iter().filter(about);
        let last = |states: &mut dyn Iterator<Item = usize>| states.max().unwrap_or(0);
        Floor {
            contents: last(&mut syncs().map(|sync| sync.contents)),
            times: last(&mut syncs().filter(|sync| sync.times).map(|sync| sync.contents)),
        }
    }
}
