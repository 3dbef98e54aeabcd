//! The check that a crash image has an allowed state.
//!
//! Names and metadata must be those of one state: the latest durable one, or a later one. Contents
//! are written outside of the journal, so their bytes may be older or newer than that state. But
//! each byte must be one that the file had at this place since it was last made durable.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use diskfs_vfs::{FsRead, InodeNumber, Timestamp};

use crate::history::{History, Window};
use crate::node::{Contents, Node, PAGE_BYTES, Reader};
use crate::pattern::origin;

/// The maximum number of differences to print.
const MOST_LINES: usize = 12;

/// All files that can be reached from the root.
#[derive(Debug)]
pub struct Tree(BTreeMap<InodeNumber, Node>);

impl Tree {
    /// Reads the whole tree.
    ///
    /// # Errors
    /// The errors of the filesystem; a directory that is reached twice.
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
/// No state matches, or contents are not allowed; the message has the differences.
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
            "no state of {}..={} matches; closest is {state}:\n{}",
            window.low,
            window.high,
            indent(&differences(history, state, found))
        );
    }
    // States that differ only in contents all match up to here.
    let mut candidates = Vec::new();
    for state in matching.into_iter().rev() {
        let lines = wrong_contents(history, window, state, found);
        if lines.is_empty() {
            return Ok(state);
        }
        candidates.push((state, lines));
    }
    let fewest = candidates.iter().min_by_key(|(_, lines)| lines.len());
    let (state, lines) = fewest.map_or((0, &[][..]), |(state, lines)| (*state, lines));
    bail!(
        "the metadata is that of state {state} of {}..={}, but the contents are not:\n{}",
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

/// Returns true if both are the same except for contents and the fields that change with them.
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
                "inode {inode}: expected no file, found {:?}, {} links",
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
        let floor = history.earliest_states(window, *inode);
        // A file that was synced later than the state has later contents, but no other later
        // changes.
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

/// A regular file, with its versions since it was last durable.
struct File<'a> {
    history: &'a History,
    inode: InodeNumber,
    state: usize,
    versions: Vec<Version<'a>>,
    /// The versions since its times were last durable.
    timed: Vec<Version<'a>>,
}

type Version<'a> = (usize, &'a Arc<Node>);

impl File<'_> {
    /// Returns the versions up to the one that an operation was making.
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
            // An operation with several steps sets the times in each step.
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
            "inode {}: times {:?} were never set, expected one of {:?}",
            self.inode,
            times(found),
            versions
                .iter()
                .map(|(_, node)| times(node))
                .collect::<Vec<_>>()
        ))
    }

    /// Returns the problem of a size that is not allowed. A size between two consecutive versions
    /// is allowed, because a write can be partly done.
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
            "inode {}: size {} was never set, expected one of {sizes:?}",
            self.inode, found.size_bytes
        ))
    }

    fn wrong_bytes(&self, found: &Contents) -> Option<String> {
        if self.history.is_in_steps(self.state, self.inode) {
            // Half of the blocks may have been moved.
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
            // Most pages are all of one version, and checking each byte takes long.
            let same = |(_, node): &Version<'_>| {
                let contents = node.contents();
                contents.is_some_and(|contents| contents.is_same_in(found, &piece))
            };
            if versions.iter().rev().any(same) {
                return None;
            }
            let is_wrong = |offset: &u64| !self.is_allowed(&versions, *offset, found.byte(*offset));
            let offset = piece.clone().find(is_wrong)?;
            Some(self.describe(offset, range.clone(), found))
        })
    }

    /// Returns the versions that existed in a state: each exists until the next one starts.
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
            // Blocks with data are written in place, as in the kernel, including those that moved
            // in a transaction that the crash undoes. New bytes then appear at their old offset.
            let moved_to = self.history.place_in(self.inode, offset, self.state, *from);
            let same = |place| {
                let contents = node.contents();
                contents.is_some_and(|contents| contents.byte(place) == byte)
            };
            same(offset) || moved_to.is_some_and(same)
        })
    }

    fn describe(&self, offset: u64, range: Range<u64>, found: &Contents) -> String {
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
            "inode {}: byte {offset:#x} (size {}) is from {}, expected {}",
            self.inode,
            found.size_bytes,
            bytes(found),
            versions.join(", ")
        )
    }
}
