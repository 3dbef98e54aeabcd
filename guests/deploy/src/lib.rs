//! Edits of a guest that isn't running: a plan of steps, what it would change, and the change.
//!
//! A [`Plan`] says what is to be, and [`Deployment::prepare`] works out what that changes in a guest, in memory, through
//! its filesystem alone: nothing of the guest is run, and its architecture does not matter. [`Deployment::diff`] shows
//! it, [`Deployment::apply`] writes it. Steps say what is to be, not what to do: a plan that is applied again changes
//! nothing.
//!
//! ```
//! use diskfs_deploy::{Deployment, Plan};
//! use diskfs_disk::{Commits, Disk, RootReserve, WriteOptions};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("demo.qcow2");
//! # let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/images/demo.qcow2.zst");
//! # zstd::stream::copy_decode(std::fs::File::open(bundled)?, std::fs::File::create(&path)?)?;
//!
//! let plan = Plan::parse("steps: [{hostname: web1.example.org}, {write: {path: /etc/motd, text: hi}}]")?;
//! let disk = Disk::options().read_only(false).open(&path)?;
//! let deployment = Deployment::prepare(disk.filesystem()?, &plan)?;
//! print!("{}", String::from_utf8_lossy(&deployment.diff()?));
//! let options = WriteOptions {
//!     // With `Commits::Timed` a crash may leave a part of the plan.
//!     commits: Commits::AtClose,
//!     // The guest's root may use the room that is reserved for him.
//!     root_reserve: RootReserve::Use,
//! };
//! deployment.apply(&disk.writable_filesystem(&options)?)?;
//! disk.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accounts;
mod apply;
mod diff;
mod guest;
mod labels;
mod plan;
#[cfg(test)]
mod schema;
mod stage;
mod steps;
mod text;
mod volumes;

use std::ops::ControlFlow;

use serde::Serialize;

pub use apply::{Applied, apply};
pub use plan::{Plan, Step};
pub use stage::{Aspect, Change, Contents, Entry, Kind, Part, Stage};
pub use steps::*;
pub use volumes::{NewUuid, VolumeChanges};

use diskfs_disk::{Disk, Filesystem, Result, WritableFilesystem};
use guest::Guest;
use volumes::Volumes;

/// What a plan comes to in a guest.
#[derive(Debug)]
pub struct Deployment {
    stage: Stage,
    volumes: VolumeChanges,
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
    /// UUIDs of volumes that it replaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uuids: Vec<NewUuid>,
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
    /// Works out what the plan changes in a guest, as [`System::filesystem`](diskfs_disk::guest::System::filesystem) has it.
    /// Nothing is written.
    ///
    /// # Errors
    /// What keeps a step from being done, with its number: then there is nothing to apply.
    pub fn prepare(guest: Filesystem, plan: &Plan) -> Result<Self> {
        Self::of(Guest::new(guest), plan)
    }

    /// As [`prepare`](Self::prepare), for a guest on a disk whose volumes the plan may change, too.
    ///
    /// # Errors
    /// As that.
    pub fn prepare_on(disk: &Disk, guest: Filesystem, plan: &Plan) -> Result<Self> {
        let is_asked = plan
            .steps
            .iter()
            .any(|step| matches!(step, Step::Sysprep(_)));
        let volumes = is_asked.then(|| Volumes::of(disk, &guest)).transpose()?;
        Self::of(Guest::new(guest).with_volumes(volumes), plan)
    }

    fn of(mut guest: Guest, plan: &Plan) -> Result<Self> {
        let mut steps = Vec::new();
        for (step, number) in plan.steps.iter().zip(1_usize..) {
            step.apply(&mut guest).map_err(|error| {
                let name = step.name();
                error.with_hint(format!("step {number} of the plan, {name}, can't be done"))
            })?;
            steps.push(guest.report(step.name()));
        }
        steps.extend(guest.label_all()?);
        // What one step takes away and another puts back is no change.
        for step in &mut steps {
            let mut changed = Vec::new();
            for path in std::mem::take(&mut step.changed) {
                if guest.stage.may_change(&path)? {
                    changed.push(path);
                }
            }
            step.changed = changed;
        }
        Ok(Self {
            stage: guest.stage,
            volumes: guest.volume_changes,
            steps,
        })
    }

    /// What each step comes to.
    pub fn steps(&self) -> &[StepReport] {
        &self.steps
    }

    /// What each step comes to, when nothing else is wanted any more: what the guest was read with is closed.
    pub fn into_steps(self) -> Vec<StepReport> {
        self.steps
    }

    /// As [`into_steps`](Self::into_steps), with the changes of volumes, which are written when the files are.
    pub fn into_parts(self) -> (Vec<StepReport>, VolumeChanges) {
        (self.steps, self.volumes)
    }

    /// All changes, by path.
    ///
    /// # Errors
    /// What keeps one from knowing what the guest has.
    pub fn changes(&self) -> Result<Vec<Change>> {
        self.stage.changes()
    }

