//! The command `diskfs check`.

mod image;
mod results;

#[cfg(feature = "microvm")]
use diskfs::vm::tools::{self, Work};

use std::ffi::OsStr;
use std::ops::ControlFlow;

use clap::Args;

use diskfs::check::{CheckOptions, CheckPhase};
use diskfs::volume::{Partition, PartitionKind};
use diskfs::{Content, Disk, Error, ErrorKind, Format, Result, Volume};

use super::ProgressMode;
use super::operand::Operand;
use super::options::SourceArgs;
use super::progress::Progress;
use super::session::Session;
use super::show::name::message;
use super::tool::{self, MethodArgs};
use image::CheckedImage;
use results::{Checked, Outcome, print_results};

/// Check an image and its filesystems, and repair them
///
/// The tables of a qcow2, VMDK, VDI, VHDX, QED or Parallels image are checked as by `qemu-img check`,
/// unless one volume is selected. Leaked clusters are no damage: they only waste space.
///
/// ext2, ext3 and ext4 are checked by diskfs itself: superblock, groups, inodes, extents,
/// directories, links, attributes and bitmaps, as `e2fsck -fn` does. Other filesystems are checked
/// by the program for their type (`xfs_repair`, `btrfs check`, `fsck.f2fs`, `fsck.vfat`,
/// `fsck.exfat`, `ntfsfix`) in a microVM.
///
/// Without --repair nothing is written to the image: a journal is replayed in memory only. With
/// --repair, diskfs repairs a qcow2 image itself; damaged filesystems, including ext4, are repaired
/// by these programs and `e2fsck` in a microVM, and then checked again. With --with native no
/// filesystem is repaired.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs check debian.qcow2
  diskfs check --json --volume vg0/data lab.qcow2
  diskfs check --repair --volume p2 broken.raw

Exits with code 5 if a filesystem is damaged.")]
pub(super) struct Check {
    /// The image to check
    #[arg(value_name = "IMG")]
    image: Operand,

    /// Repair a damaged image, and in a microVM damaged filesystems
    #[arg(long)]
    repair: bool,

    #[command(flatten)]
    method: MethodArgs,

    #[command(flatten)]
    source: SourceArgs,
}

/// The types of partitions that contain no filesystem: BIOS boot, `PReP`, and Microsoft's reserved
/// one.
const RAW_TYPES: [&str; 3] = [
    "21686148-6449-6e6f-744e-656564454649",
    "9e1a2d38-c612-4316-aa26-8b49521e5a8b",
    "e3c9e316-0b5c-4db8-817d-f92df00215ae",
];

pub(super) fn run(args: &Check, session: &mut Session) -> Result<()> {
    let image = args.image.image_alone("to check")?;
    let checked_image = args.check_image(&image)?;
    // The image's own findings are printed even if it cannot be opened.
    let checked = args.check_volumes(&image, session);
    let checked = image::unless_only_image(checked, checked_image.as_ref());
    let (checked, error) = match checked {
        Ok(checked) => (checked, None),
        Err(error) if checked_image.is_none() => return Err(error),
        Err(error) => (Vec::new(), Some(error)),
    };
    print_results(session, checked_image.as_ref(), &checked)?;
    if let Some(damaged) = checked_image.filter(|image| !image.is_safe()) {
        let reason = format!("the image is {}", damaged.verdict());
        let error = Error::new(ErrorKind::Corrupt, reason).in_file(&damaged.path);
        session.report(&error.with_hint(args.image_next_step(damaged.format)));
    }
    for damaged in checked.iter().filter(|checked| !checked.is_clean()) {
        let error = Error::new(ErrorKind::Corrupt, damaged.damage());
        session.report(&error.with_hint(args.next_step()));
    }
    if let Some(error) = error {
        session.report(&error);
    }
    Ok(())
}

