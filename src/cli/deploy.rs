//! `diskfs deploy`.

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
use serde_json::{Value, json};

use diskfs::deploy::{self, Applied, Change, Deployment, Plan, StepReport, VolumeChanges};
use diskfs::vfs::Remains;
use diskfs::{
    Commits, Disk, Error, ErrorKind, Result, RootReserve, WritableFilesystem, WriteOptions,
};

use super::ProgressMode;
use super::options::SourceArgs;
use super::out_file::is_standard;
use super::progress::Progress;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::target::{WriteArgs, forget};
use flags::Flags;

/// Edit guests offline: name, users, keys, network, files, services
#[derive(Debug, Args)]
#[command(
    long_about = "Edit guests offline: name, users, keys, network, files, services

What is to be done stands in a plan (--plan, YAML or JSON), in options, or in both: the plan's steps
come first, then those of the options, in their order. All steps are worked out, in all images, before
anything is written, and all of a plan is written to an image or nothing. Steps say what is to be, so that the same command once
more changes nothing. Nothing of the guest is run, whatever its architecture.",
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
    /// The images, each a guest of its own
    #[arg(value_name = "IMG", required_unless_present_any = ["fleet", "list_operations", "list_steps", "describe", "schema"])]
    images: Vec<OsString>,

    /// What is to be done: a file of YAML or JSON, - for standard input
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    /// Deploy the guests of a list, a line of JSON each ({"image": ..., "plan": {...}}), - for standard input
    #[arg(long, value_name = "JOBS", conflicts_with_all = ["images", "overlay"])]
    fleet: Option<PathBuf>,

    /// Guests at once; as many as there are processors
    #[arg(short = 'j', long, value_name = "N", requires = "fleet")]
    jobs: Option<NonZero<u8>>,

    /// List what --operations can take away
    #[arg(long, conflicts_with_all = ["images", "plan", "fleet"])]
    list_operations: bool,

    /// List the steps of plans
    #[arg(long, conflicts_with_all = ["images", "plan", "fleet"])]
    list_steps: bool,

    /// Tell what a step of plans can have
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
        let error = Error::new(ErrorKind::Invalid, "there is nothing to do");
        return Err(error.with_hint("give --plan FILE, or options as --hostname NAME"));
    }
    if args.write.overlay.is_some() && args.images.len() > 1 {
        let reason = "one overlay takes the changes of one image";
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    let mut out = stdout()?;
    let mut told = Vec::new();
    let outcome = args.deploy_all(&plan, session, |session, image, deployed| {
        match session.output() {
            Output::Text => report::write(&mut out, args, image, &deployed)?,
            Output::Json => told.push(deployed.json(image)),
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
        let body = json!({ "dry_run": args.write.dry_run, "guests": told });
        document::write(&mut out, session.command(), body)?;
    }
    Ok(out.flush()?)
}

/// Where to read on, when a plan is none.
const PLAN_HINT: &str = "`diskfs deploy --list-steps` tells the steps of plans, and `--describe STEP` what each can have";

/// A guest that is open, with what is to be written to it.
struct Prepared {
    disk: Disk,
    work: Work,
    /// The overlay that opening it made.
    new_overlay: Option<PathBuf>,
}

/// The changes that a plan makes to one guest.
struct Work {
    changes: Vec<Change>,
    volumes: VolumeChanges,
    steps: Vec<StepReport>,
}

/// What was done to a guest, or would be.
struct Deployed {
    steps: Vec<StepReport>,
    /// As text, when it was only to be shown.
    diff: Option<Vec<u8>>,
    /// A crash while it was written would have left a part.
    in_parts: bool,
}

impl Deployed {
    fn json(&self, image: &OsStr) -> Value {
        let mut told = report::json(&self.steps);
        told.insert("image".to_owned(), image.to_string_lossy().into());
        if let Some(diff) = &self.diff {
            told.insert("diff".to_owned(), String::from_utf8_lossy(diff).into());
        }
        if self.in_parts {
            told.insert("in_parts".to_owned(), true.into());
        }
        Value::Object(told)
    }
}

/// An error of writing, with what is there of the changes.
fn with_remains(error: Error, target: &WritableFilesystem) -> Error {
    match target.abandon() {
        Ok(Remains::Nothing) => error.with_hint("nothing was changed"),
        Ok(Remains::All) => {
            error.with_hint("the changes were made all the same; the guest recovers the rest")
        }
        Ok(Remains::Some) | Err(_) => error.with_hint("a part of the changes may have been made"),
    }
}

/// Writes the changes of volumes, when those of files are written.
fn with_volumes(applied: Applied, files: &[Change], volumes: &VolumeChanges) -> Result<Applied> {
    if volumes.keeps_groups() {
        return Ok(applied);
    }
    volumes.apply().map_err(|error| {
        let error = if files.is_empty() {
            error
        } else {
            error.with_hint("the files were changed all the same")
        };
        error.with_hint("the same plan once more changes the volumes")
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

    /// Deploys all guests, and hands each to `tell`. All are opened and worked out before the first is written; when that
    /// fails for one of them, none is written.
    fn deploy_all(
        &self,
        plan: &Plan,
        session: &mut Session,
        mut tell: impl FnMut(&Session, &OsStr, Deployed) -> Result<()>,
    ) -> Result<()> {
        let mut ready = Vec::new();
        for image in &self.images {
            if self.write.dry_run {
                match self.show(image, plan, |disk| session.warn_of(disk)) {
                    Ok(deployed) => tell(session, image, deployed)?,
                    Err(error) => session.report(&error),
                }
                continue;
            }
            match self.prepare(image, plan, |disk| session.warn_of(disk)) {
                Ok(prepared) => ready.push((image, prepared)),
                Err(error) => session.report(&error),
            }
        }
        let is_complete = self.write.dry_run || ready.len() == self.images.len();
        if !is_complete && !ready.is_empty() {
            let all = self.images.len();
            let failed = all.saturating_sub(ready.len());
            let reason = format!("nothing was written: {failed} of {all} images can't be deployed");
            return Err(Error::new(ErrorKind::Invalid, reason)
                .with_hint("leave them out, or deploy each with a command of its own"));
        }
        for (image, prepared) in ready {
            let mut progress = Progress::new(session.progress(), None);
            let written = self.write(prepared, &mut progress);
            progress.finish();
            match written {
                Ok(deployed) => tell(session, image, deployed)?,
                Err(error) => session.report(&error),
            }
        }
        Ok(())
    }

    /// Deploys one guest by itself.
    fn deploy(&self, image: &OsStr, plan: &Plan) -> Result<Deployed> {
        if self.write.dry_run {
            return self.show(image, plan, |_| {});
        }
        // The fleet has a progress of its own.
        let mut quiet = Progress::new(ProgressMode::None, None);
        self.write(self.prepare(image, plan, |_| {})?, &mut quiet)
    }

    /// Opens a guest and works out what is to be written to it; hands the disk to `look`. Nothing is written.
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
                forget(new_overlay.as_deref());
                Err(error)
            }
        }
    }

    /// Writes what was worked out, and ends writing.
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
            forget(new_overlay.as_deref());
        }
        let ended = ended.map_err(|error| error.with_hint("the changes were made all the same"));
        let applied = written.and_then(|applied| ended.map(|()| applied))?;
        Ok(Deployed {
            steps,
            diff: None,
            in_parts: applied == Applied::InParts,
        })
    }

    /// What would change.
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
        // What it was read with is closed: a microVM has one for each.
        let (steps, volumes) = deployment.into_parts();
        Ok(Work {
            changes,
            volumes,
            steps,
        })
    }

    /// Opens the filesystem for writing only where there is something to write: each time counts as a mount, which is
    /// written, too.
    fn apply(
        &self,
        disk: &Disk,
        changes: &[Change],
        volumes: &VolumeChanges,
        new_overlay: Option<&Path>,
        progress: &mut Progress,
    ) -> Result<Applied> {
        if changes.is_empty() && volumes.keeps_filesystems() {
            return Ok(Applied::Whole);
        }
        let options = WriteOptions {
            commits: Commits::AtClose,
            // What a plan changes, the guest's root might have.
            root_reserve: RootReserve::Use,
        };
        let target = self.source.volume.writable_filesystem(disk, options)?;
        // A new overlay is removed with all that is in it.
        let told = &mut |bytes, total| progress.advance_of(bytes, total);
        deploy::apply(changes, volumes, &target, told).map_err(|error| match new_overlay {
            Some(_) => error,
            None => with_remains(error, &target),
        })
    }
}
