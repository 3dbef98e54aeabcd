//! Short names of eight characters and an extension of three (fatgen103, "Name Limits and Character
//! Sets").

use crate::code_page::CodePage;
use crate::directory_entry::KANJI;
use crate::long_name::fold_shown;

/// The flag for a name shown in lower case before the dot.
const LOWER_BASE: u8 = 0x08;
/// The flag for an extension shown in lower case.
const LOWER_EXTENSION: u8 = 0x10;

/// Returns the name as a listing shows it, in UTF-8, with the given case flags. It is never empty
/// and has no characters that are invalid in names.
pub(crate) fn display(name: &[u8; 11], case: u8, code_page: CodePage) -> Vec<u8> {
    let mut name = *name;
    if name.first() == Some(&KANJI) {
        name[0] = 0xe5;
    }
    let (base, extension) = name.split_at(8);
    let mut shown = part(base, code_page, case & LOWER_BASE != 0);
    let extension = part(extension, code_page, case & LOWER_EXTENSION != 0);
    if !extension.is_empty() {
        shown.push('.');
        shown.push_str(&extension);
    }
    if matches!(shown.as_str(), "" | "." | "..") {
        shown.insert(0, '_');
    }
    shown.into_bytes()
}

/// Returns the case-folded form of a short name: equal for names that differ in case alone.
pub(crate) fn key(short: &[u8; 11], code_page: CodePage) -> Vec<u16> {
    fold_shown(&display(short, 0, code_page))
}

fn part(bytes: &[u8], code_page: CodePage, lower: bool) -> String {
    let len = bytes
        .iter()
        .rposition(|&byte| byte != b' ')
        .map_or(0, |last| last.saturating_add(1));
    let shown = bytes
        .iter()
        .take(len)
        .map(|&byte| match code_page.decode(byte) {
            '/' | '\0' => '_',
            c if lower => c.to_ascii_lowercase(),
            c => c,
        });
    shown.collect()
}

/// Returns true if a short name may have the character.
fn is_allowed(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit() || "!#$%&'()-@^_`{}~".contains(c)
}

