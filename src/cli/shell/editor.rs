//! The line editor of the interactive shell: history, and completion of commands, options and paths.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::config::{CompletionType, Config};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};

use super::complete::{Completion, Completions};

/// The maximum number of lines in the history.
const MAX_HISTORY: usize = 1000;

/// The line editor.
pub(super) struct LineEditor {
    editor: Editor<Assistant, FileHistory>,
    history: Option<PathBuf>,
}

/// A line or a key of the user at a prompt.
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C: the line is dropped.
    Interrupted,
    /// Ctrl-D.
    End,
}

impl LineEditor {
    /// Opens the terminal and the history, which is kept in the user's state directory.
    ///
    /// # Errors
    /// Fails if the terminal cannot be used.
    pub(super) fn open() -> rustyline::Result<Self> {
        let config = Config::builder()
            .max_history_size(MAX_HISTORY)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .build();
        let mut editor = Editor::with_config(config)?;
        let history = history_file();
        if let Some(file) = &history {
            let _ = editor.load_history(file); // There is none at the first time.
        }
        Ok(Self { editor, history })
    }

    /// Reads a line.
    ///
    /// # Errors
    /// Fails if the terminal cannot be used.
    pub(super) fn read(
        &mut self,
        prompt: &str,
        completions: Completions,
    ) -> rustyline::Result<Typed> {
        self.editor.set_helper(Some(Assistant {
            completions,
            host: FilenameCompleter::new(),
        }));
        match self.editor.readline(prompt) {
            Ok(line) => {
                self.keep(&line);
                Ok(Typed::Line(line))
            }
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupted),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(error),
        }
    }

    /// Adds a line to the history. A history that cannot be written is not worth an error.
    fn keep(&mut self, line: &str) {
        let is_new = self.editor.add_history_entry(line).unwrap_or(false);
        if let Some(file) = self.history.as_ref().filter(|_| is_new) {
            let _ = self.editor.append_history(file);
        }
    }
}

/// Returns the file of the history, in a directory that only the user can read.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .filter(|it| !it.is_empty())
        .map(PathBuf::from);
    let state =
        state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    let directory = state.join("diskfs");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .ok()?;
    Some(directory.join("history"))
}

/// Completes the word before the cursor.
struct Assistant {
    completions: Completions,
    host: FilenameCompleter,
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        match self.completions.of(line.get(..at).unwrap_or(line)) {
            Completion::HostFile => self.host.complete(line, at, context),
            Completion::Words { start, words } => {
                let pairs = words.into_iter().map(|word| Pair {
                    display: last_part(&word).to_owned(),
                    replacement: word,
                });
                Ok((start, pairs.collect()))
            }
        }
    }
}

/// Returns the part of a candidate that the list shows: the last name of a path.
fn last_part(word: &str) -> &str {
    let without_end = word.trim_end_matches('/');
    let start = without_end.rfind('/').map_or(0, |at| at.saturating_add(1));
    word.get(start..)
        .filter(|part| !part.is_empty())
        .unwrap_or(word)
}

impl Hinter for Assistant {
    type Hint = String;
}

impl Highlighter for Assistant {}

impl Validator for Assistant {}

impl Helper for Assistant {}

/// Returns a name as text, or `None` if it has bytes that a terminal must not get.
pub(super) fn shown(name: &[u8]) -> Option<&str> {
    let name = OsStr::from_bytes(name).to_str()?;
    let escaped = crate::cli::show::name::message(name);
    (escaped == name).then_some(name)
}
