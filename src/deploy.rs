//! Edits of a guest that isn't running: a plan of steps, what it would change, and the change.
//!
//! A [`Plan`] says what is to be, and [`Deployment::prepare`] works out what that changes in a guest, in memory, through
//! its filesystem alone: nothing of the guest is run, and its architecture does not matter. [`Deployment::diff`] shows
//! it, [`Deployment::apply`] writes it. Steps say what is to be, not what to do: a plan that is applied again changes
//! nothing.
//!
//! ```
//! use diskfs::deploy::{Deployment, Plan};
//! use diskfs::{Disk, OpenOptions, WriteOptions, guest};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("demo.qcow2");
//! # let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/images/demo.qcow2.zst");
//! # zstd::stream::copy_decode(std::fs::File::open(bundled)?, std::fs::File::create(&path)?)?;
//!
//! let plan = Plan::parse("steps: [{hostname: web1.example.org}, {write: {path: /etc/motd, text: hi}}]")?;
//! let disk = Disk::open_writable(&path, &OpenOptions::default())?;
//! let deployment = Deployment::prepare(disk.filesystem()?, &plan)?;
//! print!("{}", String::from_utf8_lossy(&deployment.diff()?));
//! deployment.apply(&disk.writable_filesystem(&WriteOptions::default())?)?;
//! disk.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accounts;
mod apply;
mod diff;
mod guest;
mod labels;
mod plan;
mod stage;
mod steps;
mod text;

use serde::Serialize;

pub use apply::apply;
pub use plan::{Plan, Step};
pub use stage::{Aspect, Change, Contents, Entry, Kind, Stage};
pub use steps::*;

use crate::{Filesystem, Result, WritableFilesystem};
use guest::Guest;

/// What a plan comes to in a guest.
#[derive(Debug)]
pub struct Deployment {
    stage: Stage,
    steps: Vec<StepReport>,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepReport {
    /// What the plan calls it.
    pub step: &'static str,
    /// The paths that it changes; none where all was so already.
    pub changed: Vec<String>,
    /// What whoever deploys should know: what was left out, and why.
    pub notes: Vec<String>,
    /// What was made up, and is nowhere else: passwords.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Secret>,
}

/// Something that was made up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Secret {
    /// Whose: the user's name.
    pub of: String,
    /// What it is.
    pub secret: String,
}

impl Deployment {
    /// Works out what the plan changes in a guest, as [`System::filesystem`](crate::guest::System::filesystem) has it.
    /// Nothing is written.
    ///
    /// # Errors
    /// What keeps a step from being done, with its number: then there is nothing to apply.
    pub fn prepare(guest: Filesystem, plan: &Plan) -> Result<Self> {
        let mut guest = Guest::new(guest);
        let mut steps = Vec::new();
        for (step, number) in plan.steps.iter().zip(1_usize..) {
            step.apply(&mut guest).map_err(|error| {
                let name = step.name();
                error.with_hint(format!("step {number} of the plan, {name}, can't be done"))
            })?;
            steps.push(guest.report(step.name()));
        }
        steps.extend(guest.label_all()?);
        Ok(Self {
            stage: guest.stage,
            steps,
        })
    }

    /// What each step comes to.
    pub fn steps(&self) -> &[StepReport] {
        &self.steps
    }

    /// All changes, by path.
    ///
    /// # Errors
    /// What keeps one from knowing what the guest has.
    pub fn changes(&self) -> Result<Vec<Change>> {
        self.stage.changes()
    }

    /// The changes as unified diffs, with a line for each path that is made, removed, or changes mode or owner.
    ///
    /// # Errors
    /// As [`changes`](Self::changes).
    pub fn diff(&self) -> Result<Vec<u8>> {
        diff::of(&self.stage, &self.changes()?)
    }

    /// Writes them to the same guest, opened for writing, and ends writing. With an error nothing was written, where the
    /// filesystem has a journal.
    ///
    /// # Errors
    /// `NoSpace`, and what writing answers.
    pub fn apply(&self, target: &WritableFilesystem) -> Result<()> {
        apply(&self.changes()?, target)
    }
}
