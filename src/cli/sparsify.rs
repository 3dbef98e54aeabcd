//! The command `diskfs sparsify`.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use diskfs::image::{Access, DirectOpener, FileOpener as _};
#[cfg(feature = "microvm")]
use diskfs::vm::tools::Work;
use diskfs::{Content, Disk, FreeSpace, Result, Volume};

use super::operand::Operand;
use super::options::SourceArgs;
use super::progress::Progress;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::show::name::message;
use super::show::size::units;
use super::tool::{self, MethodArgs};

/// Free the unused space of filesystems in an image
///
/// The space that no file uses is discarded in each filesystem of the image, or in the selected
/// volume, as fstrim(8) does in a running guest: clusters of a qcow2 image are freed, and a raw
/// image gets holes, in place. Nothing else in the image changes, except that a journal is replayed
/// first. In an overlay, only space that the overlay itself stores is freed: what is in the backing
/// file stays there.
///
/// This is done for ext2, ext3, ext4, FAT and exFAT by diskfs itself, and for other filesystems by
/// their kernel driver in a microVM.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs sparsify debian.qcow2
  diskfs sparsify --dry-run --volume p2 data.raw")]
pub(super) struct Sparsify {
    /// The image to sparsify
    #[arg(value_name = "IMG")]
    image: Operand,

    /// Change nothing, and print how much space would be freed
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    method: MethodArgs,

    #[command(flatten)]
    source: SourceArgs,
}

/// A volume whose free space was discarded.
struct Trimmed {
    volume: String,
    /// The space, if diskfs itself has discarded or counted it.
    space: Option<FreeSpace>,
}

pub(super) fn run(args: &Sparsify, session: &mut Session) -> Result<()> {
    let image = args.image.image_alone("to sparsify")?;
    let disk = if args.dry_run {
        args.source.open(&image)?
    } else {
        args.source.open_writable(&image, None)?
    };
    let path = disk.path().to_owned();
    let qcow2 = disk.description().qcow2.as_ref();
    let data_file = qcow2.and_then(|qcow2| qcow2.data_file.clone());
    let files = [Some(path.clone()), data_file];
    let allocated = || {
        let files = files.iter().flatten();
        files.map(|file| allocated_bytes(file)).sum::<Result<u64>>()
    };
    let before = allocated()?;
    let trimmed = args.trim_all(&disk, session);
    session.print_warnings(&disk);
    let closed = disk.close();
    let trimmed = trimmed?;
    closed?;
    let after = allocated()?;
    match session.output() {
        Output::Text if args.dry_run => print_free(&trimmed),
        Output::Text => print_saved(&path, before, after),
        Output::Json => {
            let spaces = trimmed.iter().filter_map(|trimmed| trimmed.space);
            let (free, stored) = spaces.fold((0u64, 0u64), |(free, stored), space| {
                let stored = stored.saturating_add(space.stored_bytes);
                (free.saturating_add(space.free_bytes), stored)
            });
            let volumes: Vec<Value> = trimmed.iter().map(|t| t.volume.clone().into()).collect();
            let body = json!({
                "volumes": volumes,
                "dry_run": args.dry_run,
                "free_bytes": free,
                "discarded_bytes": stored,
                "before_bytes": before,
                "after_bytes": after,
            });
            let mut out = stdout()?;
            document::write(&mut out, session.command(), body)?;
            Ok(out.flush()?)
        }
    }
}

fn print_free(trimmed: &[Trimmed]) -> Result<()> {
    let mut out = stdout()?;
    for Trimmed { volume, space } in trimmed {
        let space = space.unwrap_or_default();
        writeln!(
            out,
            "{}: {} free, of which the image stores {}",
            message(volume),
            units(space.free_bytes),
            units(space.stored_bytes)
        )?;
    }
    Ok(out.flush()?)
}

fn print_saved(path: &Path, before: u64, after: u64) -> Result<()> {
    let mut out = stdout()?;
    let (name, saved) = (path.display().to_string(), before.saturating_sub(after));
    let (after, saved) = (units(after), units(saved));
    writeln!(out, "{}: {after}, {saved} less", message(&name))?;
    Ok(out.flush()?)
}

/// Returns the space that is allocated for a file on the host.
fn allocated_bytes(path: &Path) -> Result<u64> {
    Ok(DirectOpener.open(path, Access::Read)?.allocated_bytes()?)
}

impl Sparsify {
    fn trim_all(&self, disk: &Disk, session: &mut Session) -> Result<Vec<Trimmed>> {
        let volumes = tool::volumes(&self.source, disk, |content| self.supports(content))?;
        let mut trimmed = Vec::new();
        for volume in &volumes {
            match self.trim(volume, session) {
                Ok(space) => trimmed.push(Trimmed {
                    volume: volume.name().to_owned(),
                    space,
                }),
                Err(error) => session.report(&error),
            }
        }
        Ok(trimmed)
    }

    #[cfg_attr(
        not(feature = "microvm"),
        expect(clippy::unused_self, reason = "with a microVM the options choose")
    )]
    fn supports(&self, content: &Content) -> bool {
        #[cfg(feature = "microvm")]
        if !self.dry_run && tool::has_program(content, &Work::Trim) {
            return true;
        }
        matches!(content.kind, "ext2" | "ext3" | "ext4" | "vfat" | "exfat")
    }

    fn trim(&self, volume: &Volume, session: &Session) -> Result<Option<FreeSpace>> {
        if self.dry_run {
            return volume.free_space().map(Some);
        }
        let native = || {
            let mut progress = Progress::new(session.progress(), None);
            let trimmed = volume.trim(&mut |bytes| {
                progress.advance(bytes);
                ControlFlow::Continue(())
            });
            progress.finish();
            trimmed.map(Some)
        };
        #[cfg(feature = "microvm")]
        return self.method.native_or_vm(native, || {
            tool::work(&self.source, volume, &Work::Trim, session)?.check()?;
            Ok(None)
        });
        #[cfg(not(feature = "microvm"))]
        native()
    }
}
