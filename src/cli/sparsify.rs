//! `diskfs sparsify`.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;

use clap::Args;
use serde_json::{Map, Value, json};

use diskfs::vm::tools::Work;
use diskfs::{Disk, Error, Result};

use super::operand::Operand;
use super::options::SourceArgs;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::show::name::message;
use super::show::size::units;
use super::tool;

/// Give back what filesystems don't use, in a microVM
///
/// Each filesystem of the image, or the volume that is named, is mounted and trimmed as fstrim(8) does it in
/// a running guest: what no file uses becomes holes of the image, in place, and the image stays what it was
/// otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs sparsify debian.qcow2
  diskfs sparsify --volume p2 data.raw")]
pub(super) struct Sparsify {
    /// The image
    #[arg(value_name = "IMG")]
    image: Operand,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &Sparsify, session: &mut Session) -> Result<()> {
    let image = args.image.image_alone("filesystems are trimmed")?;
    let disk = args.source.open_writable(&image, None)?;
    let path = disk.path().to_owned();
    let before = allocated_bytes(&path)?;
    let trimmed = args.trim(&disk, session);
    session.warn_of(&disk);
    let closed = disk.close();
    let trimmed = trimmed?;
    closed?;
    let after = allocated_bytes(&path)?;
    let mut out = stdout()?;
    match session.output() {
        Output::Text => {
            let (name, saved) = (path.display().to_string(), before.saturating_sub(after));
            let (after, saved) = (units(after), units(saved));
            writeln!(out, "{}: {after}, {saved} less", message(&name))?;
        }
        Output::Json => {
            let told = json!({
                "volumes": trimmed,
                "before_bytes": before,
                "after_bytes": after,
            });
            let fields: Map<String, Value> = told.as_object().cloned().unwrap_or_default();
            document::write(&mut out, session.command(), Value::Object(fields))?;
        }
    }
    Ok(out.flush()?)
}

/// What a file takes on the host.
fn allocated_bytes(path: &std::path::Path) -> Result<u64> {
    let told = std::fs::metadata(path).map_err(|e| Error::from(e).in_file(path))?;
    Ok(told.blocks().saturating_mul(512))
}

impl Sparsify {
    /// The volumes that were trimmed.
    fn trim(&self, disk: &Disk, session: &mut Session) -> Result<Vec<String>> {
        let volumes = tool::volumes(&self.source, disk, &Work::Trim)?;
        let mut trimmed = Vec::new();
        for volume in &volumes {
            let done = tool::work(&self.source, volume, &Work::Trim, session);
            match done.and_then(|done| done.check()) {
                Ok(()) => trimmed.push(volume.name().to_owned()),
                Err(error) => session.report(&error),
            }
        }
        Ok(trimmed)
    }
}
