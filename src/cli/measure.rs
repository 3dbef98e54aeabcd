//! The command `diskfs measure`.

use std::io::Write;

use clap::Args;
use diskfs::image::convert::measure;
use diskfs::image::create::BackingCheck;
use diskfs::{Format, Result};
use serde_json::json;

use super::image_settings::ImageSettings;
use super::operand::Operand;
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use super::show::json as document;

/// Compute the size of the file that an image needs in another format
///
/// Prints the size with what IMG and its backing files store, which a copy by `diskfs convert`
/// without compression does not exceed, and the size with the whole disk allocated. Only the tables
/// of the images are read.
#[derive(Debug, Args)]
#[command(after_help = "The options of -o are those of `diskfs create`.

Examples:
  diskfs measure -O qcow2 disk.raw
  diskfs measure -O qcow2 -o cluster_size=1M --volume p1 disk.qcow2
  diskfs measure -O qcow2 -o encrypt.format=luks disk.raw")]
pub(super) struct Measure {
    /// The image to measure
    #[arg(value_name = "IMG")]
    image: Operand,

    /// The format of the new image: raw or qcow2
    #[arg(short = 'O', long, value_name = "FORMAT", default_value = "raw")]
    output_format: Format,

    /// Set options of the new image in the syntax of qemu-img; can be repeated
    #[arg(short, value_name = "NAME=VALUE,...")]
    options: Vec<String>,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &Measure, session: &mut Session) -> Result<()> {
    let image = args.image.image_alone("to measure")?;
    let mut settings = ImageSettings::of(&args.options)?;
    settings.refuse_objects()?;
    settings.encrypt_to_measure()?;
    let new = settings.image(args.output_format, || Ok(BackingCheck::Skip))?;
    let disk = args.source.open(&image)?;
    session.print_warnings(&disk);
    let from = args.source.volume.device(&disk)?;
    let measured = measure(&*from, &new)?;
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let body = json!({
                "required_bytes": measured.required_bytes,
                "fully_allocated_bytes": measured.fully_allocated_bytes,
            });
            document::write(&mut out, session.command(), body)?;
        }
        Output::Text => {
            writeln!(out, "required: {} bytes", measured.required_bytes)?;
            let all = measured.fully_allocated_bytes;
            writeln!(out, "fully allocated: {all} bytes")?;
        }
    }
    Ok(out.flush()?)
}

impl Measure {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(std::slice::from_ref(&self.image), &self.source)
    }
}
