//! The picture of `du --tree`: a tree of directories, the largest first, each with a bar.

use std::io::Write;

use diskfs::Result;

use crate::cli::show::bar::bar;
use crate::cli::show::name::NameStyle;

use super::tally::UsageEntry;

/// The number of entries of a directory that are drawn; the smaller ones share a line. It also
/// bounds the memory for a directory with millions of entries.
const SHOWN_MAX: usize = 16;

/// The width of a whole bar.
const BAR_CELLS: u16 = 12;

/// A file, or a directory with its largest entries.
#[derive(Debug)]
pub(super) struct Branch {
    path: Vec<u8>,
    figure: u64,
    entries: Largest,
}

/// The largest entries of a directory, the largest first, and the sum of the others.
#[derive(Debug, Default)]
struct Largest {
    branches: Vec<Branch>,
    others: u64,
    others_figure: u64,
}

impl Largest {
    fn add(&mut self, branch: Branch) {
        let before = |other: &Branch| (other.figure, &branch.path) >= (branch.figure, &other.path);
        let at = self.branches.partition_point(before);
        self.branches.insert(at, branch);
        if self.branches.len() > SHOWN_MAX
            && let Some(smallest) = self.branches.pop()
        {
            self.others = self.others.saturating_add(1);
            self.others_figure = self.others_figure.saturating_add(smallest.figure);
        }
    }
}

/// A picture in progress: the entries so far of each directory that is not complete, by depth.
#[derive(Debug, Default)]
pub(super) struct Picture {
    open: Vec<Largest>,
}

impl Picture {
    /// Adds the next entry, of which the contents were added before. Returns the operand's branch
    /// once it is complete.
    pub(super) fn add(&mut self, counted: &UsageEntry, figure: u64) -> Option<Branch> {
        let levels = counted.depth.saturating_add(2);
        self.open.resize_with(levels, Largest::default);
        let entries = self.open.pop().unwrap_or_default();
        let branch = Branch {
            path: counted.path.clone(),
            figure,
            entries,
        };
        if counted.depth == 0 {
            self.open.clear();
            return Some(branch);
        }
        if let Some(siblings) = self.open.last_mut() {
            siblings.add(branch);
        }
        None
    }
}

/// The columns before the names.
struct Columns<'a> {
    whole: u64,
    /// Formats a figure.
    format: &'a dyn Fn(u64) -> String,
}

impl Columns<'_> {
    fn line(&self, figure: u64) -> String {
        let whole = u128::from(self.whole);
        let percent = u128::from(figure) * 100 + whole / 2;
        let percent = percent.checked_div(whole).unwrap_or(0);
        let bar = bar(figure, self.whole, BAR_CELLS);
        let figure = (self.format)(figure);
        format!(
            "{figure:>8} {percent:>4}% {bar:width$} ",
            width = usize::from(BAR_CELLS)
        )
    }
}

impl Branch {
    /// Draws the branch, which is called `name`, with a line for each entry.
    ///
    /// # Errors
    /// Errors of `out`.
    pub(super) fn draw(
        &self,
        out: &mut dyn Write,
        name: &[u8],
        style: NameStyle,
        format: &dyn Fn(u64) -> String,
    ) -> Result<()> {
        let columns = Columns {
            whole: self.figure,
            format,
        };
        out.write_all(columns.line(self.figure).as_bytes())?;
        out.write_all(&style.show(name))?;
        out.write_all(b"\n")?;
        // Not recursive: the image determines the depth.
        let mut pending = vec![Pending::new(self, String::new())];
        while let Some(directory) = pending.last_mut() {
            match directory.next(&columns, style, out)? {
                Some(inner) => pending.push(inner),
                None => drop(pending.pop()),
            }
        }
        Ok(())
    }
}

/// A directory that is being drawn.
struct Pending<'a> {
    directory: &'a Branch,
    next: usize,
    /// The lines to the left of its entries.
    trunks: String,
}

impl<'a> Pending<'a> {
    fn new(directory: &'a Branch, trunks: String) -> Self {
        Self {
            directory,
            next: 0,
            trunks,
        }
    }

    /// Draws the next entry, and returns it to be drawn further; `None` after the last one.
    fn next(
        &mut self,
        columns: &Columns<'_>,
        style: NameStyle,
        out: &mut dyn Write,
    ) -> Result<Option<Self>> {
        let entries = &self.directory.entries;
        let Some(entry) = entries.branches.get(self.next) else {
            if entries.others > 0 {
                let line = columns.line(entries.others_figure);
                let trunks = &self.trunks;
                writeln!(
                    out,
                    "{line}{trunks}\u{2514}\u{2500} {} others",
                    entries.others
                )?;
            }
            return Ok(None);
        };
        self.next = self.next.saturating_add(1);
        let is_last = self.next == entries.branches.len() && entries.others == 0;
        let (branch, trunk) = if is_last {
            ("\u{2514}\u{2500} ", "   ")
        } else {
            ("\u{251c}\u{2500} ", "\u{2502}  ")
        };
        let line = columns.line(entry.figure);
        write!(out, "{line}{}{branch}", self.trunks)?;
        out.write_all(&style.show(last_component(&entry.path)))?;
        out.write_all(b"\n")?;
        Ok(Some(Self::new(entry, format!("{}{trunk}", self.trunks))))
    }
}

fn last_component(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use diskfs::vfs::FileType;

    use super::super::tally::Space;
    use super::*;

    fn entry(path: &str, depth: usize) -> UsageEntry {
        UsageEntry {
            path: path.as_bytes().to_vec(),
            depth,
            file_type: FileType::Directory,
            space: Space::default(),
        }
    }

    fn drawn(entries: &[(&str, usize, u64)]) -> String {
        let mut picture = Picture::default();
        let mut roots = entries
            .iter()
            .filter_map(|(path, depth, figure)| picture.add(&entry(path, *depth), *figure));
        let root = roots.next().unwrap();
        assert!(roots.next().is_none());
        let mut out = Vec::new();
        root.draw(&mut out, b"/", NameStyle::Escaped, &|n| n.to_string())
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_largest_come_first() {
        let text = drawn(&[
            ("etc", 1, 10),
            ("usr/bin", 2, 20),
            ("usr/lib", 2, 60),
            ("usr", 1, 80),
            ("", 0, 100),
        ]);
        let expected = [
            "     100  100% ████████████ /",
            "      80   80% █████████▌   ├─ usr",
            "      60   60% ███████▏     │  ├─ lib",
            "      20   20% ██▍          │  └─ bin",
            "      10   10% █▏           └─ etc",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_smallest_share_a_line() {
        let names: Vec<String> = (0..20).map(|n| format!("d{n:02}")).collect();
        let mut entries: Vec<_> = names.iter().zip(1..).map(|(n, f)| (&**n, 1, f)).collect();
        entries.push(("", 0, 210));
        let text = drawn(&entries);
        assert_eq!(text.lines().count(), 1 + SHOWN_MAX + 1);
        assert!(
            text.lines()
                .nth(1)
                .unwrap()
                .ends_with("\u{251c}\u{2500} d19"),
            "{text}"
        );
        assert!(text.ends_with("\u{2514}\u{2500} 4 others\n"), "{text}");
    }
}
