//! Helpers for the texts that steps write.

use std::fmt::Write;

pub(super) use diskfs_etc::text::{decode, encode, with_line};

/// The first line of a file that a step has created.
pub(super) const WRITTEN: &str = "# Written by diskfs deploy.";

/// Joins lines to a text. Each line ends with a line break.
pub(super) fn of_lines<T: std::fmt::Display>(lines: impl IntoIterator<Item = T>) -> String {
    let mut text = String::new();
    for line in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns true if a line sets the variable, in the syntax of shells and systemd's settings.
pub(super) fn has_variable(text: &str, key: &str) -> bool {
    text.lines().any(|line| sets(line, key))
}

fn sets(line: &str, key: &str) -> bool {
    let rest = line.trim_start().strip_prefix(key);
    rest.is_some_and(|rest| rest.starts_with('='))
}

/// Returns the text with the variable set: in the last line that sets it, which is the effective
/// one, or in a new line.
pub(super) fn with_variable(text: &str, key: &str, value: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(at) = lines.iter().rposition(|line| sets(line, key)) else {
        return with_line(text.to_owned(), &format!("{key}={value}"));
    };
    let set = |(index, line): (usize, &&str)| {
        if index == at {
            let end = if line.ends_with('\n') { "\n" } else { "" };
            format!("{key}={value}{end}")
        } else {
            (*line).to_owned()
        }
    };
    lines.iter().enumerate().map(set).collect()
}
