//! The command `diskfs resize`.

use std::io::Write as _;

use clap::Args;
use serde_json::{Map, Value};

use diskfs::vm::tools::Work;
use diskfs::{Disk, Error, ErrorKind, Result, Volume};

use super::operand::Operand;
use super::options::SourceArgs;
use super::session::{Output, Session, stdout};
use super::show::json;
use super::show::name::message;
use super::show::size::units;
use super::target::{self, WriteArgs};
use super::tool;

/// Grow a filesystem to the size of its volume, in a microVM
///
/// The kernel and the program for the filesystem's type do the work: `xfs_growfs`, `btrfs`,
/// `resize2fs`, `resize.f2fs` or `ntfsresize`. The volume itself is not changed: enlarge the image,
/// and the partition or logical volume, before.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  qemu-img resize data.qcow2 20G && diskfs resize data.qcow2
  diskfs resize --volume p2 grown.raw")]
pub(super) struct Resize {
    /// The image with the filesystem
    #[arg(value_name = "IMG")]
    image: Operand,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Resize, session: &mut Session) -> Result<()> {
    let new_overlay = args.write.new_overlay();
    let image = args.image.image_alone("to resize")?;
    let disk = args.write.open(&args.source, &image)?;
    let grown = args.grow(&disk, session);
    session.print_warnings(&disk);
    let changed_bytes = disk.changed_in_memory();
    let closed = disk.close();
    let volume = grown.inspect_err(|_| target::remove_new_overlay(new_overlay))?;
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

/// Unused space below this size, after a filesystem or a partition, is alignment or a table.
const SLACK_BYTES: u64 = 1 << 20;

/// Fails if the filesystem already fills its partition, and the disk has free space after the
/// partition: then the image was enlarged, but the partition was not.
fn check_can_grow(disk: &Disk, volume: &Volume) -> Result<()> {
    let (Some(entry), Some(disk_bytes)) = (volume.entry(), volume.disk_bytes()) else {
        return Ok(());
    };
    let end = entry.start_bytes.saturating_add(entry.len_bytes);
    let neighbours = disk.volumes()?.iter();
    let starts = neighbours
        .filter(|other| other.entry().is_some() && other.disk_index() == volume.disk_index())
        .filter_map(Volume::start_bytes);
    let next = starts.filter(|start| *start >= end).min();
    let free_after = next.unwrap_or(disk_bytes).saturating_sub(end);
    let Some(filesystem_bytes) = volume.filesystem_bytes()? else {
        return Ok(());
    };
    let left = entry.len_bytes.saturating_sub(filesystem_bytes);
    if left >= SLACK_BYTES || free_after < SLACK_BYTES {
        return Ok(());
    }
    let name = volume.name();
    let reason = format!(
        "the filesystem already fills {name} ({}): the partition must be enlarged first, and {} after it are unused",
        units(entry.len_bytes),
        units(free_after)
    );
    let hint = format!(
        "enlarge partition {}, for example with `growpart` or `parted resizepart` in the guest, and run this command again",
        entry.number
    );
    Err(Error::new(ErrorKind::Other, reason)
        .in_file(disk.path())
        .with_hint(hint))
}

impl Resize {
    fn grow(&self, disk: &Disk, session: &Session) -> Result<Volume> {
        let volume = match self.source.volume.volume_alone(disk)? {
            Some(volume) => volume,
            None => disk.default_volume()?,
        };
        check_can_grow(disk, &volume)?;
        let done = tool::work(&self.source, &volume, &Work::Grow, session)?;
        done.check()?;
        Ok(volume)
    }
}
