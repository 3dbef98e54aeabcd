//! Output of matches as in grep(1), and as JSON.

use std::io::Write;

use diskfs::Result;
use serde_json::{Map, Value, json};

use super::Grep;
use super::record::{FileRecord, Line, Record};
use crate::cli::session::{Located, name_style, shown_path};
use crate::cli::show::json::{List, put_name};
use crate::cli::show::name::NameStyle;

/// A printer of lines in the format of grep(1).
pub(super) struct TextPrinter<'a> {
    args: &'a Grep,
    places: &'a [Located],
    style: NameStyle,
    with_groups: bool,
    /// True if a line was printed.
    began: bool,
    out: &'a mut dyn Write,
}

impl<'a> TextPrinter<'a> {
    pub(super) fn new(args: &'a Grep, places: &'a [Located], out: &'a mut dyn Write) -> Self {
        Self {
            args,
            places,
            style: name_style(NameStyle::Escaped),
            with_groups: args.lines(args.before_context) > 0 || args.lines(args.after_context) > 0,
            began: false,
            out,
        }
    }

    pub(super) fn print(&mut self, found: FileRecord<'_>) -> Result<()> {
        if self.args.quiet {
            return Ok(());
        }
        let name = shown_path(self.places, found.place, found.path);
        let name = self.style.show(&name).into_owned();
        match found.record {
            Record::Line(line) => self.line(found, &name, line),
            Record::Binary => {
                // Reported as a message on standard error, as grep(1) does since 3.5.
                let name = shown_path(self.places, found.place, found.path);
                let name = NameStyle::Escaped.show(&name).into_owned();
                let line = [b"grep: ", &name[..], b": binary file matches\n"].concat();
                let _ = std::io::stderr().write_all(&line); // A failure here cannot be reported.
                Ok(())
            }
            Record::End { selected } => self.end(found, &name, *selected),
        }
    }

    fn end(&mut self, found: FileRecord<'_>, name: &[u8], selected: u64) -> Result<()> {
        let args = self.args;
        let is_listed =
            args.files_with_matches && selected > 0 || args.files_without_match && selected == 0;
        if is_listed {
            self.out.write_all(&[name, b"\n"].concat())?;
        } else if args.count {
            if self.names_files(found) {
                self.out.write_all(&[name, b":"].concat())?;
            }
            writeln!(self.out, "{selected}")?;
        }
        Ok(())
    }

    fn line(&mut self, found: FileRecord<'_>, name: &[u8], line: &Line) -> Result<()> {
        if self.with_groups && line.begins_group && self.began {
            self.out.write_all(b"--\n")?;
        }
        self.began = true;
        let mark: &[u8] = if line.selected { b":" } else { b"-" };
        let mut prefix = Vec::new();
        if self.names_files(found) {
            prefix.extend_from_slice(name);
            prefix.extend_from_slice(mark);
        }
        if self.args.line_number {
            prefix.extend_from_slice(line.number.to_string().as_bytes());
            prefix.extend_from_slice(mark);
        }
        if !self.args.only_matching {
            return Ok(self
                .out
                .write_all(&[&prefix[..], &line.text, b"\n"].concat())?);
        }
        for span in &line.spans {
            let part = line.text.get(span.clone()).unwrap_or_default();
            self.out.write_all(&[&prefix[..], part, b"\n"].concat())?;
        }
        Ok(())
    }

    /// Returns true if the file name is printed before its lines: unless a single file is the only
    /// operand.
    fn names_files(&self, found: FileRecord<'_>) -> bool {
        let is_one = self.places.len() == 1 && found.path == found.place.path;
        self.args.with_filename || !self.args.no_filename && !is_one
    }
}

/// A printer of one JSON object for each match or file.
pub(super) struct JsonPrinter<'a, 'b> {
    args: &'a Grep,
    list: &'a mut List<'b>,
}

impl<'a, 'b> JsonPrinter<'a, 'b> {
    pub(super) fn new(args: &'a Grep, list: &'a mut List<'b>) -> Self {
        Self { args, list }
    }

    pub(super) fn print(&mut self, found: FileRecord<'_>) -> Result<()> {
        let args = self.args;
        let mut object = Map::new();
        put_name(&mut object, "image", found.place.image.as_encoded_bytes());
        put_name(&mut object, "path", found.path);
        match found.record {
            Record::Line(line) => {
                object.insert("line_number".to_owned(), line.number.into());
                put_name(&mut object, "line", &line.text);
                let spans = line.spans.iter();
                let spans: Vec<Value> = spans
                    .map(|span| json!({ "start": span.start, "end": span.end }))
                    .collect();
                object.insert("spans".to_owned(), spans.into());
                if !line.selected {
                    object.insert("context".to_owned(), true.into());
                }
            }
            Record::Binary => {
                object.insert("binary".to_owned(), true.into());
            }
            Record::End { selected } => {
                let is_listed = args.files_with_matches && *selected > 0
                    || args.files_without_match && *selected == 0;
                if args.count {
                    object.insert("count".to_owned(), (*selected).into());
                } else if !is_listed {
                    return Ok(());
                }
            }
        }
        if args.quiet {
            return Ok(());
        }
        Ok(self.list.push(&object.into())?)
    }
}
