//! The command `diskfs deploy`.

mod flags;
mod fleet;
pub(super) mod reference;
mod report;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::Args;

use diskfs::deploy::{self, Applied, Change, Deployment, Plan, StepReport, VolumeChanges};
use diskfs::document::{Deployed, deployed};
use diskfs::vfs::Remains;
use diskfs::{
    Commits, Disk, Error, ErrorKind, Result, RootReserve, WritableFilesystem, WriteOptions,
};

use super::ProgressMode;
use super::fleet::Shard;
use super::options::SourceArgs;
use super::out_file::is_standard;
use super::progress::Progress;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::target::{WriteArgs, remove_new_overlay};
use flags::Flags;

/// Edit guests offline: name, users, keys, network, files, services
#[derive(Debug, Args)]
#[command(
    long_about = "Edit guests offline: name, users, keys, network, files, services

The changes are given in a plan (--plan, a file in YAML or JSON), as options, or both: the steps of
the plan come first, then those of the options, in the order of the command line. All steps are
worked out for all images before anything is written, and each image gets all changes or none.
A step describes the wanted state, so running the same command again changes nothing. No program of
the guest is run, so the guest's architecture does not matter.",
    after_help = "Examples:
  diskfs deploy disk.qcow2 --hostname web1 --root-password file:secret
  diskfs deploy disk.qcow2 --ssh-inject root:file:key.pub --enable ssh
  diskfs deploy disk.qcow2 --plan plan.yaml --dry-run
  diskfs deploy disk.qcow2 --write '/etc/motd:Welcome' --chmod 0600:/etc/motd
  diskfs deploy --fleet jobs.jsonl -j 4 > results.jsonl
  diskfs deploy --describe network

A plan:
  steps:
    - hostname: web1.example.org
    - write: {path: /etc/motd, text: \"Welcome\\n\", mode: 0644}
    - user: {name: ann, password: {random: true}, sudo: nopasswd, ssh-keys: [ssh-ed25519 AAAA...]}
    - network: {interfaces: [{mac: 52:54:00:12:34:56, dhcp4: true}]}
    - copy-in: {from: ./app, to: /opt, owner: root:root}"
)]
pub(super) struct Deploy {
    /// The images to change; each contains one guest
    #[arg(value_name = "IMG", required_unless_present_any = ["fleet", "list_operations", "list_steps", "describe", "schema"])]
    images: Vec<OsString>,

    /// A file with the plan, in YAML or JSON; - for standard input
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    /// Deploy the guests of a list, with one JSON object per line ({"image": ..., "plan": {...}});
    /// - for standard input
    #[arg(long, value_name = "JOBS", conflicts_with_all = ["images", "overlay"])]
    fleet: Option<PathBuf>,

    /// The number of guests to deploy at once [default: one per processor]
    #[arg(short = 'j', long, value_name = "N", requires = "fleet")]
    jobs: Option<NonZero<u8>>,

    /// Take only a part of the list, so that several machines share it: INDEX/TOTAL, from 0/TOTAL
    ///
    /// Jobs with the same image are in the same part, if they name it in the same way.
    #[arg(long, value_name = "INDEX/TOTAL", requires = "fleet")]
    shard: Option<Shard>,

    /// List the operations of --operations, which remove a guest's identity
    #[arg(long, conflicts_with_all = ["images", "plan", "fleet"])]
    list_operations: bool,

    /// List the steps that a plan can have
    #[arg(long, conflicts_with_all = ["images", "plan", "fleet"])]
    list_steps: bool,

    /// Describe one step and its keys
    #[arg(long, value_name = "STEP", conflicts_with_all = ["images", "plan", "fleet"])]
    describe: Option<String>,

    /// Print the JSON Schema of plans
    #[arg(long, conflicts_with_all = ["images", "plan", "fleet"])]
    schema: bool,

