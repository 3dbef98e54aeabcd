//! The tests of an expression.

use diskfs::vfs::glob::Pattern;
use diskfs::vfs::{FileType, Metadata, Timestamp};
use diskfs::{Error, ErrorKind, Filesystem, Result};

use super::expression::usage;
use super::printf::FoundFile;
use crate::cli::show::mode;
use crate::cli::show::name::text;
use crate::cli::show::owners::{Numeric, Owners};

/// The context of tests and actions, besides the file.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) filesystem: &'a Filesystem,
    pub(super) owners: Owners<'a>,
    now_seconds: i64,
}

impl<'a> Context<'a> {
    pub(super) fn new(filesystem: &'a Filesystem, now_seconds: i64) -> Self {
        Self {
            filesystem,
            owners: Owners::new(filesystem, Numeric::No),
            now_seconds,
        }
    }
}

/// A single test.
#[derive(Debug)]
pub(super) enum Test {
    True,
    Empty,
    Name(Pattern),
    Path(Pattern),
    /// A regular expression that matches the whole path.
    Regex(regex::bytes::Regex),
    Types(Vec<u8>),
    Size {
        units: Number,
        unit_bytes: u64,
    },
    Age {
        field: TimeField,
        unit_seconds: i64,
        number: Number,
    },
    /// Modified later than another file of the image, or than a point in time.
    Newer {
        than: Vec<u8>,
        time: Option<Timestamp>,
    },
    User {
        name: Vec<u8>,
        uid: Option<u32>,
    },
    Group {
        name: Vec<u8>,
        gid: Option<u32>,
    },
    Uid(Number),
    Gid(Number),
    Links(Number),
    Inode(Number),
    Permissions(Permissions),
    /// Has an extended attribute whose whole name matches.
    Xattr(Pattern),
}

/// The choice of a file's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeField {
    Modified,
    Changed,
    Accessed,
}

/// A number to compare with: `N`, `+N` (more), `-N` (less).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Equal(u64),
    More(u64),
    Less(u64),
}

impl Number {
    pub(super) fn parse(word: &[u8]) -> Result<Self> {
        let (make, digits): (fn(u64) -> Self, _) = match word {
            [b'+', rest @ ..] => (Self::More, rest),
            [b'-', rest @ ..] => (Self::Less, rest),
            rest => (Self::Equal, rest),
        };
        let digits = std::str::from_utf8(digits)
            .ok()
            .filter(|text| !text.starts_with('+'));
        let number = digits.and_then(|text| text.parse().ok());
        number
            .map(make)
            .ok_or_else(|| usage(format!("invalid number `{}`", text(word))))
    }

    fn matches(self, number: i128) -> bool {
        match self {
            Self::Equal(n) => number == i128::from(n),
            Self::More(n) => number > i128::from(n),
            Self::Less(n) => number < i128::from(n),
        }
    }
}

/// The modes of `-perm`: `MODE` (exactly), `-MODE` (all of these bits), `/MODE` (any of them). MODE
/// is octal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permissions {
    Exactly(u16),
    All(u16),
    Any(u16),
}

impl Permissions {
    pub(super) fn parse(word: &[u8]) -> Result<Self> {
        let (make, digits): (fn(u16) -> Self, _) = match word {
            [b'-', rest @ ..] => (Self::All, rest),
            [b'/', rest @ ..] => (Self::Any, rest),
            rest => (Self::Exactly, rest),
        };
        let octal = |digits| {
            u16::from_str_radix(digits, 8)
                .ok()
                .filter(|mode| *mode <= 0o7777)
        };
        let mode = std::str::from_utf8(digits).ok().and_then(octal);
        mode.map(make).ok_or_else(|| {
            usage(format!(
                "invalid mode `{}`: expected octal digits",
                text(word)
            ))
        })
    }

    fn matches(self, permissions: u16) -> bool {
        let permissions = permissions & 0o7777;
        match self {
            Self::Exactly(mode) => permissions == mode,
            Self::All(mode) => permissions & mode == mode,
            Self::Any(mode) => mode == 0 || permissions & mode != 0,
        }
    }
}

impl Test {
    pub(super) fn parse_types(word: &[u8]) -> Result<Self> {
        let letters: Vec<&[u8]> = word.split(|byte| *byte == b',').collect();
        let known = |letter: &&[u8]| letter.len() == 1 && b"fdlbcps".contains(&letter[0]);
        if !letters.iter().all(known) {
            return Err(usage(format!(
                "unknown type `{}`; known: f, d, l, b, c, p, s",
                text(word)
            )));
        }
        Ok(Self::Types(letters.concat()))
    }

    /// Parses a size as find(1) does: without a letter, the unit is 512 bytes.
    pub(super) fn parse_size(word: &[u8]) -> Result<Self> {
        let (digits, unit_bytes) = match word {
            [digits @ .., b'c'] => (digits, 1),
            [digits @ .., b'w'] => (digits, 2),
            [digits @ .., b'k'] => (digits, 1 << 10),
            [digits @ .., b'M'] => (digits, 1 << 20),
            [digits @ .., b'G'] => (digits, 1 << 30),
            [digits @ .., b'b'] | digits => (digits, 512),
        };
        let units = Number::parse(digits)?;
        Ok(Self::Size { units, unit_bytes })
    }

