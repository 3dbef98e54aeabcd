//! The command `qemu-img info`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value, json};

use diskfs::Format;
use diskfs::image::{Description, Snapshot};
use diskfs::luks::Luks1Details;

use super::arguments::{OpenArgs, OutputForm, Source, only};
use super::failure::Result;
use super::luks;
use super::names::{LUKS, remote_uri};
use super::runner::{confined, text};
use super::size::human;
use super::snapshot;
use super::specific::{self, Fields};
use crate::cli::show::name::message;

/// Show the format, the sizes and the snapshots of an image
#[derive(Debug, Args)]
pub(super) struct Info {
    #[arg(value_name = "FILE")]
    names: Vec<OsString>,

    /// The format of the image
    #[arg(short, long, value_name = "FMT")]
    format: Option<String>,

    /// Show the backing files, too
    #[arg(long)]
    backing_chain: bool,

    /// The form of the output
    #[arg(long, value_enum, default_value_t)]
    output: OutputForm,

    #[command(flatten)]
    open: OpenArgs,
}

impl Info {
    pub(super) fn run(&self) -> Result<u8> {
        let name = only(&self.names, "info")?;
        let source = self.open.source(name, self.format.as_deref())?;
        let chain = confined(&[&source], None, || self.describe(&source))?;
        let infos = chain
            .iter()
            .map(|(image, luks)| ImageInfo::new(image, luks.as_ref()));
        let infos: Vec<ImageInfo> = infos.collect();
        let mut out = std::io::stdout().lock();
        match self.output {
            OutputForm::Human => {
                let texts: Vec<String> = infos.iter().map(ImageInfo::human).collect();
                out.write_all(texts.join("\n").as_bytes())?;
            }
            OutputForm::Json => {
                let all: Vec<Value> = infos.iter().map(ImageInfo::to_json).collect();
                let document = match all.as_slice() {
                    [only] if !self.backing_chain => only.clone(),
                    _ => Value::Array(all),
                };
                specific::write_json(&mut out, &document)?;
            }
        }
        out.flush()?;
        Ok(0)
    }

    /// Describes the image, and its backing files if they are wanted; each with its LUKS header.
    fn describe(&self, source: &Source) -> Result<Vec<(Description, Option<Luks1Details>)>> {
        let headers = Arc::default();
        // An image on another machine names no other file.
        if !self.backing_chain || remote_uri(&source.path).is_some() {
            return Ok(vec![luks::with_header(
                source.describe()?,
                source,
                &headers,
            )?]);
        }
        let mut next = Some(source.describe_chain(&headers)?);
        let mut chain = Vec::new();
        while let Some(mut image) = next {
            next = image.backing.take().map(|backing| *backing);
            chain.push(luks::with_header(image, source, &headers)?);
        }
        Ok(chain)
    }
}

/// A description of an image, with the values that are shown.
struct ImageInfo<'a> {
    image: &'a Description,
    format: &'static str,
    /// True for a LUKS volume, which has no other format.
    is_luks: bool,
    specific: Option<Fields>,
}

impl<'a> ImageInfo<'a> {
    fn new(image: &'a Description, luks: Option<&Luks1Details>) -> Self {
        let format = image.format.unwrap_or(Format::Raw);
        let is_luks = format == Format::Raw && luks.is_some();
        Self {
            image,
            format: if is_luks { LUKS } else { format.qemu_name() },
            is_luks,
            specific: specific::of(image, luks),
        }
    }

    fn cluster_size(&self) -> Option<u64> {
        let qcow2 = self.image.qcow2.as_ref().map(|it| it.cluster_size_bytes);
        qcow2.or_else(|| self.image.mapped.as_ref()?.block_size_bytes)
    }

    /// Returns the name of the backing file as the image spells it.
    fn backing(&self) -> Option<&str> {
        let qcow2 = self.image.qcow2.as_ref();
        let name = qcow2.and_then(|it| it.backing_name.as_deref());
        name.or_else(|| self.image.mapped.as_ref()?.parent_name.as_deref())
    }

    fn full_backing(&self, name: &str) -> PathBuf {
        let dir = self.image.path.parent().unwrap_or(Path::new(""));
        dir.join(name)
    }

    fn backing_format(&self) -> Option<&str> {
        self.image.qcow2.as_ref()?.backing_format_name.as_deref()
    }

    fn snapshots(&self) -> &[Snapshot] {
        let qcow2 = self.image.qcow2.as_ref();
        qcow2.map_or(&[], |it| it.snapshots.as_slice())
    }

