//! `diskfs resize`.

use std::io::Write as _;

use clap::Args;
use serde_json::{Map, Value};

use diskfs::vm::tools::Work;
use diskfs::{Disk, Result, Volume};

use super::operand::Operand;
use super::options::SourceArgs;
use super::session::{Output, Session, stdout};
use super::show::json;
use super::show::name::message;
use super::show::size::units;
use super::target::{self, WriteArgs};
use super::tool;

/// Make a filesystem as large as its volume, in a microVM
///
/// The kernel and the filesystem's own program do it: `xfs_growfs`, `btrfs`, `resize2fs`, `resize.f2fs` or
/// `ntfsresize`. The volume itself stays as it is: the image, its partition or logical volume has to be made
/// larger before.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  qemu-img resize data.qcow2 20G && diskfs resize data.qcow2
  diskfs resize --volume p2 grown.raw")]
pub(super) struct Resize {
    /// The image
    #[arg(value_name = "IMG")]
    image: Operand,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Resize, session: &mut Session) -> Result<()> {
    let new_overlay = args.write.new_overlay();
    let image = args.image.image_alone("a volume's filesystem is resized")?;
    let disk = args.write.open(&args.source, &image)?;
    let grown = args.grow(&disk, session);
    session.warn_of(&disk);
    let changed_bytes = disk.changed_in_memory();
    let closed = disk.close();
    let volume = grown.inspect_err(|_| target::forget(new_overlay))?;
    closed?;
    let mut out = stdout()?;
    match session.output() {
        Output::Text => {
            let (name, size) = (message(volume.name()), units(volume.size_bytes()));
            writeln!(out, "{name}: {}, {size}", volume.filesystem_kind()?)?;
            if let Some(bytes) = changed_bytes.filter(|_| args.write.dry_run) {
                writeln!(out, "{bytes} bytes of the disk would change")?;
            }
        }
        Output::Json => {
            let mut document = Map::new();
            document.insert("volume".to_owned(), volume.name().into());
            document.insert("type".to_owned(), volume.filesystem_kind()?.into());
            document.insert("size_bytes".to_owned(), volume.size_bytes().into());
            document.insert("dry_run".to_owned(), args.write.dry_run.into());
            json::write(&mut out, session.command(), Value::Object(document))?;
        }
    }
    Ok(out.flush()?)
}

impl Resize {
    fn grow(&self, disk: &Disk, session: &Session) -> Result<Volume> {
        let volume = match self.source.volume.volume_alone(disk)? {
            Some(volume) => volume,
            None => disk.meant_volume()?,
        };
        let done = tool::work(&self.source, &volume, &Work::Grow, session)?;
        done.check()?;
        Ok(volume)
    }
}
