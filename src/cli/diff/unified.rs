//! Differences of text files in the form of `diff -uN`.

use std::io::Write;
use std::time::Duration;

use diskfs::vfs::{FileType, Timestamp};
use diskfs::{Result, SortedEntry};
use similar::{ChangeTag, TextDiff};

use super::compare::{Aspect, Outcome};
use super::pairs::Pair;
use super::side::Side;
use crate::cli::show::name::{NameStyle, join};
use crate::cli::show::time;

/// The maximum size of a file that is shown. Two files and the lists of their lines are kept in
/// memory.
const LIMIT_BYTES: u64 = 8 << 20;

/// The time limit of finding common lines. After it, fewer are found, and more lines are shown as
/// changed.
const COMPARISON_TIMEOUT: Duration = Duration::from_secs(5);

/// The size of a difference of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The numbers of lines of texts.
    Lines {
        /// The lines that only the new text has.
        added: u64,
        /// The lines that only the old text has.
        removed: u64,
    },
    /// The sizes of files of which one is large or not a text.
    Bytes {
        /// The size of the old file.
        old: u64,
        /// The size of the new file.
        new: u64,
    },
}

/// Returns the size of the difference of the contents; `None` if they do not differ, or if one of
/// both is not a regular file.
pub(super) fn extent(from: &Side, to: &Side, outcome: &Outcome) -> Result<Option<Extent>> {
    let Some((old, new)) = texts(from, to, outcome)? else {
        return Ok(None);
    };
    let (Some(old_bytes), Some(new_bytes)) = (&old.bytes, &new.bytes) else {
        return Ok(Some(Extent::Bytes {
            old: old.size_bytes,
            new: new.size_bytes,
        }));
    };
    let (old_lines, new_lines) = (lines(old_bytes), lines(new_bytes));
    let (mut added, mut removed) = (0_u64, 0_u64);
    for change in diff(&old_lines, &new_lines).iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => added = added.saturating_add(1),
            ChangeTag::Delete => removed = removed.saturating_add(1),
            ChangeTag::Equal => {}
        }
    }
    Ok(Some(Extent::Lines { added, removed }))
}

/// Reads both texts, if the contents differ.
fn texts(from: &Side, to: &Side, outcome: &Outcome) -> Result<Option<(Text, Text)>> {
    let (old, new) = match &outcome.pair {
        Pair::OnlyFrom(entry) => (Some(entry), None),
        Pair::OnlyTo(entry) => (None, Some(entry)),
        Pair::Both(both) if outcome.aspects.contains(&Aspect::Content) => {
            (Some(&both.from), Some(&both.to))
        }
        Pair::Both(_) => return Ok(None),
    };
    let is_file = |entry: &&SortedEntry| entry.metadata.file_type == FileType::Regular;
    if !old.iter().chain(&new).all(is_file) {
        return Ok(None);
    }
    Ok(Some((
        Text::read(from, "a", old)?,
        Text::read(to, "b", new)?,
    )))
}

fn diff<'a>(old: &'a [&'a [u8]], new: &'a [&'a [u8]]) -> TextDiff<'a, 'a, [u8]> {
    TextDiff::configure()
        .timeout(COMPARISON_TIMEOUT)
        .newline_terminated(true)
        .diff_slices(old, new)
}

/// Writes the difference of the contents, if the contents differ.
pub(super) fn write(
    from: &Side,
    to: &Side,
    outcome: &Outcome,
    context: usize,
    style: NameStyle,
    out: &mut dyn Write,
) -> Result<()> {
    let Some((old, new)) = texts(from, to, outcome)? else {
        return Ok(());
    };
    let (Some(old_bytes), Some(new_bytes)) = (&old.bytes, &new.bytes) else {
        let why = if old.is_large || new.is_large {
            "Large"
        } else {
            "Binary"
        };
        let names = [&style.show(&old.name)[..], b" and ", &style.show(&new.name)].concat();
        return Ok(out.write_all(&[why.as_bytes(), b" files ", &names, b" differ\n"].concat())?);
    };
    let (old_lines, new_lines) = (lines(old_bytes), lines(new_bytes));
    let diff = diff(&old_lines, &new_lines);
    let mut header = Some(());
    for hunk in diff.unified_diff().context_radius(context).iter_hunks() {
        if header.take().is_some() {
            out.write_all(&[b"--- ", &old.label(style)[..], b"\n"].concat())?;
            out.write_all(&[b"+++ ", &new.label(style)[..], b"\n"].concat())?;
        }
        writeln!(out, "{}", hunk.header())?;
        for change in hunk.iter_changes() {
            write!(out, "{}", change.tag())?;
            out.write_all(change.value())?;
            if !change.value().ends_with(b"\n") {
                out.write_all(b"\n\\ No newline at end of file\n")?;
            }
        }
    }
    Ok(())
}

/// Splits a text into lines, each with its end. A carriage return does not end a line, as in
/// diff(1).
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The text of one side of a comparison.
struct Text {
    /// The name, such as `a/etc/hosts`, or `/dev/null` for a missing file.
    name: Vec<u8>,
    modified: Option<Timestamp>,
    /// The contents, or `None` if they are not shown.
    bytes: Option<Vec<u8>>,
    size_bytes: u64,
    is_large: bool,
}

impl Text {
    fn read(side: &Side, prefix: &str, entry: Option<&SortedEntry>) -> Result<Self> {
        let Some(entry) = entry else {
            return Ok(Self {
                name: b"/dev/null".to_vec(),
                modified: None,
                bytes: Some(Vec::new()),
                size_bytes: 0,
                is_large: false,
            });
        };
        let path = side.path_of(entry);
        let metadata = &entry.metadata;
        let is_large = metadata.size_bytes > LIMIT_BYTES;
        let mut bytes = None;
        if !is_large {
            let read = side.node(entry).read_at_most(LIMIT_BYTES)?;
            bytes = Some(read).filter(|bytes| !bytes.contains(&0));
        }
        // The name is relative to the compared directories, so that `patch -p1` finds the file.
        let below = if entry.path.is_empty() {
            path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
        } else {
            &entry.path
        };
        Ok(Self {
            name: join(prefix.as_bytes(), below),
            modified: Some(metadata.modified),
            bytes,
            size_bytes: metadata.size_bytes,
            is_large,
        })
    }

    /// Returns the name with the time, as diff(1) writes it.
    fn label(&self, style: NameStyle) -> Vec<u8> {
        let mut label = style.show(&self.name).into_owned();
        // A missing file has the time zero, which patch(1) recognizes.
        let modified = self.modified.unwrap_or_default();
        label.push(b'\t');
        label.extend_from_slice(time::full(modified).as_bytes());
        label
    }
}
