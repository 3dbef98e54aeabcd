//! `/etc/sudoers` and the files that it includes, in the format of sudoers(5).

mod line;
mod rule;

use std::sync::Arc;

use crate::files::{Budget, Files};

use line::logical_lines;
pub use rule::Rule;

/// The path of the main file.
pub const PATH: &str = "/etc/sudoers";

/// The limits on the number and total size of files, which are larger than in any real
/// configuration.
const BUDGET: Budget = Budget {
    files: 256,
    bytes: 4 << 20,
};

/// The limit on the depth of includes: `MAX_SUDOERS_DEPTH` of sudo, which refuses deeper ones.
const MAX_DEPTH: usize = 128;

/// The meaning of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A rule about users and commands.
    Rule(Rule),
    /// `@include`, with the path as written.
    Include(String),
    /// `@includedir`, with the path as written.
    IncludeDir(String),
}

/// Returns the rules and includes of a text, with the numbers of their first lines, counted from 1.
pub fn items(text: &str) -> impl Iterator<Item = (usize, Item)> {
    logical_lines(text).filter_map(|(number, line)| Some((number, item(&line)?)))
}

/// Parses an include or a rule. sudo before 1.9.1 has `#` instead of `@` in includes.
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

/// Returns the argument after a word and blanks, with quotes and backslashes resolved.
fn argument(line: &str, word: &str) -> Option<String> {
    let rest = line.strip_prefix(word)?;
    let path = rest.trim_matches(line::is_blank);
    if path.len() == rest.len() || path.is_empty() {
        return None;
    }
    Some(line::unquote(path))
}

/// The rules of all sudoers files.
#[derive(Debug, Clone, Default)]
pub struct Sudoers {
    /// The rules with their files and line numbers, in the order in which sudo reads them. The last
    /// rule that matches takes effect.
    pub rules: Vec<(Arc<str>, usize, Rule)>,
    /// True if files were skipped because of a limit: 256 files or 4 MiB.
    pub is_truncated: bool,
}

impl Sudoers {
    /// Reads the rules of `/etc/sudoers` and of the files that it includes. A file that is included
    /// twice is only read once.
    ///
    /// # Errors
    /// The error of `files` if a file cannot be read.
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
    /// The files that were already read. The budget limits their number.
    seen: Vec<Arc<str>>,
    left: Budget,
}

impl<F: Files> Reader<'_, F> {
    fn add(&mut self, path: String, depth: usize) -> Result<(), F::Error> {
        let is_seen = self.seen.iter().any(|seen| **seen == *path);
        if is_seen || depth > MAX_DEPTH || self.sudoers.is_truncated {
            return Ok(());
        }
        let Some(text) = self.files.text(&path)? else {
            return Ok(());
        };
        if !self.left.take(&text) {
            self.sudoers.is_truncated = true;
            return Ok(());
        }
        let path: Arc<str> = path.into();
        self.seen.push(path.clone());
        for (line, item) in items(&text) {
            match item {
                Item::Rule(rule) => self.sudoers.rules.push((path.clone(), line, rule)),
                Item::Include(name) => {
                    self.add(resolve_include(&path, &name), depth.saturating_add(1))?;
                }
                Item::IncludeDir(name) => {
                    self.add_directory(&resolve_include(&path, &name), depth.saturating_add(1))?;
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

/// Returns true if sudo reads a file of this name in a directory of `@includedir`.
pub fn is_read(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '.', '\0']) && !name.ends_with('~')
}

/// Resolves a path of an include. A relative path starts at the directory of the including file.
fn resolve_include(file: &str, path: &str) -> String {
    let dir = file.rsplit_once('/').map_or("", |(dir, _)| dir);
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{dir}/{path}")
    }
}

#[cfg(test)]
mod tests;
