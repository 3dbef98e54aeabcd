//! Lookup of names without regard to case.
//!
//! The kernel compares and hashes such names after Unicode 12.1's canonical decomposition and full
//! case folding, without default-ignorable characters ("NFDICF" in its sources). Characters that
//! Unicode 12.1 does not define stay as they are. A name that is not valid UTF-8 is used byte by
//! byte.

use std::borrow::Cow;
use std::sync::LazyLock;

use caseless::Caseless;
use regex_syntax::hir::{Class, HirKind};
use unicode_normalization::char::{canonical_combining_class, decompose_canonical};

/// Returns the folded name, or `None` if the name is used byte by byte.
pub(crate) fn fold(name: &[u8]) -> Option<Cow<'_, [u8]>> {
    if name.is_ascii() {
        return Some(if name.iter().any(u8::is_ascii_uppercase) {
            Cow::Owned(name.to_ascii_lowercase())
        } else {
            Cow::Borrowed(name)
        });
    }
    let name = std::str::from_utf8(name).ok()?;
    let mut folded = Vec::new();
    for char in name.chars() {
        expand(char, &mut folded);
    }
    // A combining mark follows its letter; only the first mark of a name may have none.
    for letter in folded.chunk_by_mut(|_, next| class(*next) != 0) {
        let marks = letter.iter().position(|&char| class(char) != 0);
        if let Some(marks) = letter.get_mut(marks.unwrap_or(0)..) {
            marks.sort_by_key(|&mark| class(mark));
        }
    }
    let folded: String = folded.into_iter().filter(|&c| c != IGNORED).collect();
    Some(Cow::Owned(folded.into_bytes()))
}

/// Returns the bytes whose hash is that of a name in a casefolded directory.
pub(crate) fn hashed(name: &[u8]) -> Cow<'_, [u8]> {
    fold(name).unwrap_or(Cow::Borrowed(name))
}

/// The placeholder for an ignored character: marks are not reordered across it. No name contains
/// NUL.
const IGNORED: char = '\0';

/// Returns the combining class of a mark, which gives its order after the letter; 0 for other
/// characters.
fn class(char: char) -> u8 {
    if KNOWN.contains(char) {
        canonical_combining_class(char)
    } else {
        0
    }
}

/// Folds and decomposes one character until nothing changes.
fn expand(char: char, folded: &mut Vec<char>) {
    /// A character that is ignorable only since Unicode 14. All others that became ignorable later
    /// were so before they were assigned.
    const LATER: char = '\u{180f}';
    if IGNORABLE.contains(char) && char != LATER {
        folded.push(IGNORED);
        return;
    }
    if !KNOWN.contains(char) {
        folded.push(char);
        return;
    }
    for first in std::iter::once(char).default_case_fold() {
        decompose_canonical(first, |part| {
            // A letter can decompose into a capital: U+212B, the ångström sign.
            for second in std::iter::once(part).default_case_fold() {
                decompose_canonical(second, |part| folded.push(part));
            }
        });
    }
}

/// The characters that Unicode 12.1 defines.
static KNOWN: LazyLock<Chars> = LazyLock::new(|| Chars::with(r"\p{Age:12.1}"));
/// The characters that are left out of folded names.
static IGNORABLE: LazyLock<Chars> =
    LazyLock::new(|| Chars::with(r"\p{Default_Ignorable_Code_Point}"));

/// A set of characters as sorted ranges.
struct Chars(Vec<(char, char)>);

impl Chars {
    /// Returns the characters that have a property.
    fn with(property: &str) -> Self {
        let parsed = regex_syntax::parse(property).map(regex_syntax::hir::Hir::into_kind);
        Self(match parsed {
            Ok(HirKind::Class(Class::Unicode(class))) => class
                .iter()
                .map(|range| (range.start(), range.end()))
                .collect(),
            // Both properties exist, as a test checks.
            _ => Vec::new(),
        })
    }

    fn contains(&self, char: char) -> bool {
        let at = self.0.partition_point(|&(_, end)| end < char);
        self.0.get(at).is_some_and(|&(start, _)| start <= char)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        fold(a.as_bytes()).is_some_and(|a| Some(a) == fold(b.as_bytes()))
    }

    #[test]
    fn case_does_not_count() {
        assert!(same("ReadMe", "README"));
        assert!(same("\u{dc}ber", "\u{fc}BER"));
        assert!(same("stra\u{df}e", "STRASSE"));
        assert!(!same("a", "b"));
        assert_eq!(fold(b"\xff"), None);
    }

    #[test]
    fn nor_does_how_a_letter_is_put_together() {
        assert!(same("\u{e9}t\u{e9}", "E\u{301}te\u{301}"));
        assert!(same("\u{212b}", "a\u{30a}"));
        // Marks of different classes have one canonical order.
        assert!(same("a\u{301}\u{323}", "A\u{323}\u{301}"));
        assert!(same("so\u{ad}ft", "soft"));
        assert!(same("\u{ac01}", "\u{1100}\u{1161}\u{11a8}"));
    }

    #[test]
    fn what_unicode_12_1_does_not_know_stays() {
        // A capital that exists since Unicode 14.
        let new = "A\u{a7c0}";
        assert_eq!(&*hashed(new.as_bytes()), "a\u{a7c0}".as_bytes());
    }

    /// Returns the hashes that debugfs computes, one for each name.
    fn hashes_by_debugfs(names: &[String]) -> Vec<u32> {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        let lines = names
            .iter()
            .map(|name| format!("dx_hash -h half_md4 -c -e utf8 \"{name}\"\n"));
        std::fs::write(&script, lines.collect::<String>()).unwrap();
        let output = diskfs_fixtures::command("debugfs")
            .arg("-f")
            .arg(&script)
            .output()
            .unwrap();
        let told = output
            .stdout
            .split(|&byte| byte == b'\n')
            .filter(|line| line.starts_with(b"Hash of"));
        told.map(|line| {
            // The name before the hash may contain any bytes; the two numbers are ASCII.
            let line = String::from_utf8_lossy(line);
            let (_, hash) = line.rsplit_once(" is 0x").unwrap();
            let (hash, _) = hash.split_once(' ').unwrap();
            u32::from_str_radix(hash, 16).unwrap()
        })
        .collect()
    }

    #[test]
    fn the_same_hashes_as_debugfs() {
        use crate::htree::{Algorithm, HashSeed, HashSignedness, Hasher};

        let hasher = Hasher {
            algorithm: Algorithm::HalfMd4,
            sign: HashSignedness::Signed,
            seed: HashSeed::new([0; 4]),
        };
        let step = if std::env::var_os("DISKFS_LONG").is_some() {
            1
        } else {
            61
        };
        let all = (0xa0..0x3100).chain((0x3100..0x11_0000).step_by(step));
        let names: Vec<String> = all
            .filter_map(char::from_u32)
            .map(|char| format!("A{char}\u{323}\u{301}e"))
            .collect();
        let hashes = hashes_by_debugfs(&names);
        assert_eq!(hashes.len(), names.len());
        let different: Vec<_> = names
            .iter()
            .zip(hashes)
            .filter(|(name, hash)| hasher.hash(&hashed(name.as_bytes())).0 != *hash)
            .map(|(name, _)| name.chars().nth(1).unwrap().escape_unicode().to_string())
            .collect();
        assert!(different.is_empty(), "{}: {different:?}", different.len());
    }
}
