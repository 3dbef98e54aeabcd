//! The options of a command that are passed on to other commands, which run as child processes.

use std::ffi::{OsStr, OsString};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use diskfs::{Error, ErrorKind, Result};

use super::key::KeySelector;
use super::options::SourceArgs;

/// The options that select a filesystem of an image, as words of a command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassedOn {
    source: SourceArgs,
    words: Vec<OsString>,
}

impl PassedOn {
    /// Returns the words, such as `--partition=1`.
    ///
    /// # Errors
    /// `Invalid` if a key comes from the terminal or from standard input: only the first command
    /// could read it.
    pub(crate) fn words(&self) -> Result<&[OsString]> {
        let keys = &self.source.image.keys.key;
        if keys.iter().any(KeySelector::is_read_once) {
            let error = Error::new(ErrorKind::Invalid, "a key of --key can be read only once");
            return Err(error.with_hint("give it in a file, as NAME:file:FILE"));
        }
        Ok(&self.words)
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
            .flat_map(|argument| words_of(argument, matches))
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

/// Returns the words of an option that was given.
fn words_of(argument: &Arg, matches: &ArgMatches) -> Vec<OsString> {
    let option = format!("--{}", argument.get_long().unwrap_or_default());
    if !argument.get_action().takes_values() {
        return vec![option.into()];
    }
    let with_value = |value: &OsStr| {
        let mut word = OsString::from(format!("{option}="));
        word.push(value);
        word
    };
    let values = matches.get_raw(argument.get_id().as_str());
    values.into_iter().flatten().map(with_value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> PassedOn {
        let definition = PassedOn::augment_args(Command::new("diskfs").no_binary_name(true));
        let matches = definition.try_get_matches_from(words).unwrap();
        PassedOn::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn options_are_passed_on_as_they_were_given() {
        assert!(parse(&[]).words().unwrap().is_empty());
        let given = [
            "--partition",
            "2",
            "--force-share",
            "--key",
            "a:file:x",
            "--key=b:env:Y",
        ];
        let mut words = parse(&given).words().unwrap().to_vec();
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
        for key in ["all:ask", "all:file:-"] {
            assert!(parse(&["--key", key]).words().is_err(), "{key}");
        }
    }
}