    fn is_dirty(&self) -> bool {
        self.image.qcow2.as_ref().is_some_and(|it| it.dirty)
    }

    fn is_encrypted(&self) -> bool {
        let qcow2 = self.image.qcow2.as_ref();
        self.is_luks || qcow2.is_some_and(|it| it.encryption.is_some())
    }

    /// Returns the length of the file in whole sectors.
    fn file_bytes(&self) -> u64 {
        let bytes = self.image.file_size_bytes;
        bytes.checked_next_multiple_of(512).unwrap_or(bytes)
    }

    /// Returns true if the image is an export of NBD, whose allocated size is unknown.
    fn is_remote(&self) -> bool {
        remote_uri(&self.image.path).is_some()
    }

    fn disk_size(&self) -> String {
        if self.is_remote() {
            return "unavailable".to_owned();
        }
        human(self.image.allocated_bytes)
    }

    fn to_json(&self) -> Value {
        let image = self.image;
        let path = text(&image.path);
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        let file = if self.is_remote() {
            json!({
                "children": [],
                "virtual-size": self.file_bytes(),
                "filename": path,
                "format": "nbd",
            })
        } else {
            json!({
                "children": [],
                "virtual-size": self.file_bytes(),
                "filename": path,
                "format": "file",
                "actual-size": image.allocated_bytes,
                "format-specific": { "type": "file", "data": {} },
                "dirty-flag": false,
            })
        };
        put("children", json!([{ "name": "file", "info": file }]));
        put("virtual-size", image.virtual_size_bytes.into());
        put("filename", path.into());
        put("format", self.format.into());
        if !self.is_remote() {
            put("actual-size", image.allocated_bytes.into());
        }
        // A raw image has the flag of its file.
        if !self.is_remote() || self.format != Format::Raw.name() {
            put("dirty-flag", self.is_dirty().into());
        }
        if let Some(bytes) = self.cluster_size() {
            put("cluster-size", bytes.into());
        }
        if self.is_encrypted() {
            put("encrypted", true.into());
        }
        if let Some(specific) = &self.specific {
            let name = self.format;
            put(
                "format-specific",
                json!({ "type": name, "data": specific.to_json() }),
            );
        }
        if let Some(name) = self.backing() {
            put("backing-filename", name.into());
            put(
                "full-backing-filename",
                text(self.full_backing(name)).into(),
            );
        }
        if let Some(name) = self.backing_format() {
            put("backing-filename-format", name.into());
        }
        if !self.snapshots().is_empty() {
            let all: Vec<Value> = self.snapshots().iter().map(snapshot::to_json).collect();
            put("snapshots", all.into());
        }
        Value::Object(fields)
    }

    fn human(&self) -> String {
        let image = self.image;
        let path = message(&text(&image.path));
        let mut lines = vec![
            format!("image: {path}"),
            format!("file format: {}", self.format),
            format!("virtual size: {}", with_bytes(image.virtual_size_bytes)),
            format!("disk size: {}", self.disk_size()),
        ];
        if self.is_encrypted() {
            lines.push("encrypted: yes".to_owned());
        }
        if let Some(bytes) = self.cluster_size() {
            lines.push(format!("cluster_size: {bytes}"));
        }
        if self.is_dirty() {
            lines.push("cleanly shut down: no".to_owned());
        }
        if let Some(name) = self.backing() {
            let full = self.full_backing(name);
            let actual = if full == Path::new(name) {
                String::new()
            } else {
                format!(" (actual path: {})", message(&text(full)))
            };
            lines.push(format!("backing file: {}{actual}", message(name)));
        }
        if let Some(name) = self.backing_format() {
            lines.push(format!("backing file format: {}", message(name)));
        }
        if !self.snapshots().is_empty() {
            lines.push("Snapshot list:".to_owned());
            lines.extend(snapshot::lines(self.snapshots()));
        }
        if let Some(specific) = &self.specific {
            lines.push("Format specific information:".to_owned());
            specific.push_lines(&mut lines, 1);
        }
        lines.push("Child node '/file':".to_owned());
        lines.push(format!("    filename: {path}"));
        let protocol = if self.is_remote() { "nbd" } else { "file" };
        lines.push(format!("    protocol type: {protocol}"));
        lines.push(format!(
            "    file length: {}",
            with_bytes(self.file_bytes())
        ));
        lines.push(format!("    disk size: {}", self.disk_size()));
        lines.push(String::new());
        lines.join("\n")
    }
}

fn with_bytes(bytes: u64) -> String {
    format!("{} ({bytes} bytes)", human(bytes))
}
