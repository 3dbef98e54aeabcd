//! Whether what a crash left is what it may leave.
//!
//! Names and metadata must be those of one state: the latest that was made durable, or one that
//! came after it. Contents are written beside the journal: bytes may be older or newer than that
//! state, but each must be one that this file had at this place since it was last made durable.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use diskfs_vfs::{FsRead, InodeNumber, Timestamp};

use crate::history::{History, Window};
use crate::node::{Contents, Node, PAGE_BYTES, Reader};
use crate::pattern::origin;

/// How many differences are told.
const MOST_LINES: usize = 12;

/// Everything that can be reached from the root.
#[derive(Debug)]
pub struct Tree(BTreeMap<InodeNumber, Node>);

impl Tree {
    /// Reads it.
    ///
    /// # Errors
    /// Whatever the filesystem answers; a directory that is met twice.
    pub fn read(fs: &dyn FsRead) -> Result<Self> {
        let mut reader = Reader::default();
        let mut nodes = BTreeMap::new();
        let mut pending = vec![fs.root()];
        while let Some(inode) = pending.pop() {
            if nodes.contains_key(&inode) {
                continue;
            }
            let node = reader
                .read(fs, inode, None)
                .with_context(|| format!("inode {inode}"))?;
            pending.extend(
                node.entries()
                    .into_iter()
                    .flatten()
                    .map(|(_, inode)| *inode),
            );
            nodes.insert(inode, node);
        }
        Ok(Self(nodes))
    }
}

/// Finds the state that `found` shows.
///
/// # Errors
/// When there is none, or contents are not what they may be; with what differs.
pub fn judge(history: &History, window: Window, found: &Tree) -> Result<usize> {
    let mut wrong: BTreeSet<_> = found.0.keys().copied().collect();
    let mut best = (usize::MAX, window.low);
    let mut matching = Vec::new();
    for state in window.low..=window.high {
        let suspects: Vec<_> = if state == window.low {
            found.0.keys().copied().collect()
        } else {
            history.changed_by(state - 1).to_vec()
        };
        for inode in suspects {
            let Some(node) = found.0.get(&inode) else {
                continue;
            };
            if history
                .at(inode, state)
                .is_some_and(|expected| is_same(expected, node))
            {
                wrong.remove(&inode);
            } else {
                wrong.insert(inode);
            }
        }
        if wrong.is_empty() {
            matching.push(state);
        }
        if wrong.len() <= best.0 {
            best = (wrong.len(), state);
        }
    }
    if matching.is_empty() {
        let state = best.1;
        bail!(
            "no state of {}..={} looks like this; closest is {state}:\n{}",
            window.low,
            window.high,
            indent(&differences(history, state, found))
        );
    }
    // Those that differ in contents alone look the same up to here.
    let mut told = Vec::new();
    for state in matching.into_iter().rev() {
        let lines = wrong_contents(history, window, state, found);
        if lines.is_empty() {
            return Ok(state);
        }
        told.push((state, lines));
    }
    let fewest = told.iter().min_by_key(|(_, lines)| lines.len());
    let (state, lines) = fewest.map_or((0, &[][..]), |(state, lines)| (*state, lines));
    bail!(
        "the state is {state} of {}..={}, but not the contents:\n{}",
        window.low,
        window.high,
        indent(lines)
    );
}

fn indent(lines: &[String]) -> String {
    let shown: Vec<_> = lines
        .iter()
        .take(MOST_LINES)
        .map(|line| format!("    {line}"))
        .collect();
    shown.join("\n")
}

/// Whether both are the same, but for what goes with contents.
fn is_same(expected: &Node, found: &Node) -> bool {
    if expected.contents().is_none() {
        return expected == found;
    }
    let mut expected = expected.clone();
    expected.body = found.body.clone();
    expected.modified = found.modified;
    expected.changed = found.changed;
    expected == *found
}

fn differences(history: &History, state: usize, found: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    for (inode, node) in &found.0 {
        match history.at(*inode, state) {
            None => lines.push(format!(
                "inode {inode}: there should be none, found {:?}, {} links",
                node.file_type, node.links
            )),
            Some(expected) if !is_same(expected, node) => {
                let differences = expected.differences(node);
                let own = differences.iter().take(MOST_LINES);
                lines.extend(own.map(|line| format!("inode {inode}: {line}")));
            }
            Some(_) => {}
        }
    }
    lines
}

fn wrong_contents(history: &History, window: Window, state: usize, found: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    for (inode, node) in &found.0 {
        let Some(contents) = node.contents() else {
            continue;
        };
        let floor = history.floor(window, *inode);
        // What was synced later than the state has contents of it, and nothing else.
        let versions = |low: usize| history.versions(*inode, state, low.min(state), window.high);
        let file = File {
            history,
            inode: *inode,
            state,
            versions: versions(floor.contents),
            timed: versions(floor.times),
        };
        let wrong = file.wrong_times(node).or_else(|| file.wrong_size(contents));
        lines.extend(wrong.or_else(|| file.wrong_bytes(contents)));
    }
    lines
}

/// A regular file, and how it was since it was last durable.
struct File<'a> {
    history: &'a History,
    inode: InodeNumber,
    state: usize,
    versions: Vec<Version<'a>>,
    /// The same since its times were last durable.
    timed: Vec<Version<'a>>,
}

