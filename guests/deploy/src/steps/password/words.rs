//! The password selectors of virt-customize: `password:TEXT`, `random`, `locked`. Command-line
//! options take them. In a plan, bare text that equals one of them is refused, so that the word
//! itself never becomes the password.

use std::fs;
use std::path::Path;

use diskfs_disk::{Error, ErrorKind, Result};

/// Prefixes of virt-customize that diskfs accepts neither in options nor in plans.
const FOREIGN: [&str; 2] = ["locked:", "disabled:"];

/// A password selector of virt-customize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordWords<'t> {
    /// `password:TEXT`: the password in clear text.
    Text(&'t str),
    /// `file:FILE`: the first line of a local file.
    File(&'t Path),
    /// `hash:HASH`: a hash of crypt(5).
    Hash(&'t str),
    /// `random`: a random password.
    Random,
    /// `locked`: a locked password.
    Locked,
    /// `unlock`: an unlocked password.
    Unlock,
    /// `disabled`: no login with a password.
    Disabled,
}

impl<'t> PasswordWords<'t> {
    /// Parses a selector. Returns `None` for text that is not a selector.
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

    /// Returns the same selector as written in a plan.
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

/// Returns why bare text of a plan is refused as a password, and what to write instead; `None` for
/// text that is accepted. The answer never contains the password.
pub(super) fn refusal(text: &str) -> Option<String> {
    // `Random` or a trailing space means the same.
    let word = text.trim().to_ascii_lowercase();
    let (what, instead) = if text.is_empty() {
        let reason = "an empty password allows everybody to log in; write {disabled: true} to \
             disable password login";
        return Some(reason.to_owned());
    } else if let Some(words) = PasswordWords::parse(&word) {
        // The path in its original spelling.
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
        "{what} as bare text is ambiguous; write {instead}, or {{text: ...}} for a password \
         that looks like this"
    ))
}

/// Returns true if the text looks like a hash without the key `hash`: `$6$salt$...`.
fn looks_hashed(text: &str) -> bool {
    let mut fields = text.strip_prefix('$').unwrap_or_default().split('$');
    let is_kind = |kind: &str| {
        (1..=8).contains(&kind.len()) && kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let kind = fields.next().is_some_and(is_kind);
    // In `$2b$12$...` the last field is salt and hash together, 53 characters. The shortest hash of
    // the others, MD5's, has 22.
    kind && fields.clone().count() >= 2 && fields.next_back().is_some_and(|hash| hash.len() >= 22)
}

fn quoted(path: &str) -> String {
    if path.contains([' ', ',', '}', '#', ':', '"']) {
        return format!("{path:?}");
    }
    path.to_owned()
}

/// Reads the first line of a local file, without its line break.
///
/// # Errors
/// The errors of opening and reading the file; `Invalid` if the line is missing or empty.
pub fn first_line(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).map_err(|error| Error::from(error).in_file(path))?;
    let line = text.lines().next().filter(|line| !line.is_empty());
    line.map(str::to_owned).ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            "missing password: the first line is empty",
        )
        .in_file(path)
    })
}
