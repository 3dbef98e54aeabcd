//! The information of `qemu-img info` that only one format has, and the output of documents.

use std::io::Write;

use serde::Serialize as _;
use serde_json::ser::PrettyFormatter;
use serde_json::{Serializer, Value};

use diskfs::Format;
use diskfs::image::{Bitmap, BitmapState, Description, MappedDetails, Qcow2Details};
use diskfs::luks::Luks1Details;

use super::failure::Result;
use super::luks;
use super::runner::text;
use crate::cli::show::name::message;

/// Members in the order in which qemu-img shows them.
#[derive(Default)]
pub(super) struct Fields(Vec<(&'static str, Member)>);

/// The value of a member.
enum Member {
    Plain(Value),
    List(Vec<Member>),
    Fields(Fields),
}

/// Returns the information about an image that only its format has.
pub(super) fn of(image: &Description, header: Option<&Luks1Details>) -> Option<Fields> {
    match (image.format, &image.qcow2, &image.mapped) {
        (Some(Format::Qcow2), Some(details), _) => Some(qcow2(details, header)),
        (Some(Format::Vmdk), _, Some(details)) => Some(vmdk(details)),
        _ => header.map(luks::fields),
    }
}

fn qcow2(details: &Qcow2Details, header: Option<&Luks1Details>) -> Fields {
    let is_new = details.version >= 3;
    let mut fields = Fields(Vec::new());
    fields.put("compat", details.compat());
    fields.put("compression-type", details.compression.name());
    if is_new {
        fields.put("lazy-refcounts", details.lazy_refcounts);
    }
    if is_new && !details.bitmaps.is_empty() {
        let all = details.bitmaps.iter().map(bitmap).map(Member::Fields);
        fields.0.push(("bitmaps", Member::List(all.collect())));
    }
    fields.put("refcount-bits", details.refcount_bits);
    if let Some(name) = &details.data_file {
        fields.put("data-file", text(name));
        fields.put("data-file-raw", details.data_file_raw);
    }
    if details.encryption.is_some() {
        let mut encrypt = header.map_or_else(Fields::default, luks::fields);
        encrypt.insert_before("cipher-mode", "format", "luks");
        fields.0.push(("encrypt", Member::Fields(encrypt)));
    }
    if is_new {
        fields.put("corrupt", details.corrupt);
        fields.put("extended-l2", details.extended_l2);
    }
    fields
}

fn bitmap(bitmap: &Bitmap) -> Fields {
    let in_use = (bitmap.state == BitmapState::Inconsistent).then_some("in-use");
    let auto = bitmap.recording.then_some("auto");
    let flags = in_use.into_iter().chain(auto);
    let flags = flags.map(|flag| Member::Plain(flag.into())).collect();
    let mut fields = Fields(vec![("flags", Member::List(flags))]);
    fields.put("name", bitmap.name.as_str());
    fields.put("granularity", bitmap.granularity_bytes);
    fields
}

fn vmdk(details: &MappedDetails) -> Fields {
    let id = details.id.as_deref().unwrap_or_default();
    let mut fields = Fields(Vec::new());
    fields.put("cid", u32::from_str_radix(id, 16).unwrap_or(0));
    fields.put(
        "create-type",
        details.variant.as_deref().unwrap_or_default(),
    );
    fields
}

impl Fields {
    pub(super) fn put(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push((name, Member::Plain(value.into())));
    }

    pub(super) fn put_list(&mut self, name: &'static str, all: impl Iterator<Item = Self>) {
        let all = all.map(Member::Fields).collect();
        self.0.push((name, Member::List(all)));
    }

    /// Inserts a member before another one, or at the end.
    fn insert_before(&mut self, next: &str, name: &'static str, value: &str) {
        let at = self.0.iter().position(|(name, _)| *name == next);
        let at = at.unwrap_or(self.0.len());
        self.0.insert(at, (name, Member::Plain(value.into())));
    }

    pub(super) fn to_json(&self) -> Value {
        let fields = self.0.iter();
        Value::Object(
            fields
                .map(|(name, member)| ((*name).to_owned(), member.to_json()))
                .collect(),
        )
    }

    /// Appends the members as lines, at this depth.
    pub(super) fn push_lines(&self, lines: &mut Vec<String>, depth: usize) {
        for (name, member) in &self.0 {
            member.push_lines(lines, &name.replace('-', " "), depth);
        }
    }
}

impl Member {
    fn to_json(&self) -> Value {
        match self {
            Self::Plain(value) => value.clone(),
            Self::List(all) => all.iter().map(Self::to_json).collect(),
            Self::Fields(fields) => fields.to_json(),
        }
    }

    fn push_lines(&self, lines: &mut Vec<String>, name: &str, depth: usize) {
        let indent = "    ".repeat(depth);
        let inner = depth.saturating_add(1);
        match self {
            Self::Plain(Value::String(text)) => {
                lines.push(format!("{indent}{name}: {}", message(text)));
            }
            Self::Plain(value) => lines.push(format!("{indent}{name}: {value}")),
            Self::List(all) => {
                lines.push(format!("{indent}{name}:"));
                for (at, member) in (0_usize..).zip(all) {
                    member.push_lines(lines, &format!("[{at}]"), inner);
                }
            }
            Self::Fields(fields) => {
                lines.push(format!("{indent}{name}:"));
                fields.push_lines(lines, inner);
            }
        }
    }
}

/// Writes a document with qemu-img's indentation.
pub(super) fn write_json(out: &mut impl Write, document: &Value) -> Result<()> {
    let formatter = PrettyFormatter::with_indent(b"    ");
    let mut serializer = Serializer::with_formatter(&mut *out, formatter);
    let written = document.serialize(&mut serializer);
    written.map_err(std::io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}
