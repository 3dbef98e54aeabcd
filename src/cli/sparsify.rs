//! The command `diskfs sparsify`.

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

/// Free the unused space of filesystems in an image, in a microVM
///
/// Each filesystem of the image, or the selected volume, is mounted and trimmed as fstrim(8) does
/// in a running guest: space that no file uses becomes holes in the image, in place. Nothing else
/// in the image changes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs sparsify debian.qcow2
  diskfs sparsify --volume p2 data.raw")]
pub(super) struct Sparsify {
    /// The image to sparsify
    #[arg(value_name = "IMG")]
    image: Operand,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &Sparsify, session: &mut Session) -> Result<()> {
    let image = args.image.image_alone("to sparsify")?;
    let disk = args.source.open_writable(&image, None)?;
    let path = disk.path().to_owned();
    let before = allocated_bytes(&path)?;
    let trimmed = args.trim(&disk, session);
    session.print_warnings(&disk);
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
            let document = json!({
                "volumes": trimmed,
                "before_bytes": before,
                "after_bytes": after,
            });
            let fields: Map<String, Value> = document.as_object().cloned().unwrap_or_default();
            document::write(&mut out, session.command(), Value::Object(fields))?;
        }
    }
    Ok(out.flush()?)
}

/// Returns the space that is allocated for a file on the host.
fn allocated_bytes(path: &std::path::Path) -> Result<u64> {
    let metadata = std::fs::metadata(path).map_err(|e| Error::from(e).in_file(path))?;
    Ok(metadata.blocks().saturating_mul(512))
}

impl Sparsify {
    /// Trims the volumes and returns their names.
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
