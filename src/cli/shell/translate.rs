//! The command lines of diskfs that the shell's commands stand for: with the image, and with paths
//! relative to the current directory.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use crate::cli::passed_on::option_words;

/// The image and the directory of the shell.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The image, as diskfs takes it.
    pub(super) image: OsString,
    /// The current directory in the image, an absolute path.
    pub(super) directory: Vec<u8>,
    /// Options for every command that has them, such as `--partition=1`.
    pub(super) options: Vec<OsString>,
}

impl Place {
    /// Returns the operand for a path, which may be relative to the current directory.
    pub(super) fn operand(&self, path: &[u8]) -> OsString {
        OsString::from_vec([self.image.as_bytes(), b":", &self.absolute(path)].concat())
    }

    /// Returns an absolute path without `.` and `..`.
    pub(super) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        let from: &[u8] = if path.starts_with(b"/") {
            b""
        } else {
            &self.directory
        };
        let mut names: Vec<&[u8]> = Vec::new();
        for name in from
            .split(|&byte| byte == b'/')
            .chain(path.split(|&byte| byte == b'/'))
        {
            match name {
                b"" | b"." => {}
                b".." => drop(names.pop()),
                _ => names.push(name),
            }
        }
        let mut absolute = vec![b'/'];
        absolute.extend(names.join(&b'/'));
        // A slash at the end says that a symlink is followed.
        if path.ends_with(b"/") && absolute.len() > 1 {
            absolute.push(b'/');
        }
        absolute
    }
}

/// The first operand of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstOperand {
    /// The image, which the shell adds.
    Image,
    /// A path in the image; without one, the shell adds its directory.
    Path,
    /// Something else, with paths after it.
    OtherThenPath,
    Other,
}