    #[command(flatten)]
    flags: Flags,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Deploy, session: &mut Session) -> Result<()> {
    if args.list_operations {
        return report::list_operations(session);
    }
    if args.list_steps {
        return reference::list_steps(session);
    }
    if let Some(step) = &args.describe {
        return reference::describe(step, session);
    }
    if args.schema {
        return Ok(stdout()?.write_all(reference::SCHEMA.as_bytes())?);
    }
    let plan = args.plan()?;
    if let Some(jobs) = &args.fleet {
        return fleet::run(args, &plan, jobs, session);
    }
    if plan.steps.is_empty() {
        let error = Error::new(ErrorKind::Invalid, "missing plan: no step is given");
        return Err(
            error.with_hint("give --plan FILE, or an option for a step, such as --hostname NAME")
        );
    }
    if args.write.overlay.is_some() && args.images.len() > 1 {
        let reason = "--overlay can only be used with one image";
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    let mut out = stdout()?;
    let mut guests = Vec::new();
    let outcome = args.deploy_all(&plan, session, |session, image, deployed| {
        match session.output() {
            Output::Text => report::write(&mut out, args, image, &deployed)?,
            Output::Json => guests.push(deployed.document(image)),
        }
        Ok(())
    });
    if let Err(error) = outcome {
        if error.is_broken_pipe() {
            return Err(error);
        }
        session.report(&error);
    }
    if session.output() == Output::Json {
        let body = deployed(args.write.dry_run, &guests);
        document::write(&mut out, session.command(), body)?;
    }
    Ok(out.flush()?)
}

/// The hint for an invalid plan.
const PLAN_HINT: &str = "`diskfs deploy --list-steps` lists the steps of plans, and `--describe STEP` shows the keys of a step";

/// An opened guest, and the changes to write to it.
struct Prepared {
    disk: Disk,
    work: Work,
    /// The overlay that was created when the guest was opened.
    new_overlay: Option<PathBuf>,
}

/// The changes that a plan makes to one guest.
struct Work {
    changes: Vec<Change>,
    volumes: VolumeChanges,
    steps: Vec<StepReport>,
}

/// Adds to a write error what became of the changes.
fn with_remains(error: Error, target: &WritableFilesystem) -> Error {
    match target.abandon() {
        Ok(Remains::Nothing) => error.with_hint("nothing was changed"),
        Ok(Remains::All) => error.with_hint(
            "the changes were made; the guest completes them when it replays its journal",
        ),
        Ok(Remains::Some) | Err(_) => error.with_hint("a part of the changes may have been made"),
    }
}

/// Writes the changes of volumes, after those of files were written.
fn with_volumes(applied: Applied, files: &[Change], volumes: &VolumeChanges) -> Result<Applied> {
    if volumes.keeps_groups() {
        return Ok(applied);
    }
    volumes.apply().map_err(|error| {
        let error = if files.is_empty() {
            error
        } else {
            error.with_hint("the files were changed")
        };
        error.with_hint("run the same plan again to change the volumes")
    })?;
    Ok(Applied::InParts)
}

impl Deploy {
    fn plan(&self) -> Result<Plan> {
        let mut plan = match &self.plan {
            None => Plan::default(),
            Some(path) => {
                let text = if is_standard(path) {
                    std::io::read_to_string(std::io::stdin())
                } else {
                    fs::read_to_string(path)
                };
                let text = text.map_err(|error| Error::from(error).in_file(path))?;
                Plan::parse(&text).map_err(|error| error.in_file(path).with_hint(PLAN_HINT))?
            }
        };
        plan.steps.extend(self.flags.steps());
        Ok(plan)
    }

    /// Deploys all guests, and passes each result to `report`. All guests are opened and worked out
    /// before the first one is written; if that fails for one of them, none is written.
    fn deploy_all(
        &self,
        plan: &Plan,
        session: &mut Session,
        mut report: impl FnMut(&Session, &OsStr, Deployed) -> Result<()>,
    ) -> Result<()> {
        let mut ready = Vec::new();
        for image in &self.images {
            if self.write.dry_run {
                match self.show(image, plan, |disk| session.print_warnings(disk)) {
                    Ok(deployed) => report(session, image, deployed)?,
                    Err(error) => session.report(&error),
                }
                continue;
            }
            match self.prepare(image, plan, |disk| session.print_warnings(disk)) {
                Ok(prepared) => ready.push((image, prepared)),
                Err(error) => session.report(&error),
            }
        }
        let is_complete = self.write.dry_run || ready.len() == self.images.len();
        if !is_complete && !ready.is_empty() {
            let all = self.images.len();
            let failed = all.saturating_sub(ready.len());
            let reason =
                format!("nothing was written: {failed} of {all} images cannot be deployed");
            return Err(Error::new(ErrorKind::Invalid, reason).with_hint(
                "leave these images out, or deploy each image with a separate command",
            ));
        }
        for (image, prepared) in ready {
            let mut progress = Progress::new(session.progress(), None);
            let written = self.write(prepared, &mut progress);
            progress.finish();
            match written {
                Ok(deployed) => report(session, image, deployed)?,
                Err(error) => session.report(&error),
            }
        }
        Ok(())
    }

    /// Deploys a single guest.
    fn deploy(&self, image: &OsStr, plan: &Plan) -> Result<Deployed> {
        if self.write.dry_run {
            return self.show(image, plan, |_| {});
        }
        // A fleet shows its own progress.
        let mut quiet = Progress::new(ProgressMode::None, None);
        self.write(self.prepare(image, plan, |_| {})?, &mut quiet)
    }

    /// Opens a guest and works out its changes, without writing anything. Passes the disk to
    /// `look`.
    fn prepare(&self, image: &OsStr, plan: &Plan, look: impl FnOnce(&Disk)) -> Result<Prepared> {
        let new_overlay = self.write.new_overlay().map(Path::to_owned);
        let disk = self.write.open(&self.source, image)?;
        let worked_out = self.work_out(&disk, plan);
        look(&disk);
        match worked_out {
            Ok(work) => Ok(Prepared {
                disk,
                work,
                new_overlay,
            }),
            Err(error) => {
                drop(disk);
                remove_new_overlay(new_overlay.as_deref());
                Err(error)
            }
        }
    }

    /// Writes the changes that were worked out, and closes the disk.
    fn write(&self, prepared: Prepared, progress: &mut Progress) -> Result<Deployed> {
        let Prepared {
            disk,
            work:
                Work {
                    changes,
                    volumes,
                    steps,
                },
            new_overlay,
        } = prepared;
        let written = self.apply(&disk, &changes, &volumes, new_overlay.as_deref(), progress);
        let written = written.and_then(|applied| with_volumes(applied, &changes, &volumes));
        drop(volumes);
        let ended = disk.close();
        if written.is_err() {
            remove_new_overlay(new_overlay.as_deref());
        }
        let ended = ended.map_err(|error| error.with_hint("the changes were made"));
        let applied = written.and_then(|applied| ended.map(|()| applied))?;
        Ok(Deployed {
            steps,
            diff: None,
            in_parts: applied == Applied::InParts,
        })
    }

    /// Works out the changes as a diff, without writing anything.
    fn show(&self, image: &OsStr, plan: &Plan, look: impl FnOnce(&Disk)) -> Result<Deployed> {
        let disk = self.source.open(image)?;
        let shown = self.diff(&disk, plan);
        look(&disk);
        shown
    }

    fn diff(&self, disk: &Disk, plan: &Plan) -> Result<Deployed> {
        let guest = self.source.volume.guest(disk)?;
        let deployment = Deployment::prepare_on(disk, guest, plan)?;
        let diff = deployment.diff()?;
        Ok(Deployed {
            steps: deployment.into_steps(),
            diff: Some(diff),
            in_parts: false,
        })
    }

    fn work_out(&self, disk: &Disk, plan: &Plan) -> Result<Work> {
        let guest = self.source.volume.guest(disk)?;
        let deployment = Deployment::prepare_on(disk, guest, plan)?;
        let changes = deployment.changes()?;
        deployment.check_room(&changes)?;
        // The filesystem that was read is closed first: with a fallback, each open one has its own
        // microVM.
        let (steps, volumes) = deployment.into_parts();
        Ok(Work {
            changes,
            volumes,
            steps,
        })
    }

    /// Opens the filesystem for writing, unless nothing changes: each time it is opened counts as a
    /// mount, which is written to the filesystem as well.
    fn apply(
        &self,
        disk: &Disk,
        changes: &[Change],
        volumes: &VolumeChanges,
        new_overlay: Option<&Path>,
        progress: &mut Progress,
    ) -> Result<Applied> {
        if changes.is_empty() && volumes.keeps_filesystems() {
            return Ok(Applied::OneTransaction);
        }
        let options = WriteOptions {
            commits: Commits::AtClose,
            // The guest's root could make the same changes, so the root reserve may be used.
            root_reserve: RootReserve::Use,
            ..WriteOptions::default()
        };
        let target = self.source.volume.writable_filesystem(disk, options)?;
        // A new overlay is removed with all its contents, so remaining changes need no hint.
        let advance = &mut |bytes, total| progress.advance_of(bytes, total);
        deploy::apply(changes, volumes, &target, advance).map_err(|error| match new_overlay {
            Some(_) => error,
            None => with_remains(error, &target),
        })
    }
}