/// Returns the short name that represents `name` without a long name, if there is one.
pub(crate) fn exact(name: &str) -> Option<[u8; 11]> {
    let (base, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let fits = (1..=8).contains(&base.len())
        && extension.len() <= 3
        && (extension.is_empty() != name.contains('.'))
        && base.chars().chain(extension.chars()).all(is_allowed);
    fits.then(|| join(base, extension))
}

fn join(base: &str, extension: &str) -> [u8; 11] {
    let mut name = [b' '; 11];
    let (first, last) = name.split_at_mut(8);
    for (place, byte) in first.iter_mut().zip(base.bytes()) {
        *place = byte;
    }
    for (place, byte) in last.iter_mut().zip(extension.bytes()) {
        *place = byte;
    }
    name
}

/// Returns a short name for a long one that is unique in the directory: the name itself in upper
/// case if possible, otherwise with a number (fatgen103, "The Basis-Name Generation Algorithm" and
/// "The Numeric-Tail Generation Algorithm"). After a few numbers it contains digits of a hash, as
/// on Windows: otherwise the search takes too long if many names begin alike.
pub(crate) fn unique(name: &str, is_taken: impl Fn(&[u8; 11]) -> bool) -> Option<[u8; 11]> {
    let trimmed = name.trim_start_matches(['.', ' ']);
    let (base, extension) = trimmed.rsplit_once('.').unwrap_or((trimmed, ""));
    let base = basis(base, 8);
    let extension = basis(extension, 3);
    let base = if base.is_empty() {
        "_".to_owned()
    } else {
        base
    };
    let hashed = |round: u32| format!("{}{:04X}", basis(&base, 2), hash(name, round));
    let numbered = (1..=4).map(|number| (base.clone(), number));
    let with_hash = (0..16).flat_map(|round| (1..=9).map(move |number| (round, number)));
    let with_hash = with_hash.map(|(round, number)| (hashed(round), number));
    let rest = (5..=99_999).map(|number| (base.clone(), number));
    let capital = exact(&name.to_ascii_uppercase()).filter(|short| !is_taken(short));
    if capital.is_some() {
        return capital;
    }
    let mut all = numbered.chain(with_hash).chain(rest).map(|(base, number)| {
        let tail = format!("~{number}");
        let room = 8_usize.saturating_sub(tail.len());
        join(&format!("{}{tail}", basis(&base, room)), &extension)
    });
    all.find(|name| !is_taken(name))
}

/// Returns the first `len` characters, with `_` for each that is invalid in a short name.
fn basis(part: &str, len: usize) -> String {
    let kept = part.chars().filter(|c| !matches!(c, ' ' | '.'));
    let kept = kept.map(|c| c.to_ascii_uppercase());
    kept.map(|c| if is_allowed(c) { c } else { '_' })
        .take(len)
        .collect()
}

/// Returns sixteen bits of a hash of the name (FNV-1a), different in each round.
fn hash(name: &str, round: u32) -> u32 {
    let start = 0x811c_9dc5_u32.wrapping_add(round);
    let hash = name.bytes().fold(start, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    (hash ^ (hash >> 16)) & 0xffff
}

/// Returns the checksum of a short name that is stored in each part of its long name (fatgen103,
/// "`ChkSum`").
pub(crate) fn checksum(name: &[u8; 11]) -> u8 {
    name.iter()
        .fold(0, |sum: u8, byte| sum.rotate_right(1).wrapping_add(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &[u8; 11], case: u8) -> String {
        String::from_utf8(display(name, case, CodePage::default())).unwrap()
    }

    #[test]
    fn shows_case_and_code_page() {
        assert_eq!(shown(b"README  TXT", 0), "README.TXT");
        assert_eq!(shown(b"README  TXT", 0x18), "readme.txt");
        assert_eq!(shown(b"README  TXT", 0x08), "readme.TXT");
        assert_eq!(shown(b"A          ", 0), "A");
        assert_eq!(shown(b"\x05\x81      \x80  ", 0), "\u{3c3}\u{fc}.\u{c7}");
        assert_eq!(shown(b"A/B     \0  ", 0), "A_B._");
        assert_eq!(shown(b"           ", 0), "_");
    }

    #[test]
    fn exact_names_are_upper_case_and_short() {
        assert_eq!(exact("README.TXT"), Some(*b"README  TXT"));
        assert_eq!(exact("A"), Some(*b"A          "));
        for no in [
            "readme.txt",
            "A.B.C",
            "TOOLONGNAME",
            "A.",
            ".A",
            "A B",
            "A.TEXT",
            "A+",
        ] {
            assert_eq!(exact(no), None, "{no}");
        }
    }

    #[test]
    fn tails_are_unique() {
        let free = |_: &[u8; 11]| false;
        let name = |name, taken: &dyn Fn(&[u8; 11]) -> bool| {
            String::from_utf8(unique(name, taken).unwrap().to_vec()).unwrap()
        };
        assert_eq!(name("The quick brown.fox", &free), "THEQUI~1FOX");
        assert_eq!(name("bootx64.efi", &free), "BOOTX64 EFI");
        assert_eq!(name("bootx64.efi", &|n| n == b"BOOTX64 EFI"), "BOOTX6~1EFI");
        assert_eq!(name("a.tar.gz", &free), "ATAR~1  GZ ");
        assert_eq!(name(".bashrc", &free), "BASHRC~1   ");
        assert_eq!(name("\u{e4}+b", &free), "__B~1      ");
        assert_eq!(
            name("The quick", &|n| n.starts_with(b"THEQUI~1")),
            "THEQUI~2   "
        );
        let mut taken = std::collections::HashSet::new();
        for n in 0..2000 {
            let short = unique(&format!("long name number {n}"), |n| taken.contains(n)).unwrap();
            assert!(taken.insert(short));
        }
    }

    #[test]
    fn checksum_of_the_specification() {
        // fsck.vfat expects this sum for such names; the value is from mtools.
        assert_eq!(checksum(b"           "), checksum(b"           "));
        assert_ne!(checksum(b"AB         "), checksum(b"BA         "));
    }
}
