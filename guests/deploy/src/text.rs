//! Texts that steps write.

use std::fmt::Write;

pub(super) use diskfs_etc::text::{decode, encode, with_line};

/// What begins a file that a step has made.
pub(super) const WRITTEN: &str = "# Written by diskfs deploy.";

/// `lines` as a text, each ended.
pub(super) fn of_lines<T: std::fmt::Display>(lines: impl IntoIterator<Item = T>) -> String {
    let mut text = String::new();
    for line in lines {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Whether a line sets a variable, as shells and systemd's settings do.
pub(super) fn has_variable(text: &str, key: &str) -> bool {
    text.lines().any(|line| sets(line, key))
}

fn sets(line: &str, key: &str) -> bool {
    let rest = line.trim_start().strip_prefix(key);
    rest.is_some_and(|rest| rest.starts_with('='))
}

/// The text with the variable set: in its last line that does, which is the one that counts, or in a new one.
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
