//! The actions that print, mainly `-printf`.

use std::io::{self, Write};

use diskfs::vfs::{FileType, Metadata, Timestamp, WalkEntry};
use diskfs::{Filesystem, Node, Result};

use super::expression::{Action, usage};
use super::test::Context;
use crate::cli::show::name::{NameStyle, text};
use crate::cli::show::{mode, time};

/// A file that the walk found.
#[derive(Debug)]
pub(super) struct FoundFile<'a> {
    /// The path in the image.
    pub(super) path: Vec<u8>,
    pub(super) entry: &'a WalkEntry,
}

impl FoundFile<'_> {
    /// Returns the node of the file.
    pub(super) fn node(&self, filesystem: &Filesystem) -> Node {
        Node::new(filesystem.clone(), self.entry.inode, &*self.path)
    }

    /// Returns the last name of the path, or `/` for the root.
    pub(super) fn name(&self) -> &[u8] {
        let path = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        match path.rsplit(|byte| *byte == b'/').next() {
            Some(b"") | None => b"/",
            Some(name) => name,
        }
    }

    /// Returns the directory that contains the file.
    fn directory(&self) -> &[u8] {
        match self.path.iter().rposition(|byte| *byte == b'/') {
            None | Some(0) => b"",
            Some(at) => &self.path[..at],
        }
    }
}

/// A parsed format.
#[derive(Debug)]
pub(super) struct Format(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    Field {
        field: Field,
        width: usize,
        left: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Path,
    PathBelow,
    Name,
    Directory,
    Size,
    Blocks,
    Kilobytes,
    Mode,
    ModeLetters,
    User,
    Uid,
    Group,
    Gid,
    Links,
    Inode,
    Type,
    Target,
    Depth,
    Time(FileTime, Style),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileTime {
    Modified,
    Changed,
    Accessed,
    Created,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Seconds,
    Full,
}

/// The maximum width of a padded field. No terminal is wider, and a typo must not print gigabytes.
const MAX_WIDTH: usize = 4096;

impl Format {
    pub(super) fn parse(format: &[u8]) -> Result<Self> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut bytes = format.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\\' => literal.push(escape(&mut bytes)?),
                b'%' if bytes.next_if_eq(&b'%').is_some() => literal.push(b'%'),
                b'%' => {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                    pieces.push(field(&mut bytes)?);
                }
                byte => literal.push(byte),
            }
        }
        pieces.push(Piece::Literal(literal));
        Ok(Self(pieces))
    }
}

type Bytes<'a> = std::iter::Peekable<std::iter::Copied<std::slice::Iter<'a, u8>>>;

fn escape(bytes: &mut Bytes<'_>) -> Result<u8> {
    match bytes.next() {
        Some(b'n') => Ok(b'\n'),
        Some(b't') => Ok(b'\t'),
        Some(b'r') => Ok(b'\r'),
        Some(b'0') => Ok(0),
        Some(b'\\') => Ok(b'\\'),
        other => {
            let shown = text(&other.map_or(Vec::new(), |byte| vec![byte]));
            Err(usage(format!("unknown escape `\\{shown}` of -printf")))
        }
    }
}

fn field(bytes: &mut Bytes<'_>) -> Result<Piece> {
    let left = bytes.next_if_eq(&b'-').is_some();
    let mut width = 0_usize;
    while let Some(digit) = bytes.next_if(u8::is_ascii_digit) {
        width = (width * 10 + usize::from(digit - b'0')).min(MAX_WIDTH);
    }
    let letter = bytes.next();
    let field = match letter {
        Some(b'p') => Field::Path,
        Some(b'P') => Field::PathBelow,
        Some(b'f') => Field::Name,
        Some(b'h') => Field::Directory,
        Some(b's') => Field::Size,
        Some(b'b') => Field::Blocks,
        Some(b'k') => Field::Kilobytes,
        Some(b'm') => Field::Mode,
        Some(b'M') => Field::ModeLetters,
        Some(b'u') => Field::User,
        Some(b'U') => Field::Uid,
        Some(b'g') => Field::Group,
        Some(b'G') => Field::Gid,
        Some(b'n') => Field::Links,
        Some(b'i') => Field::Inode,
        Some(b'y') => Field::Type,
        Some(b'l') => Field::Target,
        Some(b'd') => Field::Depth,
        Some(b'T') => Field::Time(FileTime::Modified, style(bytes)?),
        Some(b'C') => Field::Time(FileTime::Changed, style(bytes)?),
        Some(b'A') => Field::Time(FileTime::Accessed, style(bytes)?),
        Some(b'B') => Field::Time(FileTime::Created, style(bytes)?),
        other => return Err(unknown(other)),
    };
    Ok(Piece::Field { field, width, left })
}

fn style(bytes: &mut Bytes<'_>) -> Result<Style> {
    match bytes.next() {
        Some(b'@') => Ok(Style::Seconds),
        Some(b'+') => Ok(Style::Full),
        other => Err(unknown(other)),
    }
}

