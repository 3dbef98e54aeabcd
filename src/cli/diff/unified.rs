//! What differs in texts, as `diff -uN` shows it.

use std::io::Write;
use std::time::Duration;

use diskfs::vfs::{FileType, Timestamp};
use diskfs::{Result, SortedEntry};
use similar::TextDiff;

use super::compare::{Aspect, Outcome};
use super::pairs::Pair;
use super::side::Side;
use crate::cli::show::name::{NameStyle, join};
use crate::cli::show::time;

/// Larger files are said to differ: two of them, and the lists of their lines, are kept in memory.
const LIMIT_BYTES: u64 = 8 << 20;

/// When it takes longer to find what is in common, less is found, and more shown as changed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes the difference between the contents, if that is what differs.
pub(super) fn write(
    from: &Side,
    to: &Side,
    outcome: &Outcome,
    context: usize,
    style: NameStyle,
    out: &mut dyn Write,
) -> Result<()> {
    let (old, new) = match &outcome.pair {
        Pair::OnlyFrom(entry) => (Some(entry), None),
        Pair::OnlyTo(entry) => (None, Some(entry)),
        Pair::Both(both) if outcome.aspects.contains(&Aspect::Content) => {
            (Some(&both.from), Some(&both.to))
        }
        Pair::Both(_) => return Ok(()),
    };
    let is_file = |entry: &&SortedEntry| entry.metadata.file_type == FileType::Regular;
    if !old.iter().chain(&new).all(is_file) {
        return Ok(());
    }
    let old = Text::read(from, "a", old)?;
    let new = Text::read(to, "b", new)?;
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
    let diff = TextDiff::configure()
        .timeout(PATIENCE)
        .newline_terminated(true)
        .diff_slices(&old_lines, &new_lines);
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

/// The lines, each with its end; not at carriage returns, which diff(1) takes for a part of them.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// One side of a comparison.
struct Text {
    /// `a/etc/hosts`, or `/dev/null` for what is not there.
    name: Vec<u8>,
    modified: Option<Timestamp>,
    /// `None` for what is not shown.
    bytes: Option<Vec<u8>>,
    is_large: bool,
}

impl Text {
    fn read(side: &Side, prefix: &str, entry: Option<&SortedEntry>) -> Result<Self> {
        let Some(entry) = entry else {
            return Ok(Self {
                name: b"/dev/null".to_vec(),
                modified: None,
                bytes: Some(Vec::new()),
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
        // Below the directories that are compared, so that `patch -p1` finds it.
        let below = if entry.path.is_empty() {
            path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
        } else {
            &entry.path
        };
        Ok(Self {
            name: join(prefix.as_bytes(), below),
            modified: Some(metadata.modified),
            bytes,
            is_large,
        })
    }

    /// The name and, as diff(1) has it, the time.
    fn label(&self, style: NameStyle) -> Vec<u8> {
        let mut label = style.show(&self.name).into_owned();
        // What is not there has the time that patch(1) knows for that.
        let modified = self.modified.unwrap_or_default();
        label.push(b'\t');
        label.extend_from_slice(time::full(modified).as_bytes());
        label
    }
}
