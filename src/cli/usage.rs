//! Output of clap's messages about a command line: help as it is, and errors in the form of all
//! other errors if `--json` is given.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;

use clap::error::ErrorKind as ClapKind;

use diskfs::{Error, ErrorKind};

use super::session::error_json;

/// Prints clap's error about `words`, or the help or version that they request. Returns the exit
/// code.
pub(crate) fn refuse(error: &clap::Error, words: &[OsString]) -> u8 {
    let code = u8::try_from(error.exit_code()).unwrap_or(2);
    if !error.use_stderr() || !asks_json(words) {
        let _ = error.print(); // A failure here cannot be reported.
        return code;
    }
    let command = command_of(words);
    let document = error_json(&command, &usage(error, &command), code);
    let _ = writeln!(std::io::stderr(), "{document}");
    code
}

/// Returns true if `--json` is among the options.
fn asks_json(words: &[OsString]) -> bool {
    let options = words.iter().take_while(|word| *word != "--");
    options.into_iter().any(|word| word == "--json")
}

/// Returns the command's name, or the program's name if there is no command.
fn command_of(words: &[OsString]) -> String {
    let definition = super::definition();
    let is_command = |word: &&OsStr| definition.find_subcommand(word).is_some();
    let mut rest = words.iter().skip(1).map(OsString::as_os_str);
    let found = rest.find(is_command).and_then(OsStr::to_str);
    found.unwrap_or("diskfs").to_owned()
}

/// Converts clap's error to our own: the first paragraph becomes the reason, and a tip becomes the
/// next step.
fn usage(error: &clap::Error, command: &str) -> Error {
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n");
    let first = paragraphs.next().unwrap_or_default();
    let reason = match error.kind() {
        ClapKind::DisplayHelpOnMissingArgumentOrSubcommand | ClapKind::MissingSubcommand => {
            "missing command".to_owned()
        }
        _ => joined(first.strip_prefix("error: ").unwrap_or(first)),
    };
    let tip = paragraphs.find_map(|paragraph| paragraph.trim().strip_prefix("tip: "));
    let help = match command {
        "diskfs" => "see `diskfs --help`".to_owned(),
        command => format!("see `diskfs {command} --help`"),
    };
    Error::new(ErrorKind::Invalid, reason).with_hint(tip.map_or(help, joined))
}

fn joined(paragraph: &str) -> String {
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_sentence_with_a_hint() {
        let message = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let error = crate::cli::definition()
                .try_get_matches_from(&words)
                .unwrap_err();
            let command = command_of(&words);
            let usage = usage(&error, &command);
            (
                command,
                usage.reason(),
                usage.next_step().map(str::to_owned),
            )
        };
        for (words, command, reason, hint) in [
            (
                &["diskfs", "--json", "ls"][..],
                "ls",
                "the following required arguments were not provided: <IMG[:/PATH]>...",
                "see `diskfs ls --help`",
            ),
            (
                &["diskfs", "--json"],
                "diskfs",
                "missing command",
                "see `diskfs --help`",
            ),
            (
                &["diskfs", "ls", "--jsn", "x"],
                "ls",
                "unexpected argument '--jsn' found",
                "a similar argument exists: '--json'",
            ),
        ] {
            let expected = (command.to_owned(), reason.to_owned(), Some(hint.to_owned()));
            assert_eq!(message(words), expected, "{words:?}");
        }
    }

    #[test]
    fn json_is_asked_for_by_an_option() {
        let asks = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            asks_json(&words)
        };
        assert!(asks(&["diskfs", "ls", "--json"]));
        assert!(!asks(&["diskfs", "run", "x", "--", "--json"]));
    }
}
