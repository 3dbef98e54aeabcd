//! A walk through both trees in parallel, which pairs files with the same path.

use std::cmp::Ordering;

use diskfs::{Error, Result, SortedEntry, SortedWalk};

use super::side::Side;
use crate::cli::exclude::ExcludeArgs;

/// The files at one path.
#[derive(Debug)]
pub(super) enum Pair {
    /// A file that exists only on the old side.
    OnlyFrom(SortedEntry),
    /// A file that exists only on the new side.
    OnlyTo(SortedEntry),
    Both(Box<FilePair>),
}

/// Two files with the same path.
#[derive(Debug)]
pub(super) struct FilePair {
    pub(super) from: SortedEntry,
    pub(super) to: SortedEntry,
}

/// The files to compare.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// The patterns of files to skip.
    pub(super) exclude: ExcludeArgs,
    /// The only path to compare with everything below it, relative to both sides.
    pub(super) only: Option<Vec<u8>>,
}

/// The choice for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selected {
    Yes,
    /// Only files below it are compared.
    Below,
    No,
}

impl Selection {
    /// Returns the choice for the file with this path below the compared directories, and with this
    /// path in its image.
    fn of(&self, below: &[u8], path: &[u8]) -> Selected {
        if self.exclude.leaves_out(path) {
            return Selected::No;
        }
        let Some(only) = &self.only else {
            return Selected::Yes;
        };
        let names =
            |path| <[u8]>::split(path, |byte: &u8| *byte == b'/').filter(|name| !name.is_empty());
        let common = names(below)
            .zip(names(only))
            .take_while(|(a, b)| a == b)
            .count();
        if common == names(only).count() {
            Selected::Yes
        } else if common == names(below).count() {
            Selected::Below
        } else {
            Selected::No
        }
    }
}

/// Two walks in the same order, advanced one file at a time. What could not be read on one side is
/// an error and not a difference: the files of the other side below that path are skipped.
pub(super) struct Pairs<'a> {
    from: Stream<'a>,
    to: Stream<'a>,
}

struct Stream<'a> {
    side: &'a Side,
    selection: &'a Selection,
    walk: SortedWalk<'a>,
    next: Option<SortedEntry>,
    /// The path that could not be read; the files at and below it are unknown.
    unknown: Option<Vec<u8>>,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(from: &'a Side, to: &'a Side, selection: &'a Selection) -> Self {
        let stream = |side: &'a Side| Stream {
            side,
            selection,
            walk: side.start.walk_sorted(),
            next: None,
            unknown: None,
        };
        Self {
            from: stream(from),
            to: stream(to),
        }
    }

    fn step(&mut self) -> Result<Option<Pair>> {
        loop {
            self.from.fill()?;
            self.to.fill()?;
            let order = match (&self.from.next, &self.to.next) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(from), Some(to)) => compare(&from.path, &to.path),
            };
            let pair = match order {
                Ordering::Less => {
                    let known = |entry: &SortedEntry| !self.to.is_unknown(&entry.path);
                    self.from.next.take().filter(known).map(Pair::OnlyFrom)
                }
                Ordering::Greater => {
                    let known = |entry: &SortedEntry| !self.from.is_unknown(&entry.path);
                    self.to.next.take().filter(known).map(Pair::OnlyTo)
                }
                Ordering::Equal => {
                    let both = self.from.next.take().zip(self.to.next.take());
                    both.map(|(from, to)| Pair::Both(Box::new(FilePair { from, to })))
                }
            };
            if pair.is_some() {
                return Ok(pair);
            }
        }
    }
}

impl Iterator for Pairs<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

impl Stream<'_> {
    /// Reads the next file of the walk, unless one is already waiting.
    fn fill(&mut self) -> Result<()> {
        while self.next.is_none() {
            match self.walk.next() {
                None => return Ok(()),
                Some(Err(error)) => return Err(self.failed(error)),
                Some(Ok(entry)) => {
                    let path = self.side.path_of(&entry);
                    match self.selection.of(&entry.path, &path) {
                        Selected::Yes => self.next = Some(entry),
                        Selected::Below => {}
                        Selected::No => self.walk.skip_dir(),
                    }
                }
            }
        }
        Ok(())
    }

    fn failed(&mut self, error: Error) -> Error {
        let path = error.guest_path().unwrap_or_default();
        let below = path.strip_prefix(self.side.start.path()).unwrap_or(path);
        let below = below.strip_prefix(b"/").unwrap_or(below);
        self.unknown = Some(if below == b"." {
            Vec::new()
        } else {
            below.to_vec()
        });
        error
    }

    fn is_unknown(&self, path: &[u8]) -> bool {
        self.unknown.as_ref().is_some_and(|unknown| {
            let rest = path.strip_prefix(&unknown[..]);
            unknown.is_empty() || rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
        })
    }
}

/// Compares two paths in the order of a walk: a directory comes before everything in it.
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let names = |path| <[u8]>::split(path, |byte: &u8| *byte == b'/');
    names(a).cmp(names(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_path_can_be_selected() {
        let selection = Selection {
            only: Some(b"/etc/ssh/".to_vec()),
            ..Selection::default()
        };
        let cases = [
            ("", Selected::Below),
            ("etc", Selected::Below),
            ("etc/ssh", Selected::Yes),
            ("etc/ssh/a", Selected::Yes),
            ("etc/ss", Selected::No),
            ("usr", Selected::No),
        ];
        for (path, expected) in cases {
            assert_eq!(selection.of(path.as_bytes(), b"/x"), expected, "{path}");
        }
    }

    #[test]
    fn the_order_is_that_of_the_walk() {
        let walked = ["", "a", "a/b", "a/b/c", "a/c", "a-b", "b"];
        for pair in walked.windows(2) {
            assert_eq!(
                compare(pair[0].as_bytes(), pair[1].as_bytes()),
                Ordering::Less
            );
        }
        assert_eq!(compare(b"a/b", b"a/b"), Ordering::Equal);
    }
}
