//! The command `diskfs resize`.

mod report;
#[cfg(feature = "microvm")]
mod tool;

use std::ops::ControlFlow;

use clap::Args;

use diskfs::volume::edit::NewSize;
use diskfs::{ResizeReport, ResizeRequest, ResizeTool, Result, ShrinkTo};

use super::bytes;
use super::operand::Operand;
use super::options::SourceArgs;
use super::progress::Progress;
use super::session::Session;
use super::target::{self, WriteArgs};
use super::tool::MethodArgs;

/// Grow or shrink a disk with its partition, LVM and filesystem
///
/// The image gets the size SIZE, if it is given. Then all layers around the selected volume get the
/// new space, in place and from the outside to the inside: the partition (with the backup of a GPT
/// and the extended partition around a logical one), the LVM physical and logical volume, and
/// finally the filesystem. An encrypted volume (LUKS) needs no step of its own: give its key, so
/// that what is inside grows. A logical volume gets all free space of its volume group.
///
/// All steps are tried in memory first, so a request that can't be fulfilled changes nothing. What
/// can't grow further stays as it is. So after an interruption the command can be repeated, after
/// +SIZE without the size.
///
/// ext2, ext3, ext4, FAT, exFAT and swap grow and shrink by diskfs itself. Other filesystems grow by
/// the program for their type (`xfs_growfs`, `btrfs`, `resize.f2fs` or `ntfsresize`) in a microVM,
/// and do not shrink. A swap area keeps its UUID, not its contents.
///
/// If shrinking is interrupted, repeat the command before the filesystem is mounted: until its next
/// mount, a kernel can continue to use the old size.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs resize data.qcow2 20G
  diskfs resize --dry-run --volume p2 data.raw +5G
  diskfs resize --volume vg0/root server.qcow2 100G
  diskfs resize --volume p3 --key p3:ask laptop.qcow2 +50G
  diskfs resize --volume p2 grown.raw
  diskfs resize --shrink data.qcow2 8G
  diskfs resize --shrink-to-minimum --volume p2 template.raw")]
pub(super) struct Resize {
    /// The image with the filesystem
    #[arg(value_name = "IMG")]
    image: Operand,

    /// The new size of the disk, or with + the number of bytes to add (suffixes k, M, G, T)
    /// [default: the present size]
    #[arg(value_name = "[+]SIZE", value_parser = new_size)]
    size: Option<NewSize>,

    /// The new size of the selected logical volume, or with + the number of bytes to add [default:
    /// all free space of its volume group]
    #[arg(long, value_name = "[+]SIZE", value_parser = new_size)]
    lv_size: Option<NewSize>,

    /// Allow a SIZE that is smaller: shrink the filesystem first, then what is around it, and the
    /// image last
    #[arg(long, requires = "size", conflicts_with = "lv_size")]
    shrink: bool,

    /// Make the disk as small as the contents of the volume allow
    #[arg(long, conflicts_with_all = ["size", "shrink", "lv_size"])]
    shrink_to_minimum: bool,

    #[command(flatten)]
    method: MethodArgs,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Resize, session: &mut Session) -> Result<()> {
    let new_overlay = args.write.new_overlay();
    let report = args.resize(session);
    let report = report.inspect_err(|_| target::remove_new_overlay(new_overlay))?;
    for warning in &report.warnings {
        session.warn(warning);
    }
    report::print(session, &report, args.write.dry_run)
}

impl Resize {
    fn resize(&self, session: &Session) -> Result<ResizeReport> {
        let image = self.image.image_alone("to resize")?;
        let options = self.write.disk_options(&self.source, &image)?;
        let request = ResizeRequest {
            size: self.size,
            volume: self.source.volume.resize_volume()?,
            logical_size: self.lv_size,
            shrink: if self.shrink_to_minimum {
                Some(ShrinkTo::Minimum)
            } else {
                self.shrink.then_some(ShrinkTo::Size)
            },
        };
        #[cfg(feature = "microvm")]
        let programs = tool::Programs {
            method: &self.method,
            source: &self.source,
            session,
        };
        #[cfg(feature = "microvm")]
        let tool: Option<&dyn ResizeTool> = Some(&programs);
        #[cfg(not(feature = "microvm"))]
        let tool: Option<&dyn ResizeTool> = None;
        let mut progress = Progress::new(session.progress(), None);
        let report = options.resize(&image, &request, tool, &mut |now| {
            progress.name_step(now.layer.words());
            progress.advance(now.bytes);
            ControlFlow::Continue(())
        });
        progress.finish();
        report
    }
}

/// Parses a size: `20G` or `+5G`.
fn new_size(text: &str) -> std::result::Result<NewSize, String> {
    match text.strip_prefix('+') {
        Some(more) => bytes::parse(more).map(NewSize::More),
        None => bytes::parse(text).map(NewSize::Bytes),
    }
}
