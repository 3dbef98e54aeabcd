//! The histogram of `diff --stat`: a line for each file that differs, with the number of its changed
//! lines.

use std::io::{self, Write};

use diskfs::Result;

use super::compare::Outcome;
use super::pairs::Pair;
use super::report::changes;
use super::side::Side;
use super::unified::{self, Extent};
use crate::cli::session::name_style;
use crate::cli::show::name::NameStyle;
use crate::cli::show::{coloured, has_colours, mode};

/// The number of lines that are drawn one by one. More are drawn in proportion: a scale of all files
/// would be known only at the end.
const BAR_CELLS: u64 = 24;

/// The width of short names.
const NAME_CELLS: usize = 40;

/// The colours of added and removed lines: green and red.
const COLOURS: [u8; 2] = [32, 31];

/// A histogram in progress.
#[derive(Debug)]
pub(super) struct Histogram {
    style: NameStyle,
    has_colours: bool,
    files: u64,
    added: u64,
    removed: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self {
            style: name_style(NameStyle::Escaped),
            has_colours: has_colours(&io::stdout()),
            files: 0,
            added: 0,
            removed: 0,
        }
    }

    /// Writes the line of a file.
    ///
    /// # Errors
    /// The errors of reading the file and of `out`.
    pub(super) fn write(
        &mut self,
        from: &Side,
        to: &Side,
        outcome: &Outcome,
        out: &mut dyn Write,
    ) -> Result<()> {
        let (_, entry, path) = outcome.shown(from, to);
        let state = match outcome.pair {
            Pair::OnlyFrom(_) => "gone",
            Pair::OnlyTo(_) => "new",
            Pair::Both(_) => "",
        };
        let what = match unified::extent(from, to, outcome)? {
            Some(Extent::Lines { added, removed }) => {
                self.added = self.added.saturating_add(added);
                self.removed = self.removed.saturating_add(removed);
                let lines = added.saturating_add(removed);
                format!("{lines:>6} {}", self.bar(added, removed))
            }
            Some(Extent::Bytes { old, new }) => format!("   Bin {old} -> {new} bytes"),
            None if state.is_empty() => changes(outcome),
            None => mode::name(entry.metadata.file_type).to_owned(),
        };
        self.files = self.files.saturating_add(1);
        let name = self.style.show(&path);
        out.write_all(b" ")?;
        out.write_all(&name)?;
        let shown = String::from_utf8_lossy(&name).chars().count();
        let pad = NAME_CELLS.saturating_sub(shown);
        write!(out, "{:pad$} | {what}", "")?;
        if !state.is_empty() {
            write!(out, " ({state})")?;
        }
        Ok(out.write_all(b"\n")?)
    }

    fn bar(&self, added: u64, removed: u64) -> String {
        let parts = scaled(added, removed);
        let draw = |(cells, (sign, colour))| {
            let drawn = str::repeat(sign, cells);
            if self.has_colours && cells > 0 {
                coloured(&drawn, colour)
            } else {
                drawn
            }
        };
        let signs = ["+", "-"].into_iter().zip(COLOURS);
        parts.into_iter().zip(signs).map(draw).collect()
    }

    /// Writes the totals, if there is a difference.
    ///
    /// # Errors
    /// The errors of `out`.
    pub(super) fn end(&self, out: &mut dyn Write) -> Result<()> {
        let (files, added, removed) = (self.files, self.added, self.removed);
        let plural = |count| if count == 1 { "" } else { "s" };
        if files > 0 {
            writeln!(
                out,
                " {files} file{} differ, {added} insertion{}(+), {removed} deletion{}(-)",
                plural(files),
                plural(added),
                plural(removed)
            )?;
        }
        Ok(())
    }
}

/// Returns the cells of both parts of a bar. A part that is not empty has at least one.
fn scaled(added: u64, removed: u64) -> [usize; 2] {
    let lines = u128::from(added) + u128::from(removed);
    let cells = lines.min(u128::from(BAR_CELLS));
    [added, removed].map(|part| {
        let share = u128::from(part) * cells;
        let share = share.checked_div(lines).unwrap_or(0);
        usize::try_from(share.max(u128::from(part > 0))).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_differences_are_drawn_line_by_line() {
        assert_eq!(scaled(0, 0), [0, 0]);
        assert_eq!(scaled(3, 1), [3, 1]);
        assert_eq!(scaled(24, 0), [24, 0]);
        assert_eq!(scaled(48, 0), [24, 0]);
        assert_eq!(scaled(300, 100), [18, 6]);
        assert_eq!(scaled(1000, 1), [23, 1]);
        assert_eq!(scaled(u64::MAX, u64::MAX), [12, 12]);
    }
}
