//! `file_contexts.subs` and `.subs_dist`: aliases, directories that are labelled like other ones.

use crate::error::{Error, Result};
use crate::lines::lines;
use crate::problem::{Problems, Text};

/// The maximum length of a line. libselinux splits longer lines.
const MAX_LINE_BYTES: usize = 1022;

/// The maximum number of aliases in a text: more than a hundred times that of a distribution. Each
/// lookup checks all of them.
const MAX_SUBS: usize = 4096;

/// The aliases of a text, in its order.
#[derive(Debug, Default)]
pub(crate) struct Subs(Vec<Sub>);

#[derive(Debug)]
struct Sub {
    alias: Box<[u8]>,
    original: Box<[u8]>,
}

impl Subs {
    pub(crate) fn parse(text: Text, bytes: &[u8], problems: &mut Problems) -> Result<Self> {
        let mut subs = Vec::new();
        for line in lines(bytes) {
            if line.bytes.len() > MAX_LINE_BYTES {
                problems.add(text, line.number, "line is too long: at most 1022 bytes");
                continue;
            }
            let Some(mut fields) = line.fields() else {
                continue;
            };
            let (Some(alias), Some(original)) = (fields.next(), fields.next()) else {
                problems.add(text, line.number, "missing second path");
                continue;
            };
            if subs.len() >= MAX_SUBS {
                return Err(Error::TooMany {
                    text,
                    line: line.number,
                    what: "substitutions",
                    limit: MAX_SUBS,
                });
            }
            subs.push(Sub {
                alias: alias.into(),
                original: original.into(),
            });
        }
        Ok(Self(subs))
    }

    /// Replaces the alias at the start of a path according to the last matching line. Returns
    /// `None` if no line matches.
    pub(crate) fn apply(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.0.iter().rev().find_map(|sub| sub.apply(path))
    }
}

impl Sub {
    fn apply(&self, path: &[u8]) -> Option<Vec<u8>> {
        let rest = path.strip_prefix(&*self.alias)?;
        let rest = match rest {
            [b'/', below @ ..] if *self.original == *b"/" => below,
            [] | [b'/', ..] => rest,
            _ => return None,
        };
        Some([&*self.original, rest].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str, path: &str) -> Option<String> {
        let subs = Subs::parse(Text::Subs, text.as_bytes(), &mut Problems::default()).unwrap();
        let path = subs.apply(path.as_bytes())?;
        Some(String::from_utf8(path).unwrap())
    }

    #[test]
    fn the_last_line_that_fits_counts() {
        let text = "# /x /y\n /run /var/run comment\n\n/run/lock\t/var/lock\n/chroot /\n";
        assert_eq!(applied(text, "/run").unwrap(), "/var/run");
        assert_eq!(applied(text, "/run/x").unwrap(), "/var/run/x");
        assert_eq!(applied(text, "/run/lock/x").unwrap(), "/var/lock/x");
        assert_eq!(applied(text, "/chroot/etc").unwrap(), "/etc");
        assert_eq!(applied(text, "/chroot").unwrap(), "/");
        assert_eq!(applied(text, "/running"), None);
        assert_eq!(applied(text, "/x"), None);
    }

    #[test]
    fn lines_that_say_nothing() {
        let mut problems = Problems::default();
        let text = format!("/alone\n{0} {0}\n", "/x".repeat(300));
        Subs::parse(Text::SubsDist, text.as_bytes(), &mut problems).unwrap();
        let lines: Vec<_> = problems.kept.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [1, 2]);
    }
}
