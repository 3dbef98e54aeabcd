//! The outputs of `diskfs convert`: an image on standard output, and the JSON document.

use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use diskfs::image::convert::{ConvertOptions, LostRange};
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

use super::super::out_file::is_standard;
use super::super::session::{Output, Session, stdout};
use super::super::show::json;
use super::Convert;

impl Convert {
    /// Returns true if the image is written to standard output.
    pub(super) fn is_stream(&self) -> bool {
        !self.no_create && is_standard(&self.target)
    }

    pub(super) fn check_stream(&self) -> Result<()> {
        let invalid = |reason| Error::new(ErrorKind::Invalid, reason);
        if self.verify {
            let reason = "an image on standard output cannot be verified";
            return Err(invalid(reason).with_hint("give DST a name, or leave out --verify"));
        }
        if self.resume {
            let reason = "a copy to standard output cannot be continued";
            return Err(invalid(reason).with_hint("give DST a name, or leave out --resume"));
        }
        if io::stdout().is_terminal() {
            let reason = "refusing to write an image to a terminal";
            return Err(invalid(reason).with_hint("give DST a name, or use a pipe"));
        }
        Ok(())
    }

    /// Prints the document of a disk of this size that was copied from a stream, with --json.
    pub(super) fn print_summary(
        &self,
        session: &Session,
        options: &ConvertOptions,
        size: u64,
    ) -> Result<()> {
        match session.output() {
            Output::Json => self.print_json(session, options, size, (None, None)),
            Output::Text => Ok(()),
        }
    }

    /// Prints the document: on standard error if the image was written to standard output.
    pub(super) fn print_json(
        &self,
        session: &Session,
        options: &ConvertOptions,
        size: u64,
        (streamed_bytes, lost): (Option<u64>, Option<Vec<LostRange>>),
    ) -> Result<()> {
        let (file_size, allocated) = if let Some(bytes) = streamed_bytes {
            (bytes, bytes)
        } else {
            file_sizes(&self.target)?
        };
        let format = options.image.format().name();
        let sizes = NewSizes {
            disk: size,
            file: file_size,
            allocated,
        };
        let mut fields = fields(&self.target, format, sizes);
        if let Some(lost) = lost {
            let ranges = lost.iter().map(
                |range| json!({ "offset_bytes": range.offset, "length_bytes": range.len_bytes }),
            );
            fields.insert("lost".to_owned(), ranges.collect());
        }
        if streamed_bytes.is_some() {
            let line = json::line(session.command(), Value::Object(fields));
            return Ok(io::stderr().write_all(line.as_bytes())?);
        }
        let mut out = stdout()?;
        json::write(&mut out, session.command(), Value::Object(fields))?;
        Ok(out.flush()?)
    }
}

/// The sizes of a new image in bytes.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct NewSizes {
    pub(in super::super) disk: u64,
    pub(in super::super) file: u64,
    pub(in super::super) allocated: u64,
}

/// Returns the length of a file, and the space that the host has allocated for it.
pub(in super::super) fn file_sizes(path: &Path) -> Result<(u64, u64)> {
    let metadata = path.metadata();
    let metadata = metadata.map_err(|e| Error::from(e).in_file(path))?;
    Ok((metadata.len(), metadata.blocks().saturating_mul(512)))
}

/// Returns the fields that describe a new image.
pub(in super::super) fn fields(path: &Path, format: &str, sizes: NewSizes) -> Map<String, Value> {
    let mut fields = Map::new();
    json::put_name(&mut fields, "path", path.as_os_str().as_encoded_bytes());
    fields.insert("format".to_owned(), format.into());
    let numbers = [
        ("virtual_size_bytes", sizes.disk),
        ("file_size_bytes", sizes.file),
        ("allocated_bytes", sizes.allocated),
    ];
    fields.extend(numbers.map(|(name, number)| (name.to_owned(), number.into())));
    fields
}
