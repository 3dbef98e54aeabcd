//! The samples of a run.

use serde::Serialize;

/// All measurements of one row by one contender.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub(crate) struct Series(Vec<f64>);

impl Series {
    fn sorted(&self) -> Vec<f64> {
        let mut values = self.0.clone();
        values.sort_by(f64::total_cmp);
        values
    }

    /// Returns the middle value; for an even number of values, the mean of the middle two.
    pub(crate) fn median(&self) -> Option<f64> {
        let values = self.sorted();
        let upper = *values.get(values.len() / 2)?;
        let lower = *values.get(values.len().checked_sub(1)? / 2)?;
        Some(f64::midpoint(lower, upper))
    }

    /// Returns the smallest value.
    pub(crate) fn min(&self) -> Option<f64> {
        self.sorted().first().copied()
    }

    /// Returns the largest value.
    pub(crate) fn max(&self) -> Option<f64> {
        self.sorted().last().copied()
    }
}

/// Converts a count to the type of the samples.
#[expect(
    clippy::cast_precision_loss,
    clippy::as_conversions,
    reason = "figures for a table; 53 bits are plenty"
)]
pub(crate) fn to_float(count: u64) -> f64 {
    count as f64
}

/// A visit that a contender did not finish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Gap {
    pub(crate) visit: &'static str,
    pub(crate) contender: String,
    pub(crate) reason: String,
    /// True if it only took too long.
    pub(crate) is_cut_off: bool,
}

/// All series of a run, by row and contender, in the order of first appearance.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    series: Vec<(&'static str, String, Series)>,
    gaps: Vec<Gap>,
}

impl Samples {
    /// Adds one measurement.
    pub(crate) fn add(&mut self, row: &'static str, contender: &str, value: f64) {
        let known = self
            .series
            .iter_mut()
            .find(|(r, c, _)| *r == row && c == contender);
        if let Some((_, _, series)) = known {
            series.0.push(value);
        } else {
            self.series
                .push((row, contender.to_owned(), Series(vec![value])));
        }
    }

    /// Records that a contender gets no more figures of a visit.
    pub(crate) fn give_up(&mut self, gap: Gap) {
        self.gaps.push(gap);
    }

    /// Returns true if a contender has given up a visit.
    pub(crate) fn has_given_up(&self, visit: &str, contender: &str) -> bool {
        let mut gaps = self.gaps.iter();
        gaps.any(|gap| gap.visit == visit && gap.contender == contender)
    }

    /// Returns the missing visits, each with the reason.
    pub(crate) fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Returns the measurements of one row by one contender.
    pub(crate) fn get(&self, row: &str, contender: &str) -> Option<&Series> {
        let found = self
            .series
            .iter()
            .find(|(r, c, _)| *r == row && c == contender);
        found.map(|(_, _, series)| series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_none() {
        assert_eq!(Series(vec![3.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(Series(vec![4.0, 1.0, 2.0, 3.0]).median(), Some(2.5));
        assert_eq!(Series::default().median(), None);
    }

    #[test]
    fn series_keep_apart() {
        let mut samples = Samples::default();
        samples.add("find", "kernel", 1.0);
        samples.add("find", "diskfs", 2.0);
        samples.add("find", "kernel", 3.0);
        assert_eq!(samples.get("find", "kernel"), Some(&Series(vec![1.0, 3.0])));
        assert_eq!(
            samples.get("find", "diskfs").and_then(Series::max),
            Some(2.0)
        );
        assert_eq!(samples.get("tar", "kernel"), None);
    }

    #[test]
    fn who_gives_up_one_visit_gets_the_others() {
        let mut samples = Samples::default();
        samples.give_up(Gap {
            visit: "tree",
            contender: "guestmount raw".into(),
            reason: "takes longer than 300 s".into(),
            is_cut_off: true,
        });
        assert!(samples.has_given_up("tree", "guestmount raw"));
        assert!(!samples.has_given_up("find", "guestmount raw"));
        assert!(!samples.has_given_up("tree", "kernel raw"));
    }
}
