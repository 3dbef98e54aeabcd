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

use diskfs::deploy::{self, Deployment, Plan, StepReport};
use diskfs::{Commits, Disk, Error, ErrorKind, Result, RootReserve, WriteOptions};

use super::options::SourceArgs;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::target::{WriteArgs, forget};
use flags::Flags;

/// Edit guests offline: name, users, keys, network, files, services
#[derive(Debug, Args)]
#[command(
    long_about = "Edit guests offline: name, users, keys, network, files, services

What is to be done stands in a plan (--plan, YAML or JSON), in options, or in both: the plan's steps
come first, then those of the options, in their order. All steps are worked out before anything is
written, and all of them are written or none. Steps say what is to be, so that the same command once
more changes nothing. Nothing of the guest is run, whatever its architecture.",
    after_help = "Examples:
  diskfs deploy disk.qcow2 --hostname web1 --root-password file:secret --ssh-inject root:file:key.pub
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
    #[arg(long, exclusive = true)]
    list_operations: bool,

    /// List the steps of plans
    #[arg(long, exclusive = true)]
    list_steps: bool,

    /// Tell what a step of plans can have
    #[arg(long, value_name = "STEP", exclusive = true)]
    describe: Option<String>,

    /// Print the JSON Schema of plans
    #[arg(long, exclusive = true)]
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
        return report::list_operations();
    }
    if args.list_steps {
        return reference::list_steps();
    }
    if let Some(step) = &args.describe {
        return reference::describe(step);
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
    for image in &args.images {
        let deployed = args.deploy(image, &plan, |disk| session.warn_of(disk));
        match (deployed, session.output()) {
            (Ok(deployed), Output::Text) => report::write(&mut out, args, image, &deployed)?,
            (Ok(deployed), Output::Json) => told.push(deployed.json(image)),
            (Err(error), _) => session.report(&error),
        }
    }
    if session.output() == Output::Json {
        let body = json!({ "dry_run": args.write.dry_run, "guests": told });
        document::write(&mut out, session.command(), body)?;
    }
    Ok(out.flush()?)
}

/// Where to read on, when a plan is none.
const PLAN_HINT: &str = "`diskfs deploy --list-steps` tells the steps of plans, and `--describe STEP` what each can have";

/// What was done to a guest, or would be.
struct Deployed {
    steps: Vec<StepReport>,
    /// As text, when it was only to be shown.
    diff: Option<Vec<u8>>,
}

impl Deployed {
    fn json(&self, image: &OsStr) -> Value {
        let mut told = report::json(&self.steps);
        told.insert("image".to_owned(), image.to_string_lossy().into());
        if let Some(diff) = &self.diff {
            told.insert("diff".to_owned(), String::from_utf8_lossy(diff).into());
        }
        Value::Object(told)
    }
}

impl Deploy {
    fn plan(&self) -> Result<Plan> {
        let mut plan = match &self.plan {
            None => Plan::default(),
            Some(path) => {
                let text = if path == Path::new("-") {
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

    /// Deploys one guest; hands the disk to `look` before it is closed.
    fn deploy(&self, image: &OsStr, plan: &Plan, look: impl FnOnce(&Disk)) -> Result<Deployed> {
        if self.write.dry_run {
            let disk = self.source.open(image)?;
            let deployed = self.show(&disk, plan);
            look(&disk);
            return deployed;
        }
        let new_overlay = self.write.new_overlay();
        let disk = self.write.open(&self.source, image)?;
        let deployed = self.apply(&disk, plan);
        look(&disk);
        let ended = disk.close();
        if deployed.is_err() {
            forget(new_overlay);
        }
        deployed.and_then(|deployed| ended.map(|()| deployed))
    }

    /// What would change.
    fn show(&self, disk: &Disk, plan: &Plan) -> Result<Deployed> {
        let guest = self.source.volume.filesystem(disk)?;
        let deployment = Deployment::prepare(guest, plan)?;
        let diff = deployment.diff()?;
        Ok(Deployed {
            steps: deployment.into_steps(),
            diff: Some(diff),
        })
    }

    /// Opens the filesystem for writing only where there is something to write: each time counts as a mount, which is
    /// written, too.
    fn apply(&self, disk: &Disk, plan: &Plan) -> Result<Deployed> {
        let guest = self.source.volume.filesystem(disk)?;
        let deployment = Deployment::prepare(guest, plan)?;
        let changes = deployment.changes()?;
        deployment.check_room(&changes)?;
        // What it was read with is closed: a microVM has one for each.
        let steps = deployment.into_steps();
        if !changes.is_empty() {
            let options = WriteOptions {
                commits: Commits::AtClose,
                // What a plan changes, the guest's root might have.
                root_reserve: RootReserve::Use,
            };
            let target = self.source.volume.writable_filesystem(disk, options)?;
            deploy::apply(&changes, &target)?;
        }
        Ok(Deployed { steps, diff: None })
    }
}
