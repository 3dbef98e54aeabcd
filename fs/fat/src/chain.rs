//! Chains of clusters, kept as runs.

use std::fmt;

use crate::error::{Corrupt, Result};
use crate::fat::{FatEntry, FatTable};

/// The number of a cluster: the first of the filesystem has number 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cluster(pub(crate) u32);

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Cluster {
    /// The one so many further. Those of a run are all there.
    pub(crate) const fn plus(self, count: u32) -> Self {
        Self(self.0.saturating_add(count))
    }
}

/// Clusters of a file that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Which cluster of the file the first is.
    pub(crate) at: u32,
    pub(crate) first: Cluster,
    /// How many; never zero.
    pub(crate) count: u32,
}

impl Run {
    /// The file's cluster behind the run.
    const fn end(&self) -> u32 {
        self.at.saturating_add(self.count)
    }

    /// The last of its clusters.
    pub(crate) const fn last(&self) -> Cluster {
        self.first.plus(self.count.saturating_sub(1))
    }

    /// Each of its clusters.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = Cluster> + use<> {
        let first = self.first;
        (0..self.count).map(move |nth| first.plus(nth))
    }
}

/// The clusters of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    runs: Vec<Run>,
}

impl Chain {
    /// Follows the chain through the table to its end.
    pub(crate) fn walk(fat: &FatTable, first: Cluster) -> Result<Self> {
        let mut chain = Self::default();
        let mut cluster = first;
        // Brent's: the mark moves up at each power of two, and a loop comes back to it.
        let mut mark = first;
        let mut until_next_mark: u32 = 1;
        let mut since_mark: u32 = 0;
        loop {
            chain.push(cluster, 1);
            match fat.entry(cluster)? {
                FatEntry::Next(next) => cluster = next,
                FatEntry::End => return Ok(chain),
                FatEntry::Free | FatEntry::Other(_) => {
                    let value = fat.raw(cluster)?;
                    return Err(Corrupt::Link {
                        first,
                        cluster,
                        value,
                    }
                    .into());
                }
            }
            if cluster == mark {
                return Err(Corrupt::Loop { first }.into());
            }
            since_mark = since_mark.saturating_add(1);
            if since_mark == until_next_mark {
                mark = cluster;
                since_mark = 0;
                until_next_mark = until_next_mark.saturating_mul(2);
            }
        }
    }

    /// Adds clusters at the end.
    pub(crate) fn push(&mut self, first: Cluster, count: u32) {
        let at = self.clusters();
        match self.runs.last_mut() {
            Some(run) if run.first.plus(run.count) == first => {
                run.count = run.count.saturating_add(count);
            }
            _ => self.runs.push(Run { at, first, count }),
        }
    }

    /// Adds another chain at the end.
    pub(crate) fn append(&mut self, other: &Self) {
        for run in &other.runs {
            self.push(run.first, run.count);
        }
    }

    /// How many clusters it has.
    pub(crate) fn clusters(&self) -> u32 {
        self.runs.last().map_or(0, Run::end)
    }

    pub(crate) fn first(&self) -> Option<Cluster> {
        self.runs.first().map(|run| run.first)
    }

    pub(crate) fn last(&self) -> Option<Cluster> {
        self.runs.last().map(Run::last)
    }

    /// All runs, in the file's order.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The run from the file's cluster `nth` on.
    pub(crate) fn run_from(&self, nth: u32) -> Option<Run> {
        let place = self.runs.partition_point(|run| run.end() <= nth);
        let run = self.runs.get(place)?;
        let skip = nth.checked_sub(run.at)?;
        Some(Run {
            at: nth,
            first: run.first.plus(skip),
            count: run.count.saturating_sub(skip),
        })
    }

    /// Takes off all but the first `keep` clusters.
    pub(crate) fn split_off(&mut self, keep: u32) -> Self {
        let mut rest = Self::default();
        let mut nth = keep;
        while let Some(run) = self.run_from(nth) {
            rest.push(run.first, run.count);
            nth = run.end();
        }
        self.runs.retain_mut(|run| {
            run.count = run.count.min(keep.saturating_sub(run.at));
            run.count > 0
        });
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(runs: &[(u32, u32)]) -> Chain {
        let mut chain = Chain::default();
        for (first, count) in runs {
            chain.push(Cluster(*first), *count);
        }
        chain
    }

    #[test]
    fn neighbours_are_one_run() {
        let chain = chain(&[(5, 1), (6, 1), (9, 2), (3, 1)]);
        assert_eq!(chain.runs().len(), 3);
        assert_eq!(chain.clusters(), 5);
        assert_eq!(
            chain.run_from(3).map(|run| (run.first.0, run.count)),
            Some((10, 1))
        );
        assert_eq!(chain.run_from(5), None);
    }

    #[test]
    fn cuts_anywhere() {
        for keep in 0..=6 {
            let mut kept = chain(&[(5, 2), (9, 2), (3, 1)]);
            let rest = kept.split_off(keep);
            assert_eq!(kept.clusters(), keep.min(5));
            kept.append(&rest);
            assert_eq!(kept, chain(&[(5, 2), (9, 2), (3, 1)]), "{keep}");
        }
    }
}
