//! Formatting of names, sizes, times, modes, owners and JSON.

pub(crate) mod bar;
pub(crate) mod json;
pub(crate) mod mode;
pub(crate) mod name;
pub(crate) mod owners;
pub(crate) mod size;
pub(crate) mod table;
pub(crate) mod time;

use std::io::IsTerminal;

/// Puts a text between the escapes of a terminal for a foreground colour, such as 32 for green.
pub(crate) fn coloured(text: &str, colour: u8) -> String {
    format!("\u{1b}[{colour}m{text}\u{1b}[0m")
}

/// Returns true if what is written to a stream has colours: on a terminal, and only if its user
/// allows them (<https://no-color.org>).
pub(crate) fn has_colours(stream: &impl IsTerminal) -> bool {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !is_plain
}
