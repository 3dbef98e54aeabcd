//! `sshd_config(5)` with the files that it includes, as OpenSSH reads them.

mod words;

use std::sync::Arc;

use crate::files::{Budget, Files};
use crate::text::{lines, with_line};

pub use words::arguments;
use words::keyword;

/// Where the file is, and where SUSE has that of the distribution, which counts without the first one.
pub const PLACES: [&str; 2] = ["/etc/ssh/sshd_config", "/usr/etc/ssh/sshd_config"];

/// What relative names of included files are below.
const DIR: &str = "/etc/ssh";

/// How deep files include others: `SERVCONF_MAX_DEPTH` of OpenSSH, which refuses more.
const MAX_DEPTH: usize = 16;

/// More patterns than anybody has: each takes a directory to be read.
const MAX_PATTERNS: usize = 1000;

/// As long as a path may be: `PATH_MAX` of Linux. glob(3) finds nothing for a longer pattern.
const MAX_PATTERN_BYTES: usize = 4096;

/// More than anybody includes.
const BUDGET: Budget = Budget {
    files: 1000,
    bytes: 1 << 20,
};

/// The settings for everybody, those outside of `Match` and behind `Match all`, in the order in which they count.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The settings. Of most keywords the first one counts.
    pub settings: Vec<Setting>,
    /// The patterns of included files.
    pub includes: Vec<Include>,
    /// Whether files were left out, because there are more than 1000, or 1 MiB, or more than 1000 patterns.
    pub is_cut: bool,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The keyword in lower case.
    pub keyword: String,
    /// The arguments, without quotes and comments.
    pub arguments: Vec<String>,
}

/// A pattern of included files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Include {
    /// The pattern, as an absolute path.
    pub pattern: String,
    /// The number of settings before the `Include`.
    pub at: usize,
}

impl Config {
    /// Reads the settings of a main file and of what it includes. `None` when there is no main file.
    ///
    /// # Errors
    /// The error of `files` for a file that can't be read.
    pub fn read<F: Files>(files: &F) -> Result<Option<Self>, F::Error> {
        for place in PLACES {
            if let Some(text) = files.text(place)? {
                return Self::of(files, place, &text).map(Some);
            }
        }
        Ok(None)
    }

    /// Reads the settings of a text and of what it includes.
    ///
    /// # Errors
    /// The error of `files` for a file that can't be read.
    pub fn of<F: Files>(files: &F, path: &str, text: &str) -> Result<Self, F::Error> {
        let mut reader = Reader {
            files,
            config: Self::default(),
            left: BUDGET,
        };
        reader.add(path, text, 0)?;
        Ok(reader.config)
    }

    /// Returns the settings of a keyword, the one that counts first.
    pub fn of_keyword(&self, keyword: &str) -> impl Iterator<Item = &Setting> {
        let settings = self.settings.iter();
        settings.filter(move |setting| setting.keyword.eq_ignore_ascii_case(keyword))
    }

    /// Returns the first setting of a keyword.
    pub fn first(&self, keyword: &str) -> Option<&Setting> {
        self.of_keyword(keyword).next()
    }
}

struct Reader<'f, F> {
    files: &'f F,
    config: Config,
    left: Budget,
}

impl<F: Files> Reader<'_, F> {
    fn add(&mut self, file: &str, text: &str, depth: usize) -> Result<(), F::Error> {
        let file: Arc<str> = file.into();
        let mut scope = Scope::default();
        for line in lines(text) {
            let Some((keyword, rest)) = keyword(line.body) else {
                continue;
            };
            let arguments = arguments(rest);
            if !scope.counts(keyword, &arguments) {
                continue;
            }
            if !keyword.eq_ignore_ascii_case("include") {
                self.config.settings.push(Setting {
                    file: file.clone(),
                    line: line.number,
                    keyword: keyword.to_ascii_lowercase(),
                    arguments,
                });
                continue;
            }
            for pattern in arguments {
                self.include(&pattern, depth)?;
            }
        }
        Ok(())
    }

    fn include(&mut self, pattern: &str, depth: usize) -> Result<(), F::Error> {
        let pattern = if pattern.starts_with('/') {
            pattern.to_owned()
        } else {
            format!("{DIR}/{pattern}")
        };
        if self.config.includes.len() >= MAX_PATTERNS {
            self.config.is_cut = true;
            return Ok(());
        }
        let paths = if depth < MAX_DEPTH && pattern.len() <= MAX_PATTERN_BYTES {
            self.files.expand(&pattern)?
        } else {
            Vec::new()
        };
        let at = self.config.settings.len();
        self.config.includes.push(Include { pattern, at });
        for path in paths {
            if self.config.is_cut {
                break;
            }
            let Some(text) = self.files.text(&path)? else {
                continue;
            };
            if self.left.take(&text) {
                self.add(&path, &text, depth.saturating_add(1))?;
            } else {
                self.config.is_cut = true;
            }
        }
        Ok(())
    }
}

/// For whom lines are: a `Match` ends with the next one, or with its file.
#[derive(Debug, Default)]
struct Scope {
    is_limited: bool,
}

impl Scope {
    /// Returns true if a line is a setting for everybody.
    fn counts(&mut self, keyword: &str, arguments: &[String]) -> bool {
        if keyword.eq_ignore_ascii_case("match") {
            let is_all = matches!(arguments, [word] if word.eq_ignore_ascii_case("all"));
            self.is_limited = !is_all;
            return false;
        }
        !self.is_limited
    }
}

/// Returns the text with a keyword set for everybody: in the first line that sets it, or in a new one before the
/// first `Match`. Of ports, which add up, no other stays.
pub fn with_setting(text: &str, word: &str, value: &str) -> String {
    let is_port = word.eq_ignore_ascii_case("port");
    let mut scope = Scope::default();
    let mut out = String::with_capacity(text.len());
    let mut end_of_global = None;
    let mut is_set = false;
    for line in lines(text) {
        let found = keyword(line.body);
        let counts = found.is_some_and(|(found, rest)| scope.counts(found, &arguments(rest)));
        if found.is_some_and(|(found, _)| found.eq_ignore_ascii_case("match")) {
            end_of_global.get_or_insert(out.len());
        }
        if !counts || !found.is_some_and(|(found, _)| found.eq_ignore_ascii_case(word)) {
            out.extend([line.body, line.end]);
        } else if !std::mem::replace(&mut is_set, true) {
            out.extend([word, " ", value, line.end]);
        } else if !is_port {
            out.extend([line.body, line.end]);
        }
    }
    if is_set {
        return out;
    }
    let blocks = out.split_off(end_of_global.unwrap_or(out.len()));
    with_line(out, &format!("{word} {value}")) + &blocks
}

#[cfg(test)]
mod tests;