fn unknown(letter: Option<u8>) -> diskfs::Error {
    let shown = text(&letter.map_or(Vec::new(), |byte| vec![byte]));
    usage(format!("unknown directive `%{shown}` of -printf"))
}

impl Field {
    fn value(self, found: &FoundFile<'_>, context: &Context<'_>, style: NameStyle) -> Vec<u8> {
        let m = &found.entry.metadata;
        let name = |bytes: &[u8]| style.show(bytes).into_owned();
        let text = match self {
            Self::Path => return name(&found.path),
            Self::PathBelow => return name(&found.entry.path),
            Self::Name => return name(found.name()),
            Self::Directory => return name(found.directory()),
            Self::Target if m.file_type == FileType::Symlink => {
                let target = found.node(context.filesystem).read_link();
                return name(&target.unwrap_or_default());
            }
            Self::Target => String::new(),
            Self::Size => m.size_bytes.to_string(),
            Self::Blocks => (m.allocated_bytes / 512).to_string(),
            Self::Kilobytes => m.allocated_bytes.div_ceil(1024).to_string(),
            Self::Mode => format!("{:o}", m.permissions),
            Self::ModeLetters => mode::letters(m),
            Self::User => context.owners.user(m.uid),
            Self::Uid => m.uid.to_string(),
            Self::Group => context.owners.group(m.gid),
            Self::Gid => m.gid.to_string(),
            Self::Links => m.links.to_string(),
            Self::Inode => m.inode.to_string(),
            Self::Type => mode::find_letter(m.file_type).to_string(),
            Self::Depth => found.entry.depth.to_string(),
            Self::Time(which, style) => which.of(m).map_or(String::new(), |time| style.show(time)),
        };
        text.into_bytes()
    }
}

impl FileTime {
    fn of(self, metadata: &Metadata) -> Option<Timestamp> {
        match self {
            Self::Modified => Some(metadata.modified),
            Self::Changed => Some(metadata.changed),
            Self::Accessed => Some(metadata.accessed),
            Self::Created => metadata.created,
        }
    }
}

impl Style {
    /// Formats a time as find(1) does: nine digits and a zero, and a `+` between date and time.
    fn show(self, at: Timestamp) -> String {
        match self {
            Self::Seconds => format!("{}0", time::decimal(at)),
            Self::Full => format!(
                "{}0",
                time::rfc3339(at).trim_end_matches('Z').replace('T', "+")
            ),
        }
    }
}

/// Performs an action.
pub(super) fn perform(
    action: &Action,
    found: &FoundFile<'_>,
    context: &Context<'_>,
    style: NameStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    match action {
        Action::Print => {
            out.write_all(&style.show(&found.path))?;
            out.write_all(b"\n")
        }
        Action::Print0 => {
            out.write_all(&found.path)?;
            out.write_all(b"\0")
        }
        Action::Printf(Format(pieces)) => pieces
            .iter()
            .try_for_each(|piece| print(piece, found, context, style, out)),
        Action::Ls => ls(found, context, style, out),
        Action::Prune | Action::Quit => Ok(()),
    }
}

fn print(
    piece: &Piece,
    found: &FoundFile<'_>,
    context: &Context<'_>,
    style: NameStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    match piece {
        Piece::Literal(bytes) => out.write_all(bytes),
        Piece::Field { field, width, left } => {
            let value = field.value(found, context, style);
            let pad = vec![b' '; width.saturating_sub(value.len())];
            let (first, second) = if *left {
                (&value, &pad)
            } else {
                (&pad, &value)
            };
            out.write_all(first)?;
            out.write_all(second)
        }
    }
}

/// Prints a line in the format of `ls -dils`.
fn ls(
    found: &FoundFile<'_>,
    context: &Context<'_>,
    style: NameStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let m = &found.entry.metadata;
    let size = match m.device {
        Some(device) => format!("{}, {}", device.major, device.minor),
        None => m.size_bytes.to_string(),
    };
    write!(
        out,
        "{:>9} {:>6} {} {:>3} {:<8} {:<8} {size:>8} {} ",
        m.inode,
        m.allocated_bytes.div_ceil(1024),
        mode::letters(m),
        m.links,
        context.owners.user(m.uid),
        context.owners.group(m.gid),
        time::minutes(m.modified)
    )?;
    out.write_all(&style.show(&found.path))?;
    if m.file_type == FileType::Symlink {
        out.write_all(b" -> ")?;
        out.write_all(&Field::Target.value(found, context, style))?;
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_taken_apart() {
        let Format(pieces) = Format::parse(b"%-10s|%p\\n%%").unwrap();
        let field = |field, width, left| Piece::Field { field, width, left };
        let literal = |bytes: &[u8]| Piece::Literal(bytes.to_vec());
        let expected = [
            literal(b""),
            field(Field::Size, 10, true),
            literal(b"|"),
            field(Field::Path, 0, false),
            literal(b"\n%"),
        ];
        assert_eq!(pieces, expected);
        for wrong in ["%", "%q", "%T", "\\", "\\q"] {
            assert!(Format::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(Format::parse(b"%99999999999999999999s").is_ok());
    }
}
