//! Tests that every example is a valid command line: the examples of all help texts (which are also
//! those of the man pages) and those of the README. tests/cli/examples.rs runs the examples that
//! can be run anywhere.

use std::ffi::OsString;

use clap::Command;

use crate::cli::qemu_img;

const README: &str = include_str!("../../../README.md");

/// Splits a script into its commands, and these into words, without redirections and comments. Of
/// the shell's syntax, it knows only quotes.
fn commands(script: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in script.chars().chain([' ']) {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | '|' | '&' | ';' | '<' | '>') => {
                if let (Some(word), Some(command)) = (word.take(), commands.last_mut()) {
                    command.push(word);
                }
                match character {
                    ' ' => {}
                    // The word after a redirection is a file name, not a word of the command.
                    '<' | '>' => commands.push(vec!["redirected".to_owned()]),
                    _ => commands.push(Vec::new()),
                }
            }
            _ => word.get_or_insert_default().push(character),
        }
    }
    commands
}

/// Returns the examples of a help text: the indented lines after a heading.
fn in_help(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_example = false;
    for line in text.lines() {
        match line {
            "Example:" | "Examples:" => is_example = true,
            _ if is_example && line.starts_with("  ") => found.push(line),
            _ => is_example = false,
        }
    }
    found
}

fn collect(command: &Command, scripts: &mut Vec<String>) {
    let texts = [command.get_after_help(), command.get_after_long_help()];
    for text in texts.into_iter().flatten() {
        let text = text.to_string();
        scripts.extend(in_help(&text).into_iter().map(str::to_owned));
    }
    for subcommand in command.get_subcommands() {
        collect(subcommand, scripts);
    }
}

/// Help is wrapped at 100 columns, and a wrapped example could not be copied.
#[test]
fn every_example_is_a_line() {
    let mut scripts = Vec::new();
    collect(&super::command(), &mut scripts);
    for script in scripts {
        assert!(script.len() <= 100, "{script}");
    }
}

#[test]
fn every_example_parses() {
    let mut scripts = Vec::new();
    collect(&super::command(), &mut scripts);
    let readme = README.lines().filter_map(|line| line.strip_prefix("$ "));
    scripts.extend(readme.map(str::to_owned));
    let mut count = 0;
    for script in &scripts {
        for words in commands(script) {
            if words.first().is_none_or(|word| word != "diskfs") {
                continue;
            }
            count += 1;
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            let parsed = match qemu_img::words(&words) {
                Some(words) => qemu_img::definition().try_get_matches_from(words),
                None => super::command().try_get_matches_from(&words),
            };
            assert!(parsed.is_ok(), "{script}: {}", parsed.unwrap_err());
        }
    }
    assert!(count > 150, "{count} examples are too few");
}

#[test]
fn a_script_is_taken_apart() {
    let words = commands("diskfs ls '*.a b' \"c\"|tar x > f && diskfs rm '' # diskfs no");
    let diskfs: Vec<_> = words
        .iter()
        .filter(|words| words.first().is_some_and(|word| word == "diskfs"))
        .collect();
    assert_eq!(
        diskfs,
        [&["diskfs", "ls", "*.a b", "c"][..], &["diskfs", "rm", ""]]
    );
}
