//! Validation of images from strangers, before anything else opens them.
//!
//! [`validate`] reads only the image itself: it opens no file that the image names. The result is a
//! [`Verdict`] also for an image whose header is truncated or invalid: such an image is refused.

mod intake;
mod mapped;
mod policy;
mod qcow2;
mod rule;
mod signature;

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, ErrorKind, Result};

use crate::open::Opener;
use crate::probe::head_of;
use crate::source::Source;
use crate::{Format, Gate, OpenOptions};

pub use policy::Policy;
pub use rule::{BrokenRule, Rule};
use signature::Found;

/// The requirements on an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidateOptions {
    /// The rules of the program that is to take the image.
    pub policy: Policy,
    /// The format that the sender of the image states. The image must then have that format.
    pub claimed: Option<Format>,
    /// The largest disk that is accepted, in bytes.
    pub size_limit_bytes: Option<u64>,
}

/// The result of a validation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// The name of the format that was found, such as `qcow2`; formats without a driver have a
    /// name, too.
    pub format: &'static str,
    /// The size of the disk in bytes as the image states it, if that could be read.
    pub virtual_size_bytes: Option<u64>,
    /// The rules that the image breaks.
    pub broken: Vec<BrokenRule>,
    /// Properties that break no rule, but that the receiver of the image should know.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Returns true if the image breaks no rule.
    pub fn is_accepted(&self) -> bool {
        self.broken.is_empty()
    }

    fn breaks(&mut self, rule: Rule, message: impl Into<String>, offset: Option<u64>) {
        self.broken.push(BrokenRule {
            rule,
            message: message.into(),
            offset_bytes: offset,
        });
    }

    /// Adds the rule that an error stands for.
    ///
    /// # Errors
    /// The error itself, if it is of the host and not of the image.
    fn breaks_by(&mut self, error: Error) -> Result<()> {
        let rule = match error.kind() {
            ErrorKind::Corrupt | ErrorKind::OutOfBounds => Rule::Corrupt,
            ErrorKind::Unsupported | ErrorKind::Invalid | ErrorKind::Denied => Rule::Unsupported,
            _ => return Err(error),
        };
        self.breaks(rule, error.reason().to_owned(), error.offset());
        Ok(())
    }
}

/// Validates the image at `path`. Of `options`, only `files`, `remote` and `share` are used.
///
/// # Errors
/// Those of opening and reading the file itself, such as `NotFound` and `Locked`.
pub fn validate(
    path: &Path,
    options: &OpenOptions,
    validation: &ValidateOptions,
) -> Result<Verdict> {
    let options = OpenOptions {
        gate: Gate::closed(),
        files: Arc::clone(&options.files),
        remote: options.remote.clone(),
        share: options.share,
        disk: options.disk.clone(),
        ..OpenOptions::default()
    };
    let source = Opener::new(&options)?.top(path)?;
    validate_source(&source, &options, validation).map_err(|e| e.in_file(&source.path))
}

/// Validates an image that is in storage of the caller: behind a network, for example. Errors call it
/// `name`.
///
/// # Errors
/// Those of reading the device.
pub fn validate_device(
    name: &Path,
    device: Arc<dyn BlockRead>,
    validation: &ValidateOptions,
) -> Result<Verdict> {
    let options = OpenOptions {
        gate: Gate::closed(),
        ..OpenOptions::default()
    };
    let source = Source::of_device(name, device, None);
    validate_source(&source, &options, validation).map_err(|e| e.in_file(name))
}

fn validate_source(
    source: &Source,
    options: &OpenOptions,
    validation: &ValidateOptions,
) -> Result<Verdict> {
    let device = source.device.as_ref();
    let found = Found::of(device, validation.claimed)?;
    let mut verdict = Verdict {
        format: found.name(),
        virtual_size_bytes: None,
        broken: Vec::new(),
        notes: Vec::new(),
    };
    options.check_disk(found.format.unwrap_or(Format::Raw))?;
    intake::check(&found, validation, &mut verdict);
    match found.format {
        Some(Format::Raw) => verdict.virtual_size_bytes = Some(device.size_bytes()),
        Some(Format::Qcow2) => qcow2::check(source, &mut verdict)?,
        Some(format) => mapped::check(source, (format, options), &mut verdict)?,
        None => {}
    }
    check_size(validation.size_limit_bytes, &mut verdict);
    if let Some(format) = found.format.filter(|_| verdict.is_accepted()) {
        check_contents(source, format, options, &mut verdict)?;
    }
    Ok(verdict)
}

fn check_size(limit_bytes: Option<u64>, verdict: &mut Verdict) {
    let sizes = verdict.virtual_size_bytes.zip(limit_bytes);
    if let Some((size, limit)) = sizes.filter(|(size, limit)| size > limit) {
        let message = format!("the disk has {size} bytes, at most {limit} are accepted");
        verdict.breaks(Rule::Size, message, None);
    }
}

/// Opens the image, without other files, and checks the beginning of its disk: as a raw copy, the
/// disk must not look like an image of another format.
fn check_contents(
    source: &Source,
    format: Format,
    options: &OpenOptions,
    verdict: &mut Verdict,
) -> Result<()> {
    if format == Format::Raw {
        return Ok(());
    }
    let options = OpenOptions {
        format: Some(format),
        ..options.clone()
    };
    let opened = Opener::new(&options)?.open_source(source.clone());
    let head = opened.and_then(|opened| {
        let (node, description) = *opened;
        let encryption = description.qcow2.and_then(|qcow2| qcow2.encryption);
        if encryption.is_some_and(|encryption| !encryption.is_unlocked) {
            return Ok(None);
        }
        head_of(&node).map(Some)
    });
    match head {
        Err(error) => verdict.breaks_by(error),
        Ok(None) => {
            let note = "the disk is encrypted: its contents were not checked";
            verdict.notes.push(note.to_owned());
            Ok(())
        }
        Ok(Some(head)) => {
            if let Some(name) = signature::of_image(&head) {
                let message = format!(
                    "the disk in the image begins with the header of a {name} image: a raw copy of \
                     it would be taken for that image"
                );
                verdict.breaks(Rule::NestedFormat, message, None);
            }
            Ok(())
        }
    }
}
