//! The report of a run, as a table and as JSON.

mod comparison;

use std::fmt::Write;

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::machine::{self, Cold};
use crate::rig::Rig;
use crate::samples::{Samples, Series};
use crate::visit::{Row, Unit};

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    rig: &'a Rig,
    samples: &'a Samples,
    names: Vec<String>,
}

impl<'a> Report<'a> {
    /// Returns the report of a run.
    pub(crate) fn new(rig: &'a Rig, samples: &'a Samples) -> Self {
        let names = rig
            .contenders()
            .iter()
            .map(|contender| contender.name())
            .collect();
        Self {
            rig,
            samples,
            names,
        }
    }

    /// Returns a table in Markdown: one line per row, one column per contender. Each figure is the
    /// median, and in brackets its ratio to the first contender's; above 1 is worse, whatever the
    /// unit.
    pub(crate) fn to_markdown(&self) -> String {
        let cold = match self.rig.cold() {
            Cold::Machine => "nothing cached",
            Cold::Image => "nothing of the image cached",
        };
        let machine = machine::describe();
        let mut text = format!(
            "{machine}; {}; median of {}; cold: {cold}\n\n",
            self.rig.filesystem().name(),
            self.rig.repetitions()
        );
        let _ = writeln!(text, "| | unit | target | {} |", self.names.join(" | "));
        let _ = writeln!(text, "|---|---|---|{}", "---|".repeat(self.names.len()));
        for row in self.rows() {
            let target = self.target(row);
            let cells: Vec<_> = self.names.iter().map(|name| self.cell(row, name)).collect();
            let unit = unit_name(row.unit);
            let _ = writeln!(
                text,
                "| {} | {unit} | {target} | {} |",
                row.title,
                cells.join(" | ")
            );
        }
        text.push_str(&self.notes());
        for name in &self.names {
            if name.starts_with("guestmount") {
                text.push_str(&self.comparison_with(name));
            }
        }
        text
    }

    /// Returns the notes below the table: contenders that are missing, failed, or were measured
    /// less often.
    fn notes(&self) -> String {
        let mut text = String::new();
        for (name, reason) in self.rig.absent() {
            let _ = writeln!(text, "\n{name} does not take part: {reason}");
        }
        for gap in self.samples.gaps() {
            let (name, visit, reason) = (&gap.contender, gap.visit, &gap.reason);
            let _ = writeln!(text, "\n{name} did not finish {visit}: {reason}");
        }
        for contender in self.rig.contenders() {
            let most = contender.most_repetitions();
            if most < self.rig.repetitions() {
                let _ = writeln!(text, "\n{}: median of {most}", contender.name());
            }
        }
        text
    }

    fn target(&self, row: &Row) -> String {
        let mut programs = self.rig.contenders().iter().map(|it| it.program());
        let target = if programs.any(|program| program == "diskfs") {
            row.target.map(|ratio| ratio.to_string())
        } else {
            row.machine_target.map(|limit| bound(row.unit, limit))
        };
        target.unwrap_or_default()
    }

    /// Returns the whole report as JSON, with every sample.
    pub(crate) fn to_json(&self) -> Result<String> {
        let rows: Vec<_> = self.rows().map(|row| self.row_json(row)).collect();
        let value = json!({
            "machine": machine::describe(),
            "filesystem": self.rig.filesystem().name(),
            "repetitions": self.rig.repetitions(),
            "contenders": self.names,
            "absent": self.rig.absent(),
            "gaps": self.samples.gaps(),
            "rows": rows,
        });
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }

    fn rows(&self) -> impl Iterator<Item = &'static Row> {
        self.rig.visits().iter().flat_map(|visit| visit.rows())
    }

    fn row_json(&self, row: &Row) -> Value {
        let figures: Map<_, _> = self
            .names
            .iter()
            .filter_map(|name| {
                let series = self.samples.get(row.key, name)?;
                let figure = json!({
                    "median": series.median(),
                    "min": series.min(),
                    "max": series.max(),
                    "ratio": self.ratio(row, name),
                    "samples": series,
                });
                Some((name.clone(), figure))
            })
            .collect();
        json!({
            "key": row.key,
            "title": row.title,
            "unit": unit_name(row.unit),
            "target_ratio": row.target,
            "machine_target": row.machine_target,
            "figures": figures,
        })
    }

    fn cell(&self, row: &Row, name: &str) -> String {
        let Some(median) = self.median(row, name) else {
            return "-".into();
        };
        let figure = figure(median);
        match self.ratio(row, name) {
            Some(ratio) if self.names.first().is_some_and(|first| first != name) => {
                format!("{figure} ({ratio:.2})")
            }
            _ => figure,
        }
    }

    fn median(&self, row: &Row, name: &str) -> Option<f64> {
        self.samples.get(row.key, name).and_then(Series::median)
    }

    /// Returns how many times worse it is than the first contender; `None` for rows that are ratios
    /// themselves.
    fn ratio(&self, row: &Row, name: &str) -> Option<f64> {
        let mine = self.median(row, name)?;
        let base = self.median(row, self.names.first()?)?;
        ratio(row.unit, mine, base)
    }
}

fn ratio(unit: Unit, mine: f64, base: f64) -> Option<f64> {
    match unit {
        Unit::Milliseconds | Unit::Mebibytes => Some(mine / base),
        Unit::ReadsPerSecond
        | Unit::WritesPerSecond
        | Unit::FilesPerSecond
        | Unit::ImagesPerSecond => Some(base / mine),
        Unit::BytesPerByte => None,
    }
}

/// Formats the target of a figure.
fn bound(unit: Unit, limit: f64) -> String {
    match unit {
        Unit::Milliseconds | Unit::Mebibytes | Unit::BytesPerByte => format!("<= {limit}"),
        Unit::ReadsPerSecond
        | Unit::WritesPerSecond
        | Unit::FilesPerSecond
        | Unit::ImagesPerSecond => {
            format!(">= {limit}")
        }
    }
}

/// Formats a value with three significant digits, without an exponent.
fn figure(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Milliseconds => "ms",
        Unit::ReadsPerSecond => "reads/s",
        Unit::WritesPerSecond => "writes/s",
        Unit::FilesPerSecond => "files/s",
        Unit::ImagesPerSecond => "images/s",
        Unit::Mebibytes => "MiB",
        Unit::BytesPerByte => "B/B",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn above_one_is_worse_whatever_the_unit() {
        assert_eq!(ratio(Unit::Milliseconds, 20.0, 10.0), Some(2.0));
        assert_eq!(ratio(Unit::ReadsPerSecond, 10.0, 20.0), Some(2.0));
        assert_eq!(ratio(Unit::BytesPerByte, 1.0, 1.0), None);
    }

    #[test]
    fn targets_say_which_way_is_better() {
        assert_eq!(bound(Unit::Milliseconds, 350.0), "<= 350");
        assert_eq!(bound(Unit::FilesPerSecond, 5000.0), ">= 5000");
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(figure(1234.5), "1234");
        assert_eq!(figure(12.345), "12.3");
        assert_eq!(figure(0.5), "0.50");
    }
}
