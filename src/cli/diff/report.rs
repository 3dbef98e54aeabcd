//! Output of differences as lines and as JSON.

use std::io::Write;

use diskfs::vfs::Metadata;
use diskfs::{Result, SortedEntry};
use serde_json::{Map, Value, json};

use super::compare::{Aspect, Outcome};
use super::pairs::Pair;
use super::side::Side;
use super::unified;
use crate::cli::session::name_style;
use crate::cli::show::json::{metadata, put_name};
use crate::cli::show::name::{NameStyle, text};
use crate::cli::show::{mode, time};

/// The numbers of compared files by result.
#[derive(Debug, Default)]
pub(super) struct Counts {
    added: u64,
    removed: u64,
    modified: u64,
    same: u64,
    read_bytes: u64,
}

impl Counts {
    pub(super) fn add(&mut self, outcome: &Outcome) {
        let counter = match outcome.pair {
            Pair::OnlyFrom(_) => &mut self.removed,
            Pair::OnlyTo(_) => &mut self.added,
            Pair::Both(_) if outcome.is_difference() => &mut self.modified,
            Pair::Both(_) => &mut self.same,
        };
        *counter += 1;
        self.read_bytes = self.read_bytes.saturating_add(outcome.read_bytes);
    }

    pub(super) fn differ(&self) -> bool {
        self.added + self.removed + self.modified > 0
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "added": self.added,
            "removed": self.removed,
            "modified": self.modified,
            "same": self.same,
            "read_bytes": self.read_bytes,
        })
    }
}

impl Outcome {
    /// Returns the kind of change, the file to show, and its path on its side: the old side if it
    /// is on both.
    pub(super) fn shown<'a>(
        &'a self,
        from: &Side,
        to: &Side,
    ) -> (&'static str, &'a SortedEntry, Vec<u8>) {
        let (change, entry, side) = match &self.pair {
            Pair::OnlyFrom(entry) => ("removed", entry, from),
            Pair::OnlyTo(entry) => ("added", entry, to),
            Pair::Both(both) => ("modified", &both.from, from),
        };
        (change, entry, side.path_of(entry))
    }
}

/// Returns one difference as JSON; `from` and `to` are present if the file exists on that side. With
/// `context`, the difference of the contents is in `unified`.
pub(super) fn entry(
    from: &Side,
    to: &Side,
    outcome: &Outcome,
    context: Option<usize>,
) -> Result<Value> {
    let (change, _, path) = outcome.shown(from, to);
    let mut object = Map::new();
    object.insert("change".to_owned(), change.into());
    put_name(&mut object, "path", &path);
    let (old, new) = match &outcome.pair {
        Pair::OnlyFrom(entry) => (Some(entry), None),
        Pair::OnlyTo(entry) => (None, Some(entry)),
        Pair::Both(both) => (Some(&both.from), Some(&both.to)),
    };
    if let Pair::Both(_) = outcome.pair {
        let words: Vec<&str> = outcome.aspects.iter().map(word).collect();
        object.insert("what".to_owned(), json!(words));
    }
    let mut put =
        |field: &str, side: &Side, entry: Option<&SortedEntry>, target: Option<&Vec<u8>>| {
            if let Some(entry) = entry {
                let mut facts = metadata(&side.path_of(entry), &entry.metadata);
                if let Some(target) = target {
                    put_name(&mut facts, "target", target);
                }
                object.insert(field.to_owned(), facts.into());
            }
        };
    let targets = outcome.aspects.iter().find_map(|aspect| match aspect {
        Aspect::Target(old, new) => Some((old, new)),
        _ => None,
    });
    put("from", from, old, targets.map(|(old, _)| old));
    put("to", to, new, targets.map(|(_, new)| new));
    if let Some(context) = context {
        let mut text = Vec::new();
        unified::write(from, to, outcome, context, NameStyle::Raw, &mut text)?;
        if !text.is_empty() {
            put_name(&mut object, "unified", &text);
        }
    }
    Ok(object.into())
}

fn word(aspect: &Aspect) -> &'static str {
    match aspect {
        Aspect::Type => "type",
        Aspect::Mode => "mode",
        Aspect::Owner => "owner",
        Aspect::Size => "size",
        Aspect::Content => "content",
        Aspect::Xattrs => "xattrs",
        Aspect::Target(..) => "target",
        Aspect::Device => "device",
        Aspect::Modified => "modified",
    }
}

/// The text output of differences.
#[derive(Debug)]
pub(super) struct Lines {
    name_only: bool,
    unified: Option<usize>,
    style: NameStyle,
}

impl Lines {
    pub(super) fn new(name_only: bool, unified: Option<usize>) -> Self {
        Self {
            name_only,
            unified,
            style: name_style(NameStyle::Escaped),
        }
    }

    /// Writes a line such as `M /etc/hosts`, a tab, and `mode 0644 -> 0600, content`.
    pub(super) fn write(
        &self,
        from: &Side,
        to: &Side,
        outcome: &Outcome,
        out: &mut dyn Write,
    ) -> Result<()> {
        let (change, _, path) = outcome.shown(from, to);
        if !self.name_only {
            let letter = match change {
                "removed" => "D ",
                "added" => "A ",
                _ => "M ",
            };
            out.write_all(letter.as_bytes())?;
        }
        out.write_all(&self.style.show(&path))?;
        if matches!(outcome.pair, Pair::Both(_)) && !self.name_only {
            write!(out, "\t{}", changes(outcome))?;
        }
        out.write_all(b"\n")?;
        match self.unified {
            Some(context) => unified::write(from, to, outcome, context, self.style, out),
            None => Ok(()),
        }
    }
}

/// Describes the differences of a file that exists on both sides.
pub(super) fn changes(outcome: &Outcome) -> String {
    let Pair::Both(both) = &outcome.pair else {
        return String::new();
    };
    let (old, new) = (&both.from.metadata, &both.to.metadata);
    let aspects = outcome.aspects.iter();
    let words: Vec<String> = aspects.map(|a| in_words(a, old, new)).collect();
    words.join(", ")
}

/// Describes a difference, for example as `mode 0644 -> 0600`.
fn in_words(aspect: &Aspect, old: &Metadata, new: &Metadata) -> String {
    let device = |of: &Metadata| {
        let device = of.device.unwrap_or_default();
        format!("{}:{}", device.major, device.minor)
    };
    let pair = |show: &dyn Fn(&Metadata) -> String| {
        format!("{} {} -> {}", word(aspect), show(old), show(new))
    };
    match aspect {
        Aspect::Type => pair(&|of| mode::name(of.file_type).to_owned()),
        Aspect::Mode => pair(&|of| format!("{:04o}", of.permissions)),
        Aspect::Owner => pair(&|of| format!("{}:{}", of.uid, of.gid)),
        Aspect::Size => pair(&|of| of.size_bytes.to_string()),
        Aspect::Device => pair(&device),
        Aspect::Modified => pair(&|of| time::full(of.modified)),
        Aspect::Target(old, new) => format!("target {} -> {}", text(old), text(new)),
        Aspect::Content | Aspect::Xattrs => word(aspect).to_owned(),
    }
}
