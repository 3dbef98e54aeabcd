//! `sshd_config(5)` with the files that it includes, parsed as by OpenSSH.

mod words;

use std::sync::Arc;

use crate::files::{Budget, Files};
use crate::text::{lines, with_line};

pub use words::arguments;
use words::keyword;

/// The paths of the file. The second one is the distribution's on SUSE, which counts if the first
/// one is missing.
pub const PLACES: [&str; 2] = ["/etc/ssh/sshd_config", "/usr/etc/ssh/sshd_config"];

/// The directory to which relative names of included files refer.
const DIR: &str = "/etc/ssh";

/// The limit on the depth of includes: `SERVCONF_MAX_DEPTH` of OpenSSH, which refuses deeper ones.
const MAX_DEPTH: usize = 16;

/// The limit on the number of patterns, which is larger than in any real configuration. Each
/// pattern requires reading a directory.
const MAX_PATTERNS: usize = 1000;

/// The limit on the length of a pattern: `PATH_MAX` of Linux. glob(3) finds nothing for a longer
/// pattern.
const MAX_PATTERN_BYTES: usize = 4096;

/// The limits on the number and total size of included files, which are larger than in any real
/// configuration.
const BUDGET: Budget = Budget {
    files: 1000,
    bytes: 1 << 20,
};

/// The settings outside of conditional `Match` blocks, in the order in which sshd applies them.
/// `Match all` is not conditional.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The settings. For most keywords, the first one takes effect.
    pub settings: Vec<Setting>,
    /// The patterns of `Include`.
    pub includes: Vec<Include>,
    /// True if files were skipped because of a limit: 1000 files, 1 MiB or 1000 patterns.
    pub is_truncated: bool,
}

/// A setting with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The path of the file.
    pub file: Arc<str>,
    /// The line number, counted from 1.
    pub line: usize,
    /// The keyword in lower case.
    pub keyword: String,
    /// The arguments with quotes resolved and comments removed.
    pub arguments: Vec<String>,
}

/// An `Include` pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Include {
    /// The pattern, as an absolute path.
    pub pattern: String,
    /// The number of settings that precede the `Include`.
    pub at: usize,
}

impl Config {
    /// Reads the settings of the main file and of included files. Returns `None` if there is no
    /// main file.
    ///
    /// # Errors
    /// The error of `files` if a file cannot be read.
    pub fn read<F: Files>(files: &F) -> Result<Option<Self>, F::Error> {
        for place in PLACES {
            if let Some(text) = files.text(place)? {
                return Self::of(files, place, &text).map(Some);
            }
        }
        Ok(None)
    }

    /// Reads the settings of a text and of the files that it includes.
    ///
    /// # Errors
    /// The error of `files` if a file cannot be read.
    pub fn of<F: Files>(files: &F, path: &str, text: &str) -> Result<Self, F::Error> {
        let mut reader = Reader {
            files,
            config: Self::default(),
            left: BUDGET,
        };
        reader.add(path, text, 0)?;
        Ok(reader.config)
    }

    /// Returns the settings of a keyword. The first one takes effect.
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
            if !scope.is_unconditional(keyword, &arguments) {
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
            self.config.is_truncated = true;
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
            if self.config.is_truncated {
                break;
            }
            let Some(text) = self.files.text(&path)? else {
                continue;
            };
            if self.left.take(&text) {
                self.add(&path, &text, depth.saturating_add(1))?;
            } else {
                self.config.is_truncated = true;
            }
        }
        Ok(())
    }
}

/// The scope of lines: a `Match` block ends at the next `Match` or at the end of its file.
#[derive(Debug, Default)]
struct Scope {
    is_limited: bool,
}

impl Scope {
    /// Returns true if a line is an unconditional setting.
    fn is_unconditional(&mut self, keyword: &str, arguments: &[String]) -> bool {
        if keyword.eq_ignore_ascii_case("match") {
            let is_all = matches!(arguments, [word] if word.eq_ignore_ascii_case("all"));
            self.is_limited = !is_all;
            return false;
        }
        !self.is_limited
    }
}

/// Returns the text with a keyword set unconditionally: in the first line that sets it, or in a new
/// line before the first `Match`. For `Port`, whose settings add up, all others are removed.
pub fn with_setting(text: &str, word: &str, value: &str) -> String {
    let is_port = word.eq_ignore_ascii_case("port");
    let mut scope = Scope::default();
    let mut out = String::with_capacity(text.len());
    let mut end_of_global = None;
    let mut is_set = false;
    for line in lines(text) {
        let found = keyword(line.body);
        let counts =
            found.is_some_and(|(found, rest)| scope.is_unconditional(found, &arguments(rest)));
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
