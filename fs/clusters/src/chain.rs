//! Cluster chains, stored as runs of consecutive clusters.

use std::fmt;

use diskfs_vfs::{Error, ErrorKind, Result};

/// A cluster number. The first cluster of the filesystem has number 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cluster(pub u32);

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Cluster {
    /// Returns the cluster `count` positions further. The caller makes sure that it exists, as all
    /// clusters of a run do.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.saturating_add(count))
    }
}

/// A run of consecutive clusters of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The index within the file of the run's first cluster.
    pub at: u32,
    /// The number of the run's first cluster.
    pub first: Cluster,
    /// The number of clusters; never zero.
    pub count: u32,
}

impl Run {
    /// Returns the index within the file of the first cluster after the run.
    const fn end(&self) -> u32 {
        self.at.saturating_add(self.count)
    }

    /// Returns the last cluster of the run.
    pub const fn last(&self) -> Cluster {
        self.first.plus(self.count.saturating_sub(1))
    }

    /// Iterates over the clusters of the run.
    pub fn clusters(&self) -> impl Iterator<Item = Cluster> + use<> {
        let first = self.first;
        (0..self.count).map(move |nth| first.plus(nth))
    }
}

/// The clusters of a file, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    runs: Vec<Run>,
}

impl Chain {
    /// Follows a chain from its first cluster to its end. `next` returns the cluster that follows
    /// the given one, and fails if the table's entry is invalid.
    ///
    /// # Errors
    /// `Corrupt` for a chain with a loop; the errors of `next`.
    pub fn walk(
        first: Cluster,
        mut next: impl FnMut(Cluster) -> Result<Option<Cluster>>,
    ) -> Result<Self> {
        let mut chain = Self::default();
        let mut cluster = first;
        // Brent's algorithm: the mark moves up at each power of two, and a loop returns to it.
        let mut mark = first;
        let mut until_next_mark: u32 = 1;
        let mut since_mark: u32 = 0;
        loop {
            chain.push(cluster, 1);
            match next(cluster)? {
                Some(next) => cluster = next,
                None => return Ok(chain),
            }
            if cluster == mark {
                let reason =
                    format!("invalid cluster chain: the chain from cluster {first} has a loop");
                return Err(Error::new(ErrorKind::Corrupt, reason));
            }
            since_mark = since_mark.saturating_add(1);
            if since_mark == until_next_mark {
                mark = cluster;
                since_mark = 0;
                until_next_mark = until_next_mark.saturating_mul(2);
            }
        }
    }

    /// Appends `count` consecutive clusters to the chain.
    pub fn push(&mut self, first: Cluster, count: u32) {
        let at = self.clusters();
        match self.runs.last_mut() {
            Some(run) if run.first.plus(run.count) == first => {
                run.count = run.count.saturating_add(count);
            }
            _ => self.runs.push(Run { at, first, count }),
        }
    }

    /// Appends another chain to this one.
    pub fn append(&mut self, other: &Self) {
        for run in &other.runs {
            self.push(run.first, run.count);
        }
    }

    /// Returns the number of clusters.
    pub fn clusters(&self) -> u32 {
        self.runs.last().map_or(0, Run::end)
    }

    /// Returns the first cluster; `None` if the chain is empty.
    pub fn first(&self) -> Option<Cluster> {
        self.runs.first().map(|run| run.first)
    }

    /// Returns the last cluster; `None` if the chain is empty.
    pub fn last(&self) -> Option<Cluster> {
        self.runs.last().map(Run::last)
    }

    /// Returns all runs, in the order of the file.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Returns the rest of the run that contains the file's cluster `nth`, from that cluster on.
    pub fn run_from(&self, nth: u32) -> Option<Run> {
        let place = self.runs.partition_point(|run| run.end() <= nth);
        let run = self.runs.get(place)?;
        let skip = nth.checked_sub(run.at)?;
        Some(Run {
            at: nth,
            first: run.first.plus(skip),
            count: run.count.saturating_sub(skip),
        })
    }

    /// Truncates the chain to its first `keep` clusters, and returns the rest.
    #[must_use]
    pub fn split_off(&mut self, keep: u32) -> Self {
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
    fn a_loop_of_any_length_ends() {
        for (tail, length) in [(0, 1), (1, 1), (3, 5), (100, 7), (7, 100)] {
            let next = |cluster: Cluster| {
                let last = 2 + tail + length - 1;
                let next = if cluster.0 == last {
                    2 + tail
                } else {
                    cluster.0 + 1
                };
                Ok(Some(Cluster(next)))
            };
            let e = Chain::walk(Cluster(2), next).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corrupt);
        }
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