/// Translates a command. `definition` is that of the whole program.
///
/// # Errors
/// The error of clap, which can also be a request for help.
pub(super) fn translate(
    definition: &Command,
    words: &[Vec<u8>],
    place: &Place,
) -> Result<Vec<OsString>, Box<clap::Error>> {
    let (leaf, depth) = leaf(definition, words);
    let words: Vec<OsString> = words
        .iter()
        .map(|word| OsString::from_vec(word.clone()))
        .collect();
    let (names, rest) = words.split_at(depth);
    let attempts = attempts(first_operand(leaf), rest, place);
    let mut first_error = None;
    for attempt in attempts {
        let line = names.iter().cloned().chain(attempt);
        let program = definition.clone().no_binary_name(true);
        match program.try_get_matches_from(line) {
            Ok(matches) => {
                let matches = innermost(&matches);
                if !has_all_operands(leaf, matches) {
                    continue;
                }
                let mut translated = names.to_vec();
                translated.extend(options_of(leaf, place));
                translated.extend(given(leaf, matches, place));
                return Ok(translated);
            }
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(Box::new(first_error.unwrap_or_else(|| {
        clap::Error::new(clap::error::ErrorKind::MissingSubcommand)
    })))
}

/// Returns the command that the words name, and the number of its names.
fn leaf<'a>(definition: &'a Command, words: &[Vec<u8>]) -> (&'a Command, usize) {
    let mut command = definition;
    for (depth, word) in words.iter().enumerate() {
        match command.find_subcommand(OsStr::from_bytes(word)) {
            Some(found) => command = found,
            None => return (command, depth),
        }
    }
    (command, words.len())
}

/// Returns the name of an argument's values, such as `IMG[:/PATH]`.
fn value_name(argument: &Arg) -> &str {
    argument
        .get_value_names()
        .and_then(|names| names.first())
        .map_or("", |name| name.as_str())
}

fn is_path(name: &str) -> bool {
    name.contains("IMG") && name.contains(':')
}

/// Returns true if a command has operands that are paths in the image.
pub(super) fn takes_paths(command: &Command) -> bool {
    command
        .get_positionals()
        .any(|argument| is_path(value_name(argument)))
}

fn first_operand(command: &Command) -> FirstOperand {
    let first = command
        .get_positionals()
        .next()
        .map(value_name)
        .unwrap_or_default();
    let second = command.get_positionals().nth(1).map(value_name);
    let makes_image = command.get_name() == "create" && second == Some("SIZE");
    match first {
        // The two sides of `diff`, of which the old one can be the whole image.
        "A" if command.get_name() == "diff" => FirstOperand::Image,
        _ if first.starts_with("IMG") && is_path(first) => FirstOperand::Path,
        _ if first.starts_with("IMG") && !makes_image => FirstOperand::Image,
        _ if takes_paths(command) => FirstOperand::OtherThenPath,
        _ => FirstOperand::Other,
    }
}

/// Returns the words to try, the most likely ones first.
fn attempts(first: FirstOperand, rest: &[OsString], place: &Place) -> Vec<Vec<OsString>> {
    let before = |word: &OsStr| [&[word.to_owned()], rest].concat();
    let after = |word: &OsStr| [rest, &[word.to_owned()]].concat();
    let here = OsStr::new(":");
    match first {
        FirstOperand::Image if rest.iter().any(|word| word.as_bytes().starts_with(b":")) => {
            vec![rest.to_vec(), before(&place.image)]
        }
        FirstOperand::Image => vec![before(&place.image), rest.to_vec()],
        FirstOperand::Path => vec![rest.to_vec(), before(here)],
        FirstOperand::OtherThenPath => vec![rest.to_vec(), after(here)],
        FirstOperand::Other => vec![rest.to_vec()],
    }
}

/// Returns true unless `grep` has a pattern and no path, which clap does not know.
fn has_all_operands(command: &Command, matches: &ArgMatches) -> bool {
    let patterns = command
        .get_positionals()
        .find(|it| value_name(it).starts_with("PATTERN"));
    let count = |argument: &Arg| {
        let values = matches.get_raw(argument.get_id().as_str());
        values.map_or(0, Iterator::count)
    };
    patterns.is_none_or(|argument| count(argument) > usize::from(!has_pattern_option(matches)))
}

/// Returns true if the pattern of `grep` is an option and not its first operand.
fn has_pattern_option(matches: &ArgMatches) -> bool {
    let id = "patterns";
    matches.ids().any(|known| known == id)
        && matches.value_source(id) == Some(ValueSource::CommandLine)
}

fn innermost(matches: &ArgMatches) -> &ArgMatches {
    match matches.subcommand() {
        Some((_, inner)) => innermost(inner),
        None => matches,
    }
}

/// Returns the shell's options that a command has.
fn options_of<'a>(command: &'a Command, place: &'a Place) -> impl Iterator<Item = OsString> + 'a {
    let has = |word: &OsString| {
        let word = word.to_string_lossy();
        let name = word.trim_start_matches('-');
        let name = name.split_once('=').map_or(name, |(name, _)| name);
        command
            .get_arguments()
            .any(|argument| argument.get_long() == Some(name))
    };
    place.options.iter().filter(move |word| has(word)).cloned()
}

/// Returns the options and operands that were given, in their order.
fn given(command: &Command, matches: &ArgMatches, place: &Place) -> Vec<OsString> {
    let mut words: Vec<(usize, OsString)> = Vec::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let is_known = matches.ids().any(|known| known == id);
        if !is_known || matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let indices = matches.indices_of(id).into_iter().flatten();
        let translated = words_of(argument, matches, place);
        words.extend(indices.zip(translated));
    }
    words.sort_by_key(|(index, _)| *index);
    words.into_iter().map(|(_, word)| word).collect()
}

/// Returns one word for each time that an argument was given.
fn words_of(argument: &Arg, matches: &ArgMatches, place: &Place) -> Vec<OsString> {
    if !argument.is_positional() {
        return option_words(argument, matches);
    }
    let values = matches.get_raw(argument.get_id().as_str());
    let pattern_is_first =
        value_name(argument).starts_with("PATTERN") && !has_pattern_option(matches);
    let is_path = is_path(value_name(argument));
    let word = |(number, value): (usize, &OsStr)| {
        let is_path = is_path && !(pattern_is_first && number == 0);
        operand(value, is_path, place)
    };
    values.into_iter().flatten().enumerate().map(word).collect()
}