    pub(super) fn age(field: TimeField, unit_seconds: i64, number: Number) -> Self {
        Self::Age {
            field,
            unit_seconds,
            number,
        }
    }

    pub(super) fn parse_newer_time(word: &[u8]) -> Result<Self> {
        let text_of = std::str::from_utf8(word).unwrap_or_default();
        let digits = text_of.strip_prefix('@').unwrap_or(text_of);
        let wrong = || {
            usage(format!(
                "invalid time `{}`: expected seconds since 1970",
                text(word)
            ))
        };
        let seconds = digits.parse().map_err(|_| wrong())?;
        let time = Timestamp {
            seconds,
            nanoseconds: 0,
        };
        Ok(Self::Newer {
            than: Vec::new(),
            time: Some(time),
        })
    }

    /// Looks up the names of the test in the image.
    pub(super) fn bind(&mut self, context: &Context<'_>) -> Result<()> {
        match self {
            Self::Newer { than, time } if time.is_none() => {
                *time = Some(context.filesystem.metadata(&*than)?.modified);
            }
            Self::User { name, uid } => {
                let found = context.owners.uid(&text(name));
                *uid = Some(found.ok_or_else(|| no_such("user", name))?);
            }
            Self::Group { name, gid } => {
                let found = context.owners.gid(&text(name));
                *gid = Some(found.ok_or_else(|| no_such("group", name))?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns true if the test holds for a file.
    pub(super) fn holds(&self, found: &FoundFile<'_>, context: &Context<'_>) -> Result<bool> {
        let metadata = &found.entry.metadata;
        Ok(match self {
            Self::True => true,
            Self::Empty => return is_empty(found, context),
            Self::Name(pattern) => pattern.matches(found.name()),
            Self::Path(pattern) => pattern.matches(&found.path),
            Self::Regex(regex) => regex.is_match(&found.path),
            Self::Types(letters) => letters
                .iter()
                .any(|letter| char::from(*letter) == mode::find_letter(metadata.file_type)),
            Self::Size { units, unit_bytes } => {
                units.matches(i128::from(metadata.size_bytes.div_ceil(*unit_bytes)))
            }
            Self::Age {
                field,
                unit_seconds,
                number,
            } => {
                let age = i128::from(context.now_seconds) - i128::from(field.of(metadata).seconds);
                number.matches(age.div_euclid(i128::from(*unit_seconds)))
            }
            Self::Newer { time, .. } => time.is_some_and(|time| metadata.modified > time),
            Self::User { uid, .. } => *uid == Some(metadata.uid),
            Self::Group { gid, .. } => *gid == Some(metadata.gid),
            Self::Uid(number) => number.matches(metadata.uid.into()),
            Self::Gid(number) => number.matches(metadata.gid.into()),
            Self::Links(number) => number.matches(metadata.links.into()),
            Self::Inode(number) => number.matches(metadata.inode.0.into()),
            Self::Permissions(permissions) => permissions.matches(metadata.permissions),
            Self::Xattr(pattern) => return has_xattr(pattern, found, context),
        })
    }
}

impl TimeField {
    fn of(self, metadata: &Metadata) -> Timestamp {
        match self {
            Self::Modified => metadata.modified,
            Self::Changed => metadata.changed,
            Self::Accessed => metadata.accessed,
        }
    }
}

fn no_such(what: &str, name: &[u8]) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("no such {what}: `{}`", text(name)),
    )
}

/// Returns true if an extended attribute of the file has a matching name.
fn has_xattr(pattern: &Pattern, found: &FoundFile<'_>, context: &Context<'_>) -> Result<bool> {
    let names = found.node(context.filesystem).xattr_names()?;
    Ok(names.iter().any(|name| pattern.matches(name)))
}

/// Returns true for an empty file, or a directory without entries.
fn is_empty(found: &FoundFile<'_>, context: &Context<'_>) -> Result<bool> {
    let metadata = &found.entry.metadata;
    match metadata.file_type {
        FileType::Regular => Ok(metadata.size_bytes == 0),
        FileType::Directory => {
            let entries = found.node(context.filesystem).read_dir_sorted()?;
            Ok(entries.is_empty())
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_as_find_does() {
        assert!(Number::parse(b"+5").unwrap().matches(6));
        assert!(!Number::parse(b"+5").unwrap().matches(5));
        assert!(Number::parse(b"-5").unwrap().matches(-1));
        assert!(Number::parse(b"5").unwrap().matches(5));
        for wrong in ["", "+", "++1", "1x", "-+1"] {
            assert!(Number::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn permissions_compare_as_find_does() {
        let matches = |word: &str, mode| Permissions::parse(word.as_bytes()).unwrap().matches(mode);
        assert!(matches("644", 0o644) && !matches("644", 0o664));
        assert!(matches("-600", 0o644) && !matches("-111", 0o644));
        assert!(matches("/6000", 0o4755) && !matches("/6000", 0o755) && matches("/0", 0));
    }
}
