//! The common form of JSON documents: every document is an object that begins with `diskfs` (the
//! version of the documents and the command). Names are in `snake_case`, and contain the unit.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use diskfs::document::{document, header};
use diskfs::vfs::{Metadata, Timestamp};
use serde_json::{Map, Value, json};

use super::{mode, time};

pub(crate) use diskfs::document::{base64, put_name, value};

/// Writes one document.
pub(crate) fn write(out: &mut dyn Write, command: &str, body: Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &document(command, body))?;
    writeln!(out)
}

/// Returns a document as one line.
pub(crate) fn line(command: &str, body: Value) -> String {
    format!("{}\n", Value::Object(document(command, body)))
}

/// A document with one long list, written one entry per line as entries arrive, without keeping
/// them.
pub(crate) struct List<'a> {
    out: &'a mut dyn Write,
    first: bool,
    flushed: Instant,
}

/// The time after which entries are passed on, so that a reader sees them while the command runs.
const FLUSH_AFTER: Duration = Duration::from_millis(200);

impl<'a> List<'a> {
    /// Begins the document and its list, called `name`.
    pub(crate) fn begin(out: &'a mut dyn Write, command: &str, name: &str) -> io::Result<Self> {
        write!(out, "{{\"diskfs\":{},\n\"{name}\":[", header(command))?;
        Ok(Self {
            out,
            first: true,
            flushed: Instant::now(),
        })
    }

    /// Writes one entry.
    pub(crate) fn push(&mut self, entry: &Value) -> io::Result<()> {
        self.out
            .write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        serde_json::to_writer(&mut *self.out, entry)?;
        if self.flushed.elapsed() > FLUSH_AFTER {
            self.out.flush()?;
            self.flushed = Instant::now();
        }
        Ok(())
    }

    /// Ends the list, and the document with one more field.
    pub(crate) fn end_with(self, name: &str, value: &Value) -> io::Result<()> {
        let bracket = if self.first { "]" } else { "\n]" };
        writeln!(self.out, "{bracket},\n\"{name}\":{value}}}")
    }

    /// Ends the list and the document.
    pub(crate) fn end(self) -> io::Result<()> {
        self.out
            .write_all(if self.first { b"]}\n" } else { b"\n]}\n" })
    }
}

fn stamp(time: Timestamp) -> Value {
    time::rfc3339(time).into()
}

/// Returns the metadata of a file, in the form that all commands share.
pub(crate) fn metadata(path: &[u8], metadata: &Metadata) -> Map<String, Value> {
    let mut object = Map::new();
    put_name(&mut object, "path", path);
    let fields = [
        ("type", mode::name(metadata.file_type).into()),
        ("inode", metadata.inode.0.into()),
        ("mode", format!("{:04o}", metadata.permissions).into()),
        ("uid", metadata.uid.into()),
        ("gid", metadata.gid.into()),
        ("links", metadata.links.into()),
        ("size_bytes", metadata.size_bytes.into()),
        ("allocated_bytes", metadata.allocated_bytes.into()),
        ("modified", stamp(metadata.modified)),
        ("changed", stamp(metadata.changed)),
        ("accessed", stamp(metadata.accessed)),
    ];
    object.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    if let Some(created) = metadata.created {
        object.insert("created".to_owned(), stamp(created));
    }
    if let Some(device) = metadata.device {
        let device = json!({ "major": device.major, "minor": device.minor });
        object.insert("device".to_owned(), device);
    }
    object
}

/// Returns extended attributes: names as strings, values always as base64.
pub(crate) fn xattrs(pairs: &[(Vec<u8>, Vec<u8>)]) -> Value {
    let one = |(name, bytes): &(Vec<u8>, Vec<u8>)| {
        let mut object = Map::new();
        put_name(&mut object, "name", name);
        object.insert("value_base64".to_owned(), base64(bytes).into());
        Value::Object(object)
    };
    pairs.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_documents_also_when_empty() {
        for count in 0..3 {
            let mut out = Vec::new();
            let mut list = List::begin(&mut out, "ls", "entries").unwrap();
            (0..count).for_each(|n| list.push(&json!(n)).unwrap());
            list.end().unwrap();
            let document: Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(document["entries"].as_array().unwrap().len(), count);
            assert_eq!(document["diskfs"]["version"], 1);
        }
    }
}
