//! The table of speedups over one contender.

use std::fmt::Write;

use super::{Report, figure, ratio};
use crate::visit::{Row, Unit};

impl Report<'_> {
    /// Returns a table of how many times faster than `peer` diskfs is, for the rows of times and
    /// rates; an empty text if there are none.
    pub(super) fn comparison_with(&self, peer: &str) -> String {
        let is_diskfs = |name: &&String| name.starts_with("diskfs");
        let names: Vec<_> = self.names.iter().filter(is_diskfs).collect();
        let mut lines = String::new();
        for row in self.rows().filter(|row| row.unit != Unit::Mebibytes) {
            let cells: Vec<_> = names
                .iter()
                .map(|name| self.times_faster(row, name, peer))
                .collect();
            if cells.iter().any(Option::is_some) {
                let cells: Vec<_> = cells.into_iter().map(Option::unwrap_or_default).collect();
                let _ = writeln!(lines, "| {} | {} |", row.title, cells.join(" | "));
            }
        }
        if lines.is_empty() {
            return lines;
        }
        let heads: Vec<_> = names.iter().map(|name| name.as_str()).collect();
        let (heads, rule) = (heads.join(" | "), "---|".repeat(names.len()));
        format!("\n| times faster than {peer} | {heads} |\n|---|{rule}\n{lines}")
    }

    fn times_faster(&self, row: &Row, name: &str, peer: &str) -> Option<String> {
        let (mine, others) = (self.median(row, name)?, self.median(row, peer)?);
        ratio(row.unit, others, mine).map(figure)
    }
}
