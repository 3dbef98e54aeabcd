//! The failure of a command, in the form of qemu-img's messages.

use std::io::Write as _;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind as ClapKind};

use diskfs::block;

use super::NAME;
use crate::cli::show::name::message;

pub(super) type Result<T> = std::result::Result<T, Failure>;

/// The exit code of most failures.
const FAILED: u8 = 1;

/// A message, and the exit code.
#[derive(Debug)]
pub(super) struct Failure {
    /// The message without the program's name; `None` if it was printed.
    text: Option<String>,
    /// The command whose help is named after the message.
    help: Option<String>,
    code: u8,
}

impl Failure {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            help: None,
            code: FAILED,
        }
    }

    /// Returns the failure to open an image.
    pub(super) fn to_open(path: &Path, error: impl Into<diskfs::Error>) -> Self {
        let error = error.into();
        Self::new(format!(
            "Could not open '{}': {}",
            path.display(),
            text(&error)
        ))
    }

    /// Returns a failure that starts with these words.
    pub(super) fn at(what: &str, error: impl Into<diskfs::Error>) -> Self {
        Self::new(format!("{what}: {}", text(&error.into())))
    }

    /// Returns a failure that names the help of a command.
    pub(super) fn usage(text: impl Into<String>, command: &str) -> Self {
        Self {
            help: Some(command.to_owned()),
            ..Self::new(text)
        }
    }

    /// Sets the exit code.
    pub(super) fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// Converts an error of the command line, whose command is `command`.
    pub(super) fn of_usage(error: &clap::Error, command: &str) -> Self {
        let value = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => text.clone(),
            Some(ContextValue::Strings(all)) => all.join(", "),
            _ => String::new(),
        };
        match error.kind() {
            ClapKind::MissingSubcommand | ClapKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Self::usage("Not enough arguments", "")
            }
            ClapKind::InvalidSubcommand => {
                let name = value(ContextKind::InvalidSubcommand);
                Self::usage(format!("Command not found: {name}"), "")
            }
            ClapKind::UnknownArgument => {
                let option = value(ContextKind::InvalidArg);
                Self::usage(format!("unrecognized option '{option}'"), command)
            }
            ClapKind::MissingRequiredArgument => Self::usage(
                format!("missing {}", value(ContextKind::InvalidArg)),
                command,
            ),
            _ => {
                let text = error.render().to_string();
                let first = text.lines().next().unwrap_or_default();
                let first = first.strip_prefix("error: ").unwrap_or(first);
                Self::usage(first, command)
            }
        }
    }

    /// Prints the message, and returns the exit code.
    pub(super) fn print(&self) -> u8 {
        let Some(text) = &self.text else {
            return self.code;
        };
        let mut out = std::io::stderr().lock();
        // A failure here cannot be reported.
        let _ = writeln!(out, "{NAME}: {}", message(text));
        if let Some(command) = &self.help {
            let command = if command.is_empty() {
                NAME.to_owned()
            } else {
                format!("{NAME} {command}")
            };
            let _ = writeln!(out, "Try '{command} --help' for more info");
        }
        self.code
    }
}

/// Prints a warning on standard error.
pub(super) fn warn(text: &str) {
    let mut out = std::io::stderr().lock();
    // A failure here cannot be reported.
    let _ = writeln!(out, "{NAME}: warning: {}", message(text));
}

/// Returns the text of an error, with its reasons.
fn text(error: &diskfs::Error) -> String {
    block::with_reasons(error)
}

impl From<diskfs::Error> for Failure {
    fn from(error: diskfs::Error) -> Self {
        if error.is_broken_pipe() {
            return Self {
                text: None,
                help: None,
                code: FAILED,
            };
        }
        Self::new(text(&error))
    }
}

impl From<block::Error> for Failure {
    fn from(error: block::Error) -> Self {
        diskfs::Error::from(error).into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        diskfs::Error::from(error).into()
    }
}