    /// That the guest has room for [its changes](Self::changes), as far as it can be said before it is opened for
    /// writing.
    ///
    /// # Errors
    /// `NoSpace`, with the bytes that are needed and those that are free.
    pub fn check_room(&self, changes: &[Change]) -> Result<()> {
        apply::check_room(changes, self.stage.guest())
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
    pub fn apply(&self, target: &WritableFilesystem) -> Result<Applied> {
        self.apply_with_progress(target, &mut |_, _| ControlFlow::Continue(()))
    }

    /// As [`apply`](Self::apply). `progress` is called with the number of bytes of contents that were just written, and
    /// with that of all of them; [`ControlFlow::Break`] ends it as an error does.
    ///
    /// # Errors
    /// As [`apply`](Self::apply), and `Cancelled`.
    pub fn apply_with_progress(
        &self,
        target: &WritableFilesystem,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Applied> {
        let applied = apply(&self.changes()?, &self.volumes, target, progress)?;
        if self.volumes.keeps_groups() {
            return Ok(applied);
        }
        self.volumes.apply()?;
        Ok(Applied::InParts)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use diskfs_vfs::FileType;
    use diskfs_vfs::testing::MemoryFs;

    use super::*;

    fn prepare(tree: MemoryFs, steps: &str) -> Result<Deployment> {
        let guest = Filesystem::new(Arc::new(tree), Path::new("guest.img"), "p1");
        let plan = Plan::parse(&format!("steps: [{steps}]"))?;
        Deployment::prepare(guest, &plan)
    }

    fn told(tree: MemoryFs, steps: &str) -> String {
        let start = Instant::now();
        let told = prepare(tree, steps).map(|_| ()).unwrap_err().to_string();
        assert!(start.elapsed() < Duration::from_secs(5), "{told}");
        told
    }

    fn debian() -> MemoryFs {
        let mut tree = MemoryFs::new();
        for dir in ["/etc", "/root", "/usr/lib/systemd", "/dev"] {
            tree.dir(dir);
        }
        tree.file("/etc/hostname", b"old\n");
        tree.file("/etc/passwd", b"root:x:0:0::/root:/bin/sh\n");
        tree.file("/etc/group", b"root:x:0:\n");
        tree
    }

    #[test]
    fn what_is_no_file_is_told_and_not_touched() {
        let password = "{root-password: secret}";
        let mut tree = debian();
        tree.special("/etc/shadow", FileType::Fifo, None);
        assert!(told(tree, password).contains("/etc/shadow: is a FIFO"));
        let mut tree = debian();
        tree.special("/etc/fstab", FileType::BlockDevice, None);
        let fstab = "{fstab: {remove: [/x]}}";
        assert!(told(tree, fstab).contains("/etc/fstab: is a block device"));
        let mut tree = debian();
        tree.dir("/etc/hosts");
        let hosts = "{hosts: [{address: 10.0.0.1, names: [a]}]}";
        assert!(told(tree, hosts).contains("/etc/hosts"));
    }

    #[test]
    fn links_lead_nowhere_but_into_the_guest() {
        let hosts = "{hosts: [{address: 10.0.0.1, names: [a]}]}";
        let mut tree = debian();
        tree.symlink("/etc/hosts", "/../../etc/../etc/real");
        tree.file("/etc/real", b"127.0.0.1 localhost\n");
        let deployment = prepare(tree, hosts).unwrap();
        assert_eq!(deployment.changes().unwrap()[0].path, "/etc/real");
        // One that leads to nothing makes its target, in the guest.
        let mut tree = debian();
        tree.symlink("/etc/hosts", "/root/nowhere");
        let deployment = prepare(tree, hosts).unwrap();
        assert_eq!(deployment.changes().unwrap()[0].path, "/root/nowhere");
        let mut tree = debian();
        tree.symlink("/etc/hosts", "hosts2");
        tree.symlink("/etc/hosts2", "/etc/hosts");
        assert!(told(tree, hosts).contains("circle"));
    }

    #[test]
    fn large_files_cost_no_more_than_they_may() {
        let mut tree = debian();
        tree.sparse_file("/etc/shadow", &[], 10 << 30);
        assert!(told(tree, "{root-password: secret}").contains("/etc/shadow"));
        let mut tree = debian();
        let lines = "/dev/x /mnt/x auto x 0 0\n".repeat(600_000);
        tree.file("/etc/fstab", lines.as_bytes());
        let start = Instant::now();
        let steps = "{fstab: {add: [{device: UUID=1, path: /data, type: ext4}]}}";
        let deployment = prepare(tree, steps).unwrap();
        assert_eq!(deployment.changes().unwrap().len(), 2);
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn what_is_put_back_is_no_change() {
        let steps = "{delete: /etc/hostname}, {write: {path: /etc/hostname, text: \"old\\n\"}}";
        let deployment = prepare(debian(), steps).unwrap();
        assert_eq!(deployment.changes().unwrap(), []);
        for step in deployment.steps() {
            assert_eq!(step.changed, [""; 0], "{}", step.step);
        }
    }

    #[test]
    fn settings_are_not_written_into_a_windows() {
        let windows = || {
            let mut tree = MemoryFs::new();
            tree.dir("/Windows/System32/config");
            tree.file("/Windows/System32/config/SOFTWARE", b"regf");
            tree
        };
        for step in [
            "{hostname: web1}",
            "{root-password: secret}",
            "{sysprep: [defaults]}",
        ] {
            let error = prepare(windows(), step).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), diskfs_disk::ErrorKind::Unsupported);
            assert!(error.to_string().contains("not for Windows"), "{error}");
        }
        let file = "{write: {path: /a.txt, text: x}}";
        assert_eq!(
            prepare(windows(), file).unwrap().changes().unwrap().len(),
            1
        );
    }

    #[test]
    fn a_failing_step_says_which_it_is() {
        let error = prepare(debian(), "{hostname: a}, {hostname: \"a b\"}").map(|_| ());
        let text = error.unwrap_err().to_string();
        assert!(text.contains("step 2 of the plan, hostname"), "{text}");
    }
}
