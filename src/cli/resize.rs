//! The command `diskfs resize`.

use std::ffi::OsStr;
use std::io::Write as _;
use std::ops::ControlFlow;

use clap::Args;
use serde_json::{Map, Value};

use diskfs::image::{self, Image};
#[cfg(feature = "microvm")]
use diskfs::vm::tools::Work;
use diskfs::volume::TableKind;
use diskfs::volume::edit::NewSize;
use diskfs::{Content, Disk, Error, ErrorKind, NewSpace, Result, Volume};

use super::bytes;
use super::operand::Operand;
use super::options::SourceArgs;
use super::progress::Progress;
use super::session::{Output, Session, stdout};
use super::show::json;
use super::show::name::message;
use super::show::size::units;
use super::snapshot::open_options;
use super::target::{self, WriteArgs};
#[cfg(feature = "microvm")]
use super::tool;
use super::tool::MethodArgs;

/// Grow an image, a partition and its filesystem
///
/// The image gets the size SIZE, if it is given. Then the partition of the selected volume gets the
/// free space that follows it, and the filesystem the space of its partition, each in place. What
/// can't grow further stays as it is, so the command can be repeated. An encrypted partition needs
/// no step of its own. Logical volumes are not enlarged; their filesystems are.
///
/// ext2, ext3 and ext4 are grown by diskfs itself, other filesystems by the program for their type
/// (`xfs_growfs`, `btrfs`, `resize.f2fs` or `ntfsresize`) in a microVM.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs resize data.qcow2 20G
  diskfs resize --volume p2 data.raw +5G
  diskfs resize --volume p2 grown.raw")]
pub(super) struct Resize {
    /// The image with the filesystem
    #[arg(value_name = "IMG")]
    image: Operand,

    /// The new size of the disk, or with + the number of bytes to add (suffixes k, M, G, T)
    /// [default: the present size]
    #[arg(value_name = "[+]SIZE", value_parser = new_size, conflicts_with_all = ["overlay", "dry_run"])]
    size: Option<NewSize>,

    #[command(flatten)]
    method: MethodArgs,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

/// A volume whose filesystem fills it.
struct Grown {
    volume: Volume,
    old_bytes: u64,
}

pub(super) fn run(args: &Resize, session: &mut Session) -> Result<()> {
    let new_overlay = args.write.new_overlay();
    let image = args.image.image_alone("to resize")?;
    if let Some(size) = args.size {
        args.check_volume(&image)?;
        args.resize_image(&image, size)?;
    }
    let mut disk = args.write.open(&args.source, &image)?;
    let grown = args.grow(&mut disk, session);
    session.print_warnings(&disk);
    let changed_bytes = disk.changed_in_memory();
    let closed = disk.close();
    let Grown { volume, old_bytes } =
        grown.inspect_err(|_| target::remove_new_overlay(new_overlay))?;
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
            document.insert("old_size_bytes".to_owned(), old_bytes.into());
            document.insert("size_bytes".to_owned(), volume.size_bytes().into());
            document.insert("dry_run".to_owned(), args.write.dry_run.into());
            if let Some(bytes) = changed_bytes {
                document.insert("changed_bytes".to_owned(), bytes.into());
            }
            json::write(&mut out, session.command(), Value::Object(document))?;
        }
    }
    Ok(out.flush()?)
}

impl Resize {
    /// Fails unless the volume can be selected and has a filesystem that can grow, so that the image
    /// is not enlarged in vain.
    fn check_volume(&self, image: &OsStr) -> Result<()> {
        let disk = self.source.open(image)?;
        let volume = self.volume(&disk)?;
        let content = volume.content()?;
        if content.is_some_and(supports) {
            return Ok(());
        }
        let kind = content.map_or("no known filesystem", |content| content.kind);
        let name = message(volume.name());
        let reason = format!("volume {name} holds {kind}, which cannot be grown");
        let hint =
            "select another volume with --volume, or grow a partition with `diskfs partition grow`";
        let error = Error::new(ErrorKind::Unsupported, reason).in_file(disk.path());
        Err(error.with_hint(hint))
    }

    fn resize_image(&self, image: &OsStr, size: NewSize) -> Result<()> {
        let (path, options) = open_options(image, &self.source.image)?;
        let size_bytes = match size {
            NewSize::Bytes(bytes) => bytes,
            NewSize::More(bytes) => {
                let present = Image::open(&path, &options)?.device().size_bytes();
                present.saturating_add(bytes)
            }
            NewSize::Largest => return Ok(()),
        };
        let how = image::ResizeOptions::default();
        image::resize(&path, size_bytes, how, &options)?;
        Ok(())
    }

    fn volume(&self, disk: &Disk) -> Result<Volume> {
        match self.source.volume.volume_alone(disk)? {
            Some(volume) => Ok(volume),
            None => disk.default_volume(),
        }
    }

    fn grow(&self, disk: &mut Disk, session: &Session) -> Result<Grown> {
        let volume = self.volume(disk)?;
        let old_bytes = volume.size_bytes();
        let number = partition_number(disk, &volume)?;
        drop(volume);
        if let Some(number) = number {
            disk.edit_partitions(None, |editor| editor.grow(number, NewSize::Largest))?;
        }
        let volume = self.volume(disk)?;
        self.grow_filesystem(&volume, session)?;
        Ok(Grown { volume, old_bytes })
    }

    #[cfg_attr(
        not(feature = "microvm"),
        expect(clippy::unused_self, reason = "with a microVM the options choose")
    )]
    fn grow_filesystem(&self, volume: &Volume, session: &Session) -> Result<()> {
        let native = || {
            let mut progress = Progress::new(session.progress(), None);
            let grown = volume.grow_filesystem(NewSpace::Unknown, &mut |bytes| {
                progress.advance(bytes);
                ControlFlow::Continue(())
            });
            progress.finish();
            grown.map(|_| ())
        };
        #[cfg(feature = "microvm")]
        return self.method.native_or_vm(native, || {
            tool::work(&self.source, volume, &Work::Grow, session)?.check()
        });
        #[cfg(not(feature = "microvm"))]
        native()
    }
}

fn supports(content: &Content) -> bool {
    #[cfg(feature = "microvm")]
    if tool::has_program(content, &Work::Grow) {
        return true;
    }
    matches!(content.kind, "ext2" | "ext3" | "ext4")
}

/// Returns the number of the partition that the volume is, or that it is the inside of, if its
/// table can be edited.
fn partition_number(disk: &Disk, volume: &Volume) -> Result<Option<u32>> {
    let outer = match volume.name().strip_suffix("/luks") {
        Some(outer) => disk.volume(outer)?,
        None => volume.clone(),
    };
    let table = disk.partition_table()?.map(|table| table.kind);
    let is_editable = matches!(
        table,
        Some(TableKind::Gpt | TableKind::HybridMbr | TableKind::Mbr)
    );
    let entry = outer.entry().filter(|_| outer.disk_index() == Some(0));
    Ok(entry.filter(|_| is_editable).map(|entry| entry.number))
}

/// Parses a size: `20G` or `+5G`.
fn new_size(text: &str) -> std::result::Result<NewSize, String> {
    match text.strip_prefix('+') {
        Some(more) => bytes::parse(more).map(NewSize::More),
        None => bytes::parse(text).map(NewSize::Bytes),
    }
}
