//! Changes to a guest that is not running: plans of steps, their effects, and their application.
//!
//! A [`Plan`] describes a desired state. [`Deployment::prepare`] computes in memory what the plan
//! changes in a guest. It only uses the guest's filesystem and runs nothing of the guest, so the
//! guest's architecture does not matter. [`Deployment::diff`] shows the changes, and
//! [`Deployment::apply`] writes them. Steps are idempotent: a plan that is applied again changes
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
//! let text = "steps: [{hostname: web1.example.org}, {write: {path: /etc/motd, text: hi}}]";
//! let plan = Plan::parse(text)?;
//! let disk = Disk::options().read_only(false).open(&path)?;
//! let deployment = Deployment::prepare(disk.filesystem()?, &plan)?;
//! print!("{}", String::from_utf8_lossy(&deployment.diff()?));
//! let options = WriteOptions {
//!     // With `Commits::Timed`, a crash may leave a part of the plan.
//!     commits: Commits::AtClose,
//!     // The plan may use the space that is reserved for root.
//!     root_reserve: RootReserve::Use,
//!     ..WriteOptions::default()
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
pub use plan::{Plan, Step, parse_plan};
pub use stage::{Aspect, Change, Contents, Entry, EntryKind, Part, Stage};
pub use steps::*;
pub use volumes::{NewUuid, VolumeChanges};

use diskfs_disk::{Disk, Filesystem, Result, WritableFilesystem};
use guest::Guest;
use volumes::Volumes;

/// The effects of a plan on a guest.
#[derive(Debug)]
pub struct Deployment {
    stage: Stage,
    volumes: VolumeChanges,
    steps: Vec<StepReport>,
}

/// The report of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepReport {
    /// The step's name in plans.
    pub step: &'static str,
    /// The paths that the step changes; empty if everything was already in the desired state.
    pub changed: Vec<String>,
    /// Notes for the user, such as what was ignored and why.
    pub notes: Vec<String>,
    /// Generated secrets (passwords), which are not stored in clear text anywhere else.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Secret>,
    /// The UUIDs of volumes that the step replaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uuids: Vec<NewUuid>,
}

/// A generated secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Secret {
    /// The owner of the secret: a user name.
    pub of: String,
    /// The secret itself.
    pub secret: String,
}

impl Deployment {
    /// Computes what the plan changes in a guest, whose filesystem comes from
    /// [`System::filesystem`](diskfs_disk::guest::System::filesystem). Nothing is written.
    ///
    /// # Errors
    /// The error of the first step that fails, with its number. Then there is nothing to apply.
    pub fn prepare(guest: Filesystem, plan: &Plan) -> Result<Self> {
        Self::of(Guest::new(guest), plan)
    }

    /// Does the same as [`prepare`](Self::prepare) for a guest on a disk whose volumes the plan may
    /// change, too.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare), and the errors of reading the volumes.
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
                error.with_hint(format!("cannot apply step {number} of the plan ({name})"))
            })?;
            steps.push(guest.report(step.name()));
        }
        steps.extend(guest.label_all()?);
        // If one step removes something and another restores it, that is no change.
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

    /// Returns the reports of the steps.
    pub fn steps(&self) -> &[StepReport] {
        &self.steps
    }

    /// Returns the reports of the steps, and closes everything that was used for reading the guest.
    pub fn into_steps(self) -> Vec<StepReport> {
        self.steps
    }

    /// Returns the reports of the steps, and the changes of volumes, which must be written after
    /// the files.
    pub fn into_parts(self) -> (Vec<StepReport>, VolumeChanges) {
        (self.steps, self.volumes)
    }

    /// Returns all changes, sorted by path.
    ///
    /// # Errors
    /// The errors of reading the guest.
    pub fn changes(&self) -> Result<Vec<Change>> {
        self.stage.changes()
    }

    /// Checks that the guest has space for [its changes](Self::changes), as far as that can be
    /// predicted before the guest is opened for writing.
    ///
    /// # Errors
    /// `NoSpace` with the required and the free number of bytes.
    pub fn check_room(&self, changes: &[Change]) -> Result<()> {
        apply::check_room(changes, self.stage.guest())
    }

    /// Returns the changes as unified diffs, with a line for each path that is created, is removed,
    /// or changes its mode or owner.
    ///
    /// # Errors
    /// As [`changes`](Self::changes).
    pub fn diff(&self) -> Result<Vec<u8>> {
        diff::of(&self.stage, &self.changes()?)
    }

    /// Writes the changes to the same guest, opened for writing, and closes it for writing. On
    /// error, nothing was written if the filesystem has a journal.
    ///
    /// # Errors
    /// `NoSpace`, and the errors of writing.
    pub fn apply(&self, target: &WritableFilesystem) -> Result<Applied> {
        self.apply_with_progress(target, &mut |_, _| ControlFlow::Continue(()))
    }

    /// Does the same as [`apply`](Self::apply). `progress` is called with the number of bytes of
    /// contents that were just written, and with the total number. [`ControlFlow::Break`] cancels
    /// the operation like an error.
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

    use diskfs_vfs::edit::make_dirs;
    use diskfs_vfs::testing::{MemoryFs, WritableMemoryFs};
    use diskfs_vfs::{FileType, Follow, FsRead, FsWrite, NewAttributes, NewKind, resolve};

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
    fn what_is_no_file_is_reported_and_not_touched() {
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
        // A dangling symlink: its target is created in the guest.
        let mut tree = debian();
        tree.symlink("/etc/hosts", "/root/nowhere");
        let deployment = prepare(tree, hosts).unwrap();
        assert_eq!(deployment.changes().unwrap()[0].path, "/root/nowhere");
        let mut tree = debian();
        tree.symlink("/etc/hosts", "hosts2");
        tree.symlink("/etc/hosts2", "/etc/hosts");
        assert!(told(tree, hosts).contains("too many levels"));
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

    /// The removal of the directory has removed its files, which so cannot be removed again.
    #[test]
    fn a_directory_that_is_made_again_gets_its_files_again() {
        let attributes = NewAttributes {
            permissions: 0o755,
            umask: 0,
            uid: 0,
            gid: 0,
        };
        let fs = Arc::new(WritableMemoryFs::new());
        make_dirs(&*fs, b"/opt/old/deep", &attributes, &mut |_| {}).unwrap();
        let dir = resolve(&*fs, "/opt", Follow::All).unwrap();
        fs.create(dir, b"file", NewKind::Regular, &attributes)
            .unwrap();
        let reader = Filesystem::new(Arc::clone(&fs) as _, Path::new("guest.img"), "p1");
        let steps = "steps: [{delete: /opt}, {write: {path: /opt/file, text: x}}, \
                     {mkdir: {path: /opt/old}}, {delete: /opt/old}]";
        let plan = Plan::parse(steps).unwrap();
        let deployment = Deployment::prepare(reader, &plan).unwrap();
        let target = WritableFilesystem::new(Arc::clone(&fs) as _, Path::new("guest.img"), "p1");
        deployment.apply(&target).unwrap();
        let names = resolve(&*fs, "/opt", Follow::All).unwrap();
        let names = fs.read_dir(names, 0).unwrap().map(|it| it.unwrap().name);
        assert_eq!(
            names.filter(|it| **it != *b"." && **it != *b"..").count(),
            1
        );
        assert!(resolve(&*fs, "/opt/file", Follow::All).is_ok());
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
            assert!(
                error.to_string().contains("not supported for Windows"),
                "{error}"
            );
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
        assert!(text.contains("step 2 of the plan (hostname)"), "{text}");
    }
}
