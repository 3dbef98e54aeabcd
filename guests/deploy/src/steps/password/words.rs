//! The words in which virt-customize says what a password is: `password:TEXT`, `random`, `locked`. Options take them; in a
//! plan, a bare text that is one of them is refused, so that nobody gets the word itself as password.

use std::fs;
use std::path::Path;

use diskfs_disk::{Error, ErrorKind, Result};

/// Prefixes that virt-customize has, and that diskfs takes neither in options nor in plans.
const FOREIGN: [&str; 2] = ["locked:", "disabled:"];

/// What a selector of virt-customize asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordWords<'t> {
    /// `password:TEXT`.
    Text(&'t str),
    /// `file:FILE`: the first line of a file of this machine.
    File(&'t Path),
    /// `hash:HASH`, as crypt(5) has it.
    Hash(&'t str),
    /// `random`.
    Random,
    /// `locked`.
    Locked,
    /// `unlock`.
    Unlock,
    /// `disabled`.
    Disabled,
}

impl<'t> PasswordWords<'t> {
    /// Parses a selector; `None` for a text that is none.
    pub fn parse(selector: &'t str) -> Option<Self> {
        Some(match selector.split_once(':') {
            Some(("password", text)) => Self::Text(text),
            Some(("file", path)) => Self::File(Path::new(path)),
            Some(("hash", hash)) => Self::Hash(hash),
            None if selector == "random" => Self::Random,
            None if selector == "locked" => Self::Locked,
            None if selector == "unlock" => Self::Unlock,
            None if selector == "disabled" => Self::Disabled,
            _ => return None,
        })
    }

    /// How a plan says the same.
    fn in_plan(self) -> String {
        match self {
            Self::Text(_) => "{text: ...}".to_owned(),
            Self::File(path) => format!("{{file: {}}}", quoted(&path.to_string_lossy())),
            Self::Hash(_) => "{hash: ...}".to_owned(),
            Self::Random => "{random: true}".to_owned(),
            Self::Locked => "{locked: true}".to_owned(),
            Self::Unlock => "{unlock: true}".to_owned(),
            Self::Disabled => "{disabled: true}".to_owned(),
        }
    }
}

/// Why a bare text of a plan is not taken as a password, and what to write instead; `None` for one that is. No password is
/// in the answer.
pub(super) fn refusal(text: &str) -> Option<String> {
    // Whoever writes `Random` or leaves a blank behind it means the same.
    let word = text.trim().to_ascii_lowercase();
    let (what, instead) = if text.is_empty() {
        let reason = "an empty password lets everybody in; write {disabled: true} for no login with a password";
        return Some(reason.to_owned());
    } else if let Some(words) = PasswordWords::parse(&word) {
        // The path as it was written.
        let words = PasswordWords::parse(text.trim()).unwrap_or(words);
        let what = word.split_inclusive(':').next().unwrap_or_default();
        (format!("`{what}`"), words.in_plan())
    } else if let Some(prefix) = FOREIGN.iter().find(|prefix| word.starts_with(**prefix)) {
        let word = prefix.trim_end_matches(':');
        (format!("`{prefix}`"), format!("{{{word}: true}}"))
    } else if looks_hashed(text) {
        ("a hash of crypt(5)".to_owned(), "{hash: ...}".to_owned())
    } else {
        return None;
    };
    Some(format!(
        "{what} as bare text is ambiguous; write {instead}, or {{text: ...}} for a password that looks so"
    ))
}

/// Whether a text is a hash that somebody forgot to call one: `$6$salt$...`.
fn looks_hashed(text: &str) -> bool {
    let mut fields = text.strip_prefix('$').unwrap_or_default().split('$');
    let is_kind = |kind: &str| {
        (1..=8).contains(&kind.len()) && kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let kind = fields.next().is_some_and(is_kind);
    // Of `$2b$12$...` the last field is salt and hash, 53 characters; the shortest of the others, of MD5, has 22.
    kind && fields.clone().count() >= 2 && fields.next_back().is_some_and(|hash| hash.len() >= 22)
}

fn quoted(path: &str) -> String {
    if path.contains([' ', ',', '}', '#', ':', '"']) {
        return format!("{path:?}");
    }
    path.to_owned()
}

/// The first line of a file of this machine, without its end.
///
/// # Errors
/// What opening and reading it answers; `Invalid` when the line is missing or empty.
pub fn first_line(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).map_err(|error| Error::from(error).in_file(path))?;
    let line = text.lines().next().filter(|line| !line.is_empty());
    line.map(str::to_owned).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, "no password in the first line").in_file(path)
    })
}
