//! Rules of sudoers: which users may run which commands, on which hosts, and as which users.

use super::line::{is_blank, unquote};

/// The first words of lines that are not rules.
const DEFAULTS: &str = "Defaults";
const ALIASES: [&str; 5] = [
    "User_Alias",
    "Runas_Alias",
    "Host_Alias",
    "Cmnd_Alias",
    "Cmd_Alias",
];

/// A rule of sudoers(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The users: names, `%group`, `#uid` or aliases, separated by a comma and a space.
    pub who: String,
    /// The hosts, target users and commands as written, with single spaces:
    /// `ALL=(ALL:ALL) NOPASSWD: ALL`.
    pub may: String,
    /// True if the rule allows something without a password.
    pub without_password: bool,
}

impl Rule {
    /// Parses a line without a comment. Returns `None` if the line is not a rule.
    pub(super) fn parse(line: &str) -> Option<Self> {
        if is_other(line) {
            return None;
        }
        let (who, rest) = users(line)?;
        let may = rest.split(is_blank).filter(|word| !word.is_empty());
        let may = may.collect::<Vec<_>>().join(" ");
        (!who.is_empty() && may.contains('=')).then(|| Self {
            who: who.join(", "),
            without_password: has_tag(&may, "NOPASSWD"),
            may,
        })
    }
}

/// Returns true for defaults, aliases and includes.
fn is_other(line: &str) -> bool {
    let rest = |word: &str| line.strip_prefix(word);
    let is_defaults = rest(DEFAULTS)
        .is_some_and(|rest| rest.starts_with(|char| is_blank(char) || ":@>!".contains(char)));
    let is_alias = |word| rest(word).is_some_and(|rest: &str| rest.starts_with(is_blank));
    line.starts_with('@') || is_defaults || ALIASES.into_iter().any(is_alias)
}

/// Returns the users, which are separated by commas and optional blanks, and the rest of the line.
fn users(line: &str) -> Option<(Vec<String>, &str)> {
    let mut users = Vec::new();
    let mut rest = line;
    loop {
        let (user, after) = rest.split_at_checked(end_of_user(rest)?)?;
        users.push(unquote(user));
        let after = after.trim_start_matches(is_blank);
        let Some(more) = after.strip_prefix(',') else {
            return Some((users, after));
        };
        rest = more.trim_start_matches(is_blank);
    }
}

/// Returns the end of a user: a comma or a blank that is neither quoted nor after a backslash.
/// Blanks after `!` belong to the user.
fn end_of_user(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let mut before = '!';
    for (at, char) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
            before = 'x';
            continue;
        }
        match char {
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => return Some(at),
            _ if !is_quoted && is_blank(char) => {
                if before != '!' {
                    return Some(at);
                }
                continue;
            }
            _ => {}
        }
        before = char;
    }
    None
}

/// Returns true if a tag is set: the word, optional blanks and a colon.
fn has_tag(text: &str, tag: &str) -> bool {
    text.match_indices(tag).any(|(at, _)| {
        let rest = text.get(at.saturating_add(tag.len())..).unwrap_or_default();
        rest.trim_start_matches(is_blank).starts_with(':')
    })
}
