//! `/etc/sudoers` and what it includes, as sudoers(5) has it.

mod line;
mod rule;

use std::sync::Arc;

use crate::files::{Budget, Files};

use line::logical_lines;
pub use rule::Rule;

/// Where the file is.
pub const PATH: &str = "/etc/sudoers";

/// More than anybody has.
const BUDGET: Budget = Budget {
    files: 256,
    bytes: 4 << 20,
};

/// How deep files include others: `MAX_SUDOERS_DEPTH` of sudo, which refuses more.
const MAX_DEPTH: usize = 128;

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A rule.
    Rule(Rule),
    /// `@include`: a path, as it is written.
    Include(String),
    /// `@includedir`: a path, as it is written.
    IncludeDir(String),
}

/// Returns the rules and includes of a text, with the lines on which they begin, from 1.
pub fn items(text: &str) -> impl Iterator<Item = (usize, Item)> {
    logical_lines(text).filter_map(|(number, line)| Some((number, item(&line)?)))
}

/// `#` in the place of `@` is from before sudo 1.9.1.
fn item(line: &str) -> Option<Item> {
    if let Some(rest) = line.strip_prefix(['@', '#']) {
        if let Some(path) = argument(rest, "includedir") {
            return Some(Item::IncludeDir(path));
        }
        if let Some(path) = argument(rest, "include") {
            return Some(Item::Include(path));
        }
    }
    Rule::parse(line).map(Item::Rule)
}

/// Returns what follows a word and blanks, without quotes and backslashes.
fn argument(line: &str, word: &str) -> Option<String> {
    let rest = line.strip_prefix(word)?;
    let path = rest.trim_matches(line::is_blank);
    if path.len() == rest.len() || path.is_empty() {
        return None;
    }
    Some(line::unquote(path))
}

/// The rules of all files.
#[derive(Debug, Clone, Default)]
pub struct Sudoers {
    /// The rules with their files and lines, in the order in which sudo reads them. Of those that fit, the last one
    /// counts.
    pub rules: Vec<(Arc<str>, usize, Rule)>,
    /// Whether files were left out, because there are more than 256, or 4 MiB.
    pub is_cut: bool,
}

impl Sudoers {
    /// Reads the rules of `/etc/sudoers` and of what it includes. A file that is included twice counts once.
    ///
    /// # Errors
    /// The error of `files` for a file that can't be read.
    pub fn read<F: Files>(files: &F) -> Result<Self, F::Error> {
        let mut reader = Reader {
            files,
            sudoers: Self::default(),
            seen: Vec::new(),
            left: BUDGET,
        };
        reader.add(PATH.to_owned(), 0)?;
        Ok(reader.sudoers)
    }
}

struct Reader<'f, F> {
    files: &'f F,
    sudoers: Sudoers,
    /// At most as many as the budget has files.
    seen: Vec<Arc<str>>,
    left: Budget,
}

impl<F: Files> Reader<'_, F> {
    fn add(&mut self, path: String, depth: usize) -> Result<(), F::Error> {
        let is_seen = self.seen.iter().any(|seen| **seen == *path);
        if is_seen || depth > MAX_DEPTH || self.sudoers.is_cut {
            return Ok(());
        }
        let Some(text) = self.files.text(&path)? else {
            return Ok(());
        };
        if !self.left.take(&text) {
            self.sudoers.is_cut = true;
            return Ok(());
        }
        let path: Arc<str> = path.into();
        self.seen.push(path.clone());
        for (line, item) in items(&text) {
            match item {
                Item::Rule(rule) => self.sudoers.rules.push((path.clone(), line, rule)),
                Item::Include(name) => self.add(beside(&path, &name), depth.saturating_add(1))?,
                Item::IncludeDir(name) => {
                    self.add_directory(&beside(&path, &name), depth.saturating_add(1))?;
                }
            }
        }
        Ok(())
    }

    fn add_directory(&mut self, dir: &str, depth: usize) -> Result<(), F::Error> {
        let dir = dir.trim_end_matches('/');
        for name in self.files.names(dir)? {
            if is_read(&name) {
                self.add(format!("{dir}/{name}"), depth)?;
            }
        }
        Ok(())
    }
}

/// Returns true if sudo reads a file of that name in a directory of `@includedir`.
pub fn is_read(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '.', '\0']) && !name.ends_with('~')
}

/// A relative path is one from the directory of the file that includes it.
fn beside(file: &str, path: &str) -> String {
    let dir = file.rsplit_once('/').map_or("", |(dir, _)| dir);
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{dir}/{path}")
    }
}

#[cfg(test)]
mod tests;
