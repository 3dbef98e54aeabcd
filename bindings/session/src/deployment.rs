//! The application of plans.

use std::ops::ControlFlow;

use diskfs::deploy::{self, Applied, Change, Deployment, Plan, VolumeChanges};
use diskfs::document::{Deployed, deployed, document};
use diskfs::guest::{self, System};
use diskfs::vfs::Remains;
use diskfs::{Commits, Disk, Error, Result, RootReserve, WritableFilesystem, WriteOptions};
use serde_json::Value;

use crate::Session;
use crate::tree::read_only;

/// A callback for the progress of a deployment: the number of bytes written so far, and the total
/// number. [`ControlFlow::Break`] cancels the deployment.
pub type DeployProgress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

impl Session {
    /// Applies a plan, in YAML or JSON, to the only operating system of the disk, and returns the
    /// document of `diskfs deploy`. When it returns, the changes are durable; after an error
    /// nothing was changed, or the error says what was.
    ///
    /// Files of the disk are closed first. A plan that changes volume groups closes the disk.
    ///
    /// # Errors
    /// `Invalid` for an invalid plan; `NotFound` without an operating system; `ReadOnly`;
    /// `NoSpace`; `Cancelled` if `progress` says so; the errors of the steps.
    pub fn deploy(&self, plan: &str, progress: DeployProgress<'_>) -> Result<Value> {
        let plan = Plan::parse(plan)?;
        if !self.is_writable() {
            return Err(read_only().in_file(self.path()));
        }
        self.with_disk_alone(|disk| {
            let work = Work::out(disk, &plan)?;
            let applied = work.write(progress)?;
            let result = Deployed {
                steps: work.steps,
                diff: None,
                in_parts: applied == Applied::InParts,
            };
            // The layout of the groups that the disk has read is no longer valid.
            let is_last = !work.volumes.keeps_groups();
            Ok((self.deployed(false, &result), is_last))
        })
    }

    /// Returns the document of `diskfs deploy --dry-run`: what [`deploy`](Self::deploy) would
    /// change, as a diff. Changes so far are synced first.
    ///
    /// # Errors
    /// As [`deploy`](Self::deploy).
    pub fn deploy_dry_run(&self, plan: &str) -> Result<Value> {
        let plan = Plan::parse(plan)?;
        self.with_disk(|open| {
            open.trees().sync()?;
            let system = the_system(&open.disk)?;
            let deployment = Deployment::prepare_on(&open.disk, system.filesystem()?, &plan)?;
            let diff = Some(deployment.diff()?);
            let result = Deployed {
                steps: deployment.into_steps(),
                diff,
                in_parts: false,
            };
            Ok(self.deployed(true, &result))
        })
    }

    fn deployed(&self, is_dry_run: bool, result: &Deployed) -> Value {
        let guest = result.document(self.path().as_os_str());
        Value::Object(document("deploy", deployed(is_dry_run, &[guest])))
    }
}

fn the_system(disk: &Disk) -> Result<System> {
    guest::select_system(disk, None)?.ok_or_else(|| guest::no_system(disk))
}

/// The changes that a plan makes to a guest.
struct Work {
    system: System,
    changes: Vec<Change>,
    volumes: VolumeChanges,
    steps: Vec<deploy::StepReport>,
}

impl Work {
    /// Works out the changes without writing anything.
    fn out(disk: &Disk, plan: &Plan) -> Result<Self> {
        let system = the_system(disk)?;
        let deployment = Deployment::prepare_on(disk, system.filesystem()?, plan)?;
        let changes = deployment.changes()?;
        deployment.check_room(&changes)?;
        let (steps, volumes) = deployment.into_parts();
        Ok(Self {
            system,
            changes,
            volumes,
            steps,
        })
    }

    /// Writes the changes of files, and then those of volume groups.
    fn write(&self, progress: DeployProgress<'_>) -> Result<Applied> {
        let mut applied = Applied::OneTransaction;
        // Opening a filesystem for writing counts as a mount, which is itself a change.
        if !self.changes.is_empty() || !self.volumes.keeps_filesystems() {
            let options = WriteOptions {
                commits: Commits::AtClose,
                root_reserve: RootReserve::Use,
                ..WriteOptions::default()
            };
            let target = self.system.writable_filesystem(&options)?;
            let mut done = 0_u64;
            let mut progress = |bytes, total| {
                done = done.saturating_add(bytes);
                progress(done, total)
            };
            applied = deploy::apply(&self.changes, &self.volumes, &target, &mut progress)
                .map_err(|error| with_remains(error, &target))?;
        }
        if self.volumes.keeps_groups() {
            return Ok(applied);
        }
        let hint = "run the same plan again to change the volumes";
        self.volumes
            .apply()
            .map_err(|error| error.with_hint(hint))?;
        Ok(Applied::InParts)
    }
}

/// Adds to a write error what became of the changes.
fn with_remains(error: Error, target: &WritableFilesystem) -> Error {
    error.with_hint(match target.abandon() {
        Ok(Remains::Nothing) => "nothing was changed",
        Ok(Remains::All) => {
            "the changes were made; the guest completes them when it replays its journal"
        }
        Ok(Remains::Some) | Err(_) => "a part of the changes may have been made",
    })
}
