//! The options of a command that are passed on to other commands, which run as child processes.

use std::ffi::{OsStr, OsString};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use diskfs::{Error, ErrorKind, Result};

use super::key::KeySelector;
use super::options::SourceArgs;
use super::session::Session;

/// The options that select a filesystem of an image, as words of a command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassedOn {
    source: SourceArgs,
    words: Vec<OsString>,
}

impl PassedOn {
    /// Returns the words for commands of this run, such as `--partition=1`.
    ///
    /// # Errors
    /// `Invalid` if a key comes from the terminal or from standard input: only the first command
    /// could read it.
    pub(crate) fn words(&self, session: &Session) -> Result<Vec<OsString>> {
        let keys = &self.source.image.keys.key;
        if keys.iter().any(KeySelector::is_read_once) {
            let error = Error::new(ErrorKind::Invalid, "a key of --key can be read only once");
            return Err(error.with_hint("give it in a file, as NAME:file:FILE"));
        }
        let mut words = self.words.clone();
        if !session.confines() {
            words.push("--no-sandbox".into());
        }
        Ok(words)
    }
}

impl Args for PassedOn {
    fn augment_args(command: Command) -> Command {
        SourceArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        SourceArgs::augment_args_for_update(command)
    }
}

impl FromArgMatches for PassedOn {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let definition = SourceArgs::augment_args(Command::new("diskfs"));
        let given = definition.get_arguments().filter(|argument| {
            matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
        });
        let words = given
            .flat_map(|argument| option_words(argument, matches))
            .collect();
        let source = SourceArgs::from_arg_matches(matches)?;
        Ok(Self { source, words })
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns one word for each time that an option was given: `--option=VALUE`, `--option` or `-o`.
pub(crate) fn option_words(option: &Arg, matches: &ArgMatches) -> Vec<OsString> {
    let id = option.get_id().as_str();
    let (name, separator) = match (option.get_long(), option.get_short()) {
        (Some(long), _) => (format!("--{long}"), "="),
        (None, short) => (format!("-{}", short.unwrap_or_default()), ""),
    };
    if !option.get_action().takes_values() {
        let count = matches.indices_of(id).into_iter().flatten().count();
        return vec![name.into(); count];
    }
    let with_value = |value: &OsStr| {
        [name.as_ref(), separator.as_ref(), value]
            .into_iter()
            .collect()
    };
    let values = matches.get_raw(id).into_iter().flatten();
    values.map(with_value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{GlobalArgs, ProgressMode};

    fn parse(words: &[&str]) -> PassedOn {
        let definition = PassedOn::augment_args(Command::new("diskfs").no_binary_name(true));
        let matches = definition.try_get_matches_from(words).unwrap();
        PassedOn::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn options_are_passed_on_as_they_were_given() {
        assert!(parse(&[]).words.is_empty());
        let given = [
            "--partition",
            "2",
            "--force-share",
            "--key",
            "a:file:x",
            "--key=b:env:Y",
        ];
        let mut words = parse(&given).words;
        words.sort();
        let expected = [
            "--force-share",
            "--key=a:file:x",
            "--key=b:env:Y",
            "--partition=2",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn keys_that_can_be_read_once_are_refused() {
        let global = GlobalArgs {
            json: false,
            progress: ProgressMode::None,
            no_sandbox: true,
            verbose: 0,
        };
        let session = Session::new(&global, "shell");
        assert_eq!(parse(&[]).words(&session).unwrap(), ["--no-sandbox"]);
        for key in ["all:ask", "all:file:-"] {
            assert!(parse(&["--key", key]).words(&session).is_err(), "{key}");
        }
    }
}
