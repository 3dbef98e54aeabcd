//! The application of plans.

use diskfs_deploy::{Applied, Deployment, Plan, Selector, Step, StepReport, VolumeChanges};
use diskfs_disk::guest::System as Found;
use diskfs_disk::{
    Commits, Disk, Error, ErrorKind, Result, RootReserve, WritableFilesystem, WriteOptions,
};
use diskfs_vfs::Remains;
use serde::{Deserialize, Serialize};

use super::{Access, JobContext, Phase, Source, enter, written};

/// Applies a plan to the guest on an image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ApplyPlan {
    /// The image.
    pub disk: Source,
    /// The plan, in YAML or JSON.
    pub plan: String,
    /// Works out the changes without writing them.
    pub is_dry_run: bool,
}

/// The result of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanResult {
    /// The results of the steps.
    pub steps: Vec<StepResult>,
    /// The changes as unified diffs, in a dry run.
    pub diff: Vec<u8>,
    /// True if the changes were not one transaction.
    pub in_parts: bool,
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepResult {
    /// The name of the step.
    pub step: String,
    /// The paths that it changes.
    pub changed: Vec<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Generated passwords: the user and the password of each.
    pub secrets: Vec<(String, String)>,
}

impl From<StepReport> for StepResult {
    fn from(report: StepReport) -> Self {
        let secrets = report.secrets.into_iter();
        Self {
            step: report.step.to_owned(),
            changed: report.changed,
            notes: report.notes,
            secrets: secrets.map(|it| (it.of, it.secret)).collect(),
        }
    }
}

impl ApplyPlan {
    /// Returns the access that the plan needs.
    pub(super) fn access(&self) -> Access {
        if self.is_dry_run {
            Access::Read
        } else {
            Access::Write
        }
    }

    pub(super) fn run(&self, context: &mut dyn JobContext) -> Result<PlanResult> {
        let plan = Plan::parse(&self.plan)?;
        if let Some(step) = plan.steps.iter().find(|step| reads_host(step)) {
            let reason = format!(
                "the step {} refers to a file of the host, which this service does not read",
                step.name()
            );
            let hint = "give the contents in the plan";
            return Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint));
        }
        enter(context, Phase::Open)?;
        let disk = context.open(&self.disk, self.access())?;
        enter(context, Phase::Prepare)?;
        let found = diskfs_disk::guest::select_system(&disk, None)?;
        let found = found.ok_or_else(|| diskfs_disk::guest::no_system(&disk))?;
        let deployment = Deployment::prepare_on(&disk, found.filesystem()?, &plan)?;
        if self.is_dry_run {
            let diff = deployment.diff()?;
            let steps = deployment.into_steps().into_iter();
            return Ok(PlanResult {
                steps: steps.map(StepResult::from).collect(),
                diff,
                in_parts: false,
            });
        }
        apply(disk, &found, deployment, context)
    }
}

/// Returns true if a step reads files of the host.
fn reads_host(step: &Step) -> bool {
    let is_file = |it: &Selector| matches!(it, Selector::Detailed(it) if it.file.is_some());
    match step {
        Step::Agent(_) | Step::Upload(_) | Step::CopyIn(_) | Step::Tar(_) => true,
        Step::Template(step) => step.file.is_some(),
        Step::Firstboot(step) => step.file.is_some(),
        Step::Repository(step) => step.key_file.is_some(),
        Step::Password(step) => step.file.is_some(),
        Step::RootPassword(step) => is_file(&step.0),
        Step::User(step) => step.password.as_ref().is_some_and(is_file),
        _ => false,
    }
}

/// Writes the changes of a deployment, and closes the disk. After an error the disk is unchanged,
/// or the error says what was changed.
///
/// # Errors
/// `NoSpace`, `Cancelled`, and the errors of writing.
pub(super) fn apply(
    disk: Disk,
    found: &Found,
    deployment: Deployment,
    context: &mut dyn JobContext,
) -> Result<PlanResult> {
    let changes = deployment.changes()?;
    deployment.check_room(&changes)?;
    // The filesystem that was read is closed first: with a fallback, each open one has its own
    // microVM.
    let (steps, volumes) = deployment.into_parts();
    let mut in_parts = false;
    if !changes.is_empty() || !volumes.keeps_filesystems() {
        enter(context, Phase::Write)?;
        let options = WriteOptions {
            commits: Commits::AtClose,
            root_reserve: RootReserve::Use,
            ..WriteOptions::default()
        };
        let target = found.writable_filesystem(&options)?;
        let applied = diskfs_deploy::apply(&changes, &volumes, &target, &mut written(context));
        in_parts = applied.map_err(|error| with_remains(error, &target))? == Applied::InParts;
    }
    in_parts |= change_groups(&volumes)?;
    drop(volumes);
    enter_close(context);
    disk.close()
        .map_err(|error| error.with_hint("the changes were made"))?;
    Ok(PlanResult {
        steps: steps.into_iter().map(StepResult::from).collect(),
        diff: Vec::new(),
        in_parts,
    })
}

/// Enters the last phase, in which nothing can be cancelled.
fn enter_close(context: &mut dyn JobContext) {
    context.progress(super::Progress {
        phase: Phase::Close,
        done_bytes: 0,
        total_bytes: 0,
    });
}

/// Changes volume groups, after the files that refer to them, and returns true if there were any.
fn change_groups(volumes: &VolumeChanges) -> Result<bool> {
    if volumes.keeps_groups() {
        return Ok(false);
    }
    volumes
        .apply()
        .map_err(|error| error.with_hint("run the same plan again to change the volumes"))?;
    Ok(true)
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