impl Check {
    fn image_next_step(&self, format: Format) -> &'static str {
        if format != Format::Qcow2 {
            "diskfs repairs only qcow2 images: restore a backup"
        } else if self.repair {
            "it could not be repaired completely: restore a backup"
        } else {
            "--repair repairs it; make a copy of the image before"
        }
    }

    /// Returns true if no microVM may repair a filesystem.
    #[cfg_attr(
        not(feature = "microvm"),
        expect(
            clippy::unused_self,
            reason = "without microVMs, the answer is always the same"
        )
    )]
    fn is_native_only(&self) -> bool {
        #[cfg(feature = "microvm")]
        return self.method.asks_for_native();
        #[cfg(not(feature = "microvm"))]
        true
    }

    fn next_step(&self) -> &'static str {
        if self.repair && self.is_native_only() {
            "diskfs repairs no filesystem itself: leave out `--with native` for a repair in a \
             microVM, or use `e2fsck` on a copy"
        } else if self.repair {
            "the program could not repair the rest: restore a backup"
        } else if cfg!(feature = "microvm") {
            "--repair repairs it; make a copy of the image before"
        } else {
            "repair it with `e2fsck` on a copy"
        }
    }

    /// Checks the image itself, unless a volume is selected.
    fn check_image(&self, image: &OsStr) -> Result<Option<CheckedImage>> {
        let which = &self.source.volume;
        let is_whole =
            which.volume.is_none() && which.partition.is_none() && which.offset.is_none();
        if !is_whole {
            return Ok(None);
        }
        image::check(image, &self.source.image, self.repair)
    }

    fn check_volumes(&self, image: &OsStr, session: &mut Session) -> Result<Vec<Checked>> {
        let disk = if self.repair {
            self.source.open_writable(image, None)?
        } else {
            self.source.open(image)?
        };
        let checked = self.check_all(&disk, session);
        session.print_warnings(&disk);
        let closed = disk.close();
        let checked = checked?;
        closed?;
        Ok(checked)
    }

    fn check_all(&self, disk: &Disk, session: &mut Session) -> Result<Vec<Checked>> {
        let is_selected = self.source.volume.volume_alone(disk)?.is_some();
        if !is_selected {
            report_unchecked(disk, session)?;
        }
        let volumes = tool::volumes(&self.source, disk, supports)?;
        let mut checked = Vec::new();
        for volume in &volumes {
            match self.check(volume, session) {
                Ok(outcome) => checked.push(Checked {
                    volume: volume.name().to_owned(),
                    kind: volume.filesystem_kind()?,
                    outcome,
                }),
                Err(error) => session.report(&error),
            }
        }
        Ok(checked)
    }

    #[cfg(feature = "microvm")]
    fn check(&self, volume: &Volume, session: &mut Session) -> Result<Outcome> {
        let native = || check_natively(volume, session.progress());
        let by_program = || self.check_by_program(volume, session);
        let outcome = self.method.native_or_vm(native, by_program)?;
        if !self.repair || outcome.is_clean() || self.is_native_only() {
            return Ok(outcome);
        }
        // The exit code of the repair is not used: the check afterwards decides.
        if let Err(error) = tool::work(&self.source, volume, &Work::Repair, session) {
            session.report(&error);
            return Ok(outcome);
        }
        self.method.native_or_vm(native, by_program)
    }

    #[cfg(not(feature = "microvm"))]
    #[expect(clippy::unused_self, reason = "with a microVM it chooses a program")]
    fn check(&self, volume: &Volume, session: &mut Session) -> Result<Outcome> {
        check_natively(volume, session.progress())
    }

    #[cfg(feature = "microvm")]
    fn check_by_program(&self, volume: &Volume, session: &Session) -> Result<Outcome> {
        let options = self.source.vm.options()?;
        let kind = volume.filesystem_kind()?;
        let handler = tool::output_handler(session);
        let device = tool::only_device(volume, volume.devices()?)?;
        let done = tools::check(&options, kind, device, handler)?;
        Ok(Outcome::ByProgram {
            is_clean: done.is_well(),
            command: done.command,
            output: done.output,
        })
    }
}

/// Reports the volumes that are not checked: those that cannot be opened as damage, and encrypted
/// and unknown ones as warnings.
fn report_unchecked(disk: &Disk, session: &mut Session) -> Result<()> {
    for volume in disk.volumes()? {
        let name = message(volume.name());
        if let Some(problem) = volume.problem() {
            let reason = format!("volume {name} cannot be checked: it {problem}");
            session.report(&Error::new(ErrorKind::Corrupt, reason).in_file(disk.path()));
            continue;
        }
        let is_partition = volume.entry().is_some_and(has_filesystem);
        match volume.content()? {
            None if is_partition => {
                session.warn(&format!(
                    "volume {name} has no known content, and is not checked"
                ));
            }
            Some(content) if content.kind == "crypto_LUKS" && !volume.is_unlocked() => {
                let step = format!("give --key {name}:ask");
                session.warn(&format!(
                    "volume {name} is encrypted, and is not checked; {step}"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns true if a partition of this type usually has a filesystem or the like.
fn has_filesystem(entry: &Partition) -> bool {
    match &entry.kind {
        PartitionKind::Gpt { type_guid, .. } => {
            !RAW_TYPES.contains(&type_guid.to_string().as_str())
        }
        _ => !entry.is_extended(),
    }
}

fn supports(content: &Content) -> bool {
    #[cfg(feature = "microvm")]
    if tool::has_program(content, &Work::Check) {
        return true;
    }
    matches!(content.kind, "ext2" | "ext3" | "ext4")
}

fn check_natively(volume: &Volume, mode: ProgressMode) -> Result<Outcome> {
    let mut progress = Progress::new(mode, None);
    let report = volume.check(&CheckOptions::default(), &mut |now| {
        progress.step(phase_name(now.phase), now.done, now.total);
        ControlFlow::Continue(())
    });
    progress.finish();
    report.map(Outcome::Native)
}

fn phase_name(phase: CheckPhase) -> &'static str {
    match phase {
        CheckPhase::Superblock => "superblock",
        CheckPhase::Inodes => "inodes",
        CheckPhase::Directories => "directories",
        CheckPhase::Connectivity => "connectivity",
        CheckPhase::References => "references",
        CheckPhase::Summaries => "summaries",
        _ => "filesystem",
    }
}