type Version<'a> = (usize, &'a Arc<Node>);

impl File<'_> {
    /// The versions up to the one that an operation was making.
    fn until_next<'v>(&self, versions: &'v [Version<'v>]) -> impl Iterator<Item = Version<'v>> {
        let until = self.state + 1;
        let versions = versions.iter().copied();
        versions.filter(move |(from, _)| *from <= until)
    }

    fn wrong_times(&self, found: &Node) -> Option<String> {
        let times = |node: &Node| (node.modified, node.changed);
        let versions: Vec<_> = self.until_next(&self.timed).collect();
        let known = |time: fn(&Node) -> Timestamp| {
            let same = |(_, node): &Version<'_>| time(node) == time(found);
            // What is done in several steps sets the time in each.
            let between = |pair: &[Version<'_>]| {
                let ((_, before), (state, after)) = (pair[0], pair[1]);
                let in_steps = self.history.is_timed_in_steps(state, self.inode);
                in_steps && (time(before)..=time(after)).contains(&time(found))
            };
            versions.iter().any(same) || versions.windows(2).any(between)
        };
        if known(|node| node.modified) && known(|node| node.changed) {
            return None;
        }
        Some(format!(
            "inode {}: times {:?} are none that it had: {:?}",
            self.inode,
            times(found),
            versions
                .iter()
                .map(|(_, node)| times(node))
                .collect::<Vec<_>>()
        ))
    }

    /// A size between two that followed each other: a write may be done in part.
    fn wrong_size(&self, found: &Contents) -> Option<String> {
        let sizes: Vec<_> = self
            .until_next(&self.versions)
            .filter_map(|(_, node)| Some(node.contents()?.size_bytes))
            .collect();
        let between = |pair: &[u64]| {
            let range = pair[0].min(pair[1])..=pair[0].max(pair[1]);
            range.contains(&found.size_bytes)
        };
        if sizes.contains(&found.size_bytes) || sizes.windows(2).any(between) {
            return None;
        }
        Some(format!(
            "inode {}: size {} is none that it had: {sizes:?}",
            self.inode, found.size_bytes
        ))
    }

    fn wrong_bytes(&self, found: &Contents) -> Option<String> {
        if self.history.is_in_steps(self.state, self.inode) {
            // Half of the blocks may have moved.
            return None;
        }
        let mut pages: BTreeSet<_> = found.numbers().collect();
        let contents = self.versions.iter().filter_map(|(_, node)| node.contents());
        pages.extend(contents.flat_map(Contents::numbers));
        pages
            .into_iter()
            .filter(|page| page * PAGE_BYTES < found.size_bytes)
            .find_map(|page| self.wrong_page(page, found))
    }

    fn wrong_page(&self, page: u64, found: &Contents) -> Option<String> {
        let start = page * PAGE_BYTES;
        let range = start..(start + PAGE_BYTES).min(found.size_bytes);
        let pieces = self.history.pieces(self.inode, &range);
        pieces.into_iter().find_map(|piece| {
            let cut = self.history.last_cut(self.inode, piece.start, self.state);
            let versions: Vec<_> = self.alive_after(cut).collect();
            // Most are all of one version; to look at each byte takes long.
            let same = |(_, node): &Version<'_>| {
                let contents = node.contents();
                contents.is_some_and(|contents| contents.is_same_in(found, &piece))
            };
            if versions.iter().rev().any(same) {
                return None;
            }
            let is_wrong = |offset: &u64| !self.is_allowed(&versions, *offset, found.byte(*offset));
            let offset = piece.clone().find(is_wrong)?;
            Some(self.tell(offset, range.clone(), found))
        })
    }

    /// The versions that were still there in a state: each lives until the next one begins.
    fn alive_after(&self, state: usize) -> impl Iterator<Item = Version<'_>> {
        let versions = self.versions.iter().enumerate();
        let alive = versions.filter(move |(index, _)| {
            let next = self.versions.get(index + 1);
            next.is_none_or(|(until, _)| *until > state)
        });
        alive.map(|(_, version)| *version)
    }

    fn is_allowed(&self, versions: &[Version<'_>], offset: u64, byte: u8) -> bool {
        versions.iter().any(|(from, node)| {
            // Blocks with data are written in place, as in the kernel, also those that moved in a
            // transaction that a crash takes back: what is new shows where they were.
            let moved_to = self.history.place_in(self.inode, offset, self.state, *from);
            let same = |place| {
                let contents = node.contents();
                contents.is_some_and(|contents| contents.byte(place) == byte)
            };
            same(offset) || moved_to.is_some_and(same)
        })
    }

    fn tell(&self, offset: u64, range: Range<u64>, found: &Contents) -> String {
        let end = range.end.min(offset + 64);
        let bytes = |contents: &Contents| {
            let bytes: Vec<_> = (offset..end).map(|at| contents.byte(at)).collect();
            origin(&bytes)
        };
        let versions: Vec<_> = self
            .versions
            .iter()
            .filter_map(|(from, node)| Some((from, node.contents()?)))
            .map(|(from, contents)| format!("state {from}: {}", bytes(contents)))
            .collect();
        format!(
            "inode {}: byte {offset:#x} (size {}) is of {}; allowed are {}",
            self.inode,
            found.size_bytes,
            bytes(found),
            versions.join(", ")
        )
    }
}