/// Returns an operand. `:PATH` stands for a path in the image where the command expects files of the
/// host.
fn operand(value: &OsStr, is_path: bool, place: &Place) -> OsString {
    match value.as_bytes().strip_prefix(b":") {
        Some(path) => place.operand(path),
        None if is_path => place.operand(value.as_bytes()),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::shell::line;

    fn translated(text: &str) -> Result<String, String> {
        let mut definition = crate::cli::definition();
        definition.build();
        let place = Place {
            image: "d.img".into(),
            directory: b"/etc".to_vec(),
            options: vec!["--partition=1".into()],
        };
        let words = line::parse(text).unwrap().words;
        let words = translate(&definition, &words, &place).map_err(|error| error.to_string())?;
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn paths_are_in_the_image() {
        let cases = [
            ("ls", "ls --partition=1 d.img:/etc"),
            ("ls -l -a", "ls --partition=1 d.img:/etc -l --all"),
            (
                "ls -la ssh ../var",
                "ls --partition=1 -l --all d.img:/etc/ssh d.img:/var",
            ),
            (
                "cat hosts /a",
                "cat --partition=1 d.img:/etc/hosts d.img:/a",
            ),
            ("du -d 1", "du --partition=1 d.img:/etc --max-depth=1"),
            (
                "find -name *.conf",
                "find --partition=1 d.img:/etc -name *.conf",
            ),
            ("find / -type f", "find --partition=1 d.img:/ -type f"),
            (
                "grep root passwd",
                "grep --partition=1 root d.img:/etc/passwd",
            ),
            ("grep root", "grep --partition=1 root d.img:/etc"),
            (
                "grep -e root passwd",
                "grep --partition=1 --regexp=root d.img:/etc/passwd",
            ),
            ("mv a b", "mv --partition=1 d.img:/etc/a d.img:/etc/b"),
            (
                "chmod 0600 shadow",
                "chmod --partition=1 0600 d.img:/etc/shadow",
            ),
            (
                "ln -s target name",
                "ln --partition=1 --symbolic target d.img:/etc/name",
            ),
            (
                "xattr get user.a f",
                "xattr get --partition=1 user.a d.img:/etc/f",
            ),
            ("cp :hosts .", "cp --partition=1 d.img:/etc/hosts ."),
            ("cp hosts :", "cp --partition=1 hosts d.img:/etc"),
        ];
        for (line, expected) in cases {
            assert_eq!(translated(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn commands_get_the_image() {
        let cases = [
            ("info", "info --partition=1 d.img"),
            ("info --map", "info --partition=1 d.img --map"),
            ("log -n 5", "log --partition=1 d.img --lines=5"),
            ("df -h", "df --partition=1 d.img --human-readable"),
            ("snapshot create before", "snapshot create d.img before"),
            (
                "diff --from-snapshot a",
                "diff --partition=1 d.img --from-snapshot=a",
            ),
            (
                "diff :/etc other.img:/etc",
                "diff --partition=1 d.img:/etc other.img:/etc",
            ),
            (
                "deploy --hostname a --timezone UTC --hostname b",
                "deploy --partition=1 d.img --hostname=a --timezone=UTC --hostname=b",
            ),
            ("deploy --list-steps", "deploy --partition=1 --list-steps"),
            ("convert out.qcow2", "convert --partition=1 d.img out.qcow2"),
            ("create new.img 1M", "create new.img 1M"),
        ];
        for (line, expected) in cases {
            assert_eq!(translated(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn wrong_commands_are_refused() {
        assert!(translated("ls --bogus").unwrap_err().contains("--bogus"));
        assert!(translated("bogus").unwrap_err().contains("bogus"));
        assert!(translated("chmod").is_err());
    }

    #[test]
    fn paths_are_relative_to_the_directory() {
        let place = Place {
            image: "d.img".into(),
            directory: b"/usr/lib".to_vec(),
            options: Vec::new(),
        };
        let cases = [
            ("", "/usr/lib"),
            ("..", "/usr"),
            ("../../..", "/"),
            ("a/./b", "/usr/lib/a/b"),
            ("/x/", "/x/"),
            ("/", "/"),
        ];
        for (path, expected) in cases {
            assert_eq!(
                place.absolute(path.as_bytes()),
                expected.as_bytes(),
                "{path}"
            );
        }
    }
}
