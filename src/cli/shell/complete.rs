//! The candidates for the word before the cursor.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use clap::Command;

use super::BUILTINS;
use super::children::Children;
use super::editor::shown;
use super::line;
use super::translate::{Place, takes_paths};
use crate::cli::complete::words;

/// The candidates for a word.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Completion {
    /// The names of files of the host.
    HostFile,
    /// Words that replace the line from byte `start` to the cursor.
    Words { start: usize, words: Vec<String> },
}

/// Everything that candidates depend on.
#[derive(Debug, Clone)]
pub(super) struct Completions {
    pub(super) children: Arc<Children>,
    pub(super) definition: Arc<Command>,
    pub(super) place: Place,
}

impl Completions {
    /// Returns the candidates for the end of a line.
    pub(super) fn of(&self, line: &str) -> Completion {
        let Some((words, start)) = line::unfinished(line) else {
            return Completion::HostFile;
        };
        let Some((current, before)) = words.split_last() else {
            return Completion::Words {
                start,
                words: Vec::new(),
            };
        };
        let words = match before.first().map(String::as_str) {
            Some("lcd") => return Completion::HostFile,
            Some("cd") => self.paths(current),
            _ => match self.of_command(before, current) {
                Some(words) => words,
                None => return Completion::HostFile,
            },
        };
        Completion::Words { start, words }
    }

    /// Returns the candidates for a word of a command of diskfs, or `None` for a file of the host.
    fn of_command(&self, before: &[String], current: &str) -> Option<Vec<String>> {
        let mut command = &*self.definition;
        for word in before {
            match command.find_subcommand(word) {
                Some(found) => command = found,
                None => break,
            }
        }
        if command.has_subcommands() {
            let names = command
                .get_subcommands()
                .filter(|it| !it.is_hide_set())
                .map(Command::get_name);
            let builtins = BUILTINS
                .iter()
                .map(|(name, _)| *name)
                .filter(|_| before.is_empty());
            return Some(fitting(
                names.chain(builtins).map(ToOwned::to_owned),
                current,
            ));
        }
        if current.starts_with('-') {
            let options = command.get_arguments().filter(|it| !it.is_hide_set());
            let options = options.filter_map(|it| Some(format!("--{}", it.get_long()?)));
            return Some(fitting(options, current));
        }
        match current.strip_prefix(':') {
            Some(path) => {
                let paths = self.paths(path).into_iter();
                Some(paths.map(|path| format!(":{path}")).collect())
            }
            None if takes_paths(command) => Some(self.paths(current)),
            None => {
                let known = self.known_words(before, current);
                (!known.is_empty()).then_some(known)
            }
        }
    }

    /// Returns the paths in the image that begin like this one, in the form in which it was typed.
    fn paths(&self, typed: &str) -> Vec<String> {
        let split = typed.rfind('/').map_or(0, |at| at.saturating_add(1));
        let (directory, name) = typed.split_at(split);
        let mut absolute = self.place.absolute(directory.as_bytes());
        if !absolute.ends_with(b"/") {
            absolute.push(b'/');
        }
        let prefix = [self.place.image.as_bytes(), b":", &absolute].concat();
        let found = self.candidates(&["ls"], &[&prefix, name.as_bytes()].concat());
        let names = found
            .iter()
            .filter_map(|word| shown(word.strip_prefix(&*prefix)?));
        names
            .map(|name| format!("{}{}", quoted(directory), quoted(name)))
            .collect()
    }

    /// Returns names that belong to the image, such as those of snapshots.
    fn known_words(&self, before: &[String], current: &str) -> Vec<String> {
        let names: Vec<&str> = before.iter().map(String::as_str).collect();
        let mut line = names;
        let image = self.place.image.to_string_lossy();
        line.push(&image);
        let found = self.candidates(&line, current.as_bytes());
        found
            .iter()
            .filter_map(|word| shown(word))
            .map(quoted)
            .collect()
    }

    /// Asks the hidden command that the scripts of shells call.
    fn candidates(&self, before: &[&str], current: &[u8]) -> Vec<Vec<u8>> {
        let mut line = b"diskfs".to_vec();
        for word in before.iter().map(|word| word.as_bytes()).chain([current]) {
            line.push(b' ');
            line.extend(in_single_quotes(word));
        }
        // The last quote would end the word that is completed.
        line.pop();
        let line = <OsString as std::os::unix::ffi::OsStringExt>::from_vec(line);
        let printed = self
            .children
            .quiet_output(&["complete".into(), "zsh".into(), line]);
        let lines = printed
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty());
        lines.map(<[u8]>::to_vec).collect()
    }
}

fn fitting(words: impl Iterator<Item = String>, begin: &str) -> Vec<String> {
    let mut fitting: Vec<String> = words.filter(|word| word.starts_with(begin)).collect();
    fitting.sort();
    fitting.dedup();
    fitting
}

fn in_single_quotes(word: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for &byte in word {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            _ => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Returns a name as a word of a line.
fn quoted(name: &str) -> String {
    let quoted = words::quoted(name.as_bytes());
    // Only ASCII characters were added, before whole characters.
    String::from_utf8(quoted).unwrap_or_default()
}
