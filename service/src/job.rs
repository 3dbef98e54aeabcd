//! Jobs: the work of one request as plain data, so that it can be carried out in another process.
//!
//! A [`Job`] and its [`Answer`] are serializable (also with formats that don't describe themselves,
//! such as postcard). A job opens files of the host only through its [`JobContext`].

mod boot_order;
mod browse;
mod deploy;
mod format;
mod guest;
mod plan;
mod probe;
mod resize;
mod save;
mod source;
mod systems;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use diskfs_disk::{CancellationToken, Disk, Result};
use diskfs_vm::tools::FilesystemTools;
use serde::{Deserialize, Serialize};

pub use boot_order::{BootDevice, BootDeviceKind, BootOrder};
pub use browse::{FileEntry, FileKind, Inspect, ListFiles, ReadFile};
pub use deploy::{DataDisk, Deploy, DeployFile, Deployed, Keys, Network, Nic, Policy, Route};
pub use format::{Format, FormatKind};
pub use guest::{System, SystemKind};
pub use plan::{ApplyPlan, PlanResult, StepResult};
pub use probe::{ImageReport, Probe};
pub use resize::Resize;
pub use save::Save;
pub use source::{Secret, Source};

/// The access that a job needs to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Access {
    /// Reading; other readers may use the image at the same time.
    Read,
    /// Writing, alone.
    Write,
    /// Reading, with changes in memory that are discarded.
    DryRun,
}

/// The work of one request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Job {
    /// Reports what is on an image.
    Probe(Probe),
    /// Customises the guest on an image.
    Deploy(Box<Deploy>),
    /// Grows the contents of an image to its size.
    Resize(Resize),
    /// Makes a partition table and a filesystem.
    Format(Format),
    /// Makes a template of the guest on an image.
    Save(Save),
    /// Sets the boot order in a file of UEFI variables.
    BootOrder(BootOrder),
    /// Inspects a guest.
    Inspect(Inspect),
    /// Applies a plan to a guest.
    Plan(ApplyPlan),
    /// Lists a directory.
    ListFiles(ListFiles),
    /// Reads a part of a file.
    ReadFile(ReadFile),
}

/// The result of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Answer {
    /// The job has no result.
    Done,
    /// The report on an image.
    Image(ImageReport),
    /// The result of a deployment; `None` if the disk has no operating system.
    Deployed(Option<Box<Deployed>>),
    /// The system of a template; `None` if the disk has none.
    Saved(Option<System>),
    /// The inspection of a guest, as JSON.
    Report(String),
    /// The result of a plan.
    Plan(PlanResult),
    /// The files of a directory.
    Files(Vec<FileEntry>),
    /// A part of a file.
    Bytes(Vec<u8>),
}

/// A progress message of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The part of the work that is being done.
    pub phase: Phase,
    /// The number of bytes that this part has written.
    pub done_bytes: u64,
    /// The number of bytes that it will write, if known.
    pub total_bytes: u64,
}

/// A part of the work of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Opens the image and its volumes.
    Open,
    /// Reads the guest and works out what to change.
    Prepare,
    /// Writes.
    Write,
    /// Completes the changes on the disk.
    Close,
}

impl Phase {
    /// Returns the name of the phase in logs, metrics and progress messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Prepare => "prepare",
            Self::Write => "write",
            Self::Close => "close",
        }
    }
}

/// The services that a job gets from the process that carries it out.
pub trait JobContext {
    /// Opens an image.
    ///
    /// # Errors
    /// As [`DiskOptions::open`](diskfs_disk::DiskOptions::open), and `Cancelled`.
    fn open(&mut self, source: &Source, access: Access) -> Result<Disk>;

    /// Returns the token by which the job is cancelled.
    fn cancellation(&self) -> &CancellationToken;

    /// Reports progress.
    fn progress(&mut self, progress: Progress);

    /// Returns the programs of filesystems that diskfs does not make or grow itself, if there are
    /// any.
    fn tools(&self) -> Option<Arc<dyn FilesystemTools>>;

    /// Returns true if a file of the host exists that a deployment may copy into a guest.
    fn has_file(&self, path: &Path) -> bool;
}

impl Job {
    /// Returns the name of the job in logs and metrics: that of its request.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Probe(_) => "ProbeImageInfo",
            Self::Deploy(_) => "DeployGuestFs",
            Self::Resize(_) => "ResizeFs",
            Self::Format(_) => "FormatFs",
            Self::Save(_) => "SaveToGlance",
            Self::BootOrder(_) => "SetOvmfBootOrder",
            Self::Inspect(_) => "Inspect",
            Self::Plan(_) => "Deploy",
            Self::ListFiles(_) => "ListFiles",
            Self::ReadFile(_) => "ReadFile",
        }
    }

    /// Returns the image that the job works on, and how it is used.
    pub fn image(&self) -> (&Path, Access) {
        match self {
            Self::Probe(job) => (&job.disk.path, Access::Read),
            Self::Deploy(job) => (&job.disk.path, Access::Write),
            Self::Resize(job) => (&job.disk.path, Access::Write),
            Self::Format(job) => (&job.disk.path, Access::Write),
            Self::Save(job) => (&job.disk.path, Access::Write),
            Self::BootOrder(job) => (&job.variables.path, Access::Write),
            Self::Inspect(job) => (&job.disk.path, Access::Read),
            Self::Plan(job) => (&job.disk.path, job.access()),
            Self::ListFiles(job) => (&job.disk.path, Access::Read),
            Self::ReadFile(job) => (&job.disk.path, Access::Read),
        }
    }

    /// Returns true if the job may copy files of the host into a guest.
    pub(crate) fn reads_host_files(&self) -> bool {
        matches!(self, Self::Deploy(job) if job.policy.agents.is_some())
    }

    /// Carries out the job.
    ///
    /// # Errors
    /// The error of the work. A change was then not made, unless the error says otherwise.
    pub fn run(&self, context: &mut dyn JobContext) -> Result<Answer> {
        match self {
            Self::Probe(job) => job.run(context).map(Answer::Image),
            Self::Deploy(job) => {
                let deployed = job.run(context)?;
                Ok(Answer::Deployed(deployed.map(Box::new)))
            }
            Self::Resize(job) => job.run(context).map(|()| Answer::Done),
            Self::Format(job) => job.run(context).map(|()| Answer::Done),
            Self::Save(job) => job.run(context).map(Answer::Saved),
            Self::BootOrder(job) => job.run(context).map(|()| Answer::Done),
            Self::Inspect(job) => job.run(context).map(Answer::Report),
            Self::Plan(job) => job.run(context).map(Answer::Plan),
            Self::ListFiles(job) => job.run(context).map(Answer::Files),
            Self::ReadFile(job) => job.run(context).map(Answer::Bytes),
        }
    }
}

/// Reports the start of a phase.
fn enter(context: &mut dyn JobContext, phase: Phase) -> Result<()> {
    diskfs_block::check_cancelled(context.cancellation().flow())?;
    context.progress(Progress {
        phase,
        done_bytes: 0,
        total_bytes: 0,
    });
    Ok(())
}

/// Returns a callback for work that reports the bytes that it has written since its last call.
fn written(context: &mut dyn JobContext) -> impl FnMut(u64, u64) -> ControlFlow<()> {
    let mut done_bytes = 0_u64;
    move |bytes, total_bytes| {
        done_bytes = done_bytes.saturating_add(bytes);
        context.progress(Progress {
            phase: Phase::Write,
            done_bytes,
            total_bytes,
        });
        context.cancellation().flow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job with a value of each type, as JSON.
    const DEPLOY: &str = r#"{"Deploy":{
        "disk": {"path": "/a.qcow2", "format": "qcow2", "passphrase": [1, 2]},
        "hostname": "web1", "domain": "", "uuid": "u",
        "network": {"nics": [{
            "mac": "00:24:c7:16:80:f2", "index": 0, "driver": "virtio",
            "address4": "10.0.0.5/16", "gateway4": "10.0.0.1",
            "address6": "2001:db8::1/64", "gateway6": null, "nameservers": ["8.8.8.8", "fc00::1"],
            "domain": "x", "routes": [{"to": "10.1.0.0/16", "via": "10.0.0.1"}],
            "team_with": null, "vlan": 0, "mtu": 1442,
            "is_static": true, "is_virtual": false, "is_infiniband": false, "is_default": true
        }], "standby": [], "has_vlans": false},
        "disk_count": 1, "data_disks": [], "is_kvm": true, "is_init": true, "files": [],
        "user_data": "", "telegraf": "", "password": [112],
        "keys": {"user": "", "removed": "", "of_cloudroot": []},
        "login_account": "", "default_root_user": false, "is_random_password": false, "enable_cloud_init": false,
        "policy": {"allow_selinux": false, "cloudroot_dir": "/opt", "private_prefixes": ["9.0.0.0/8"],
                   "user_data_opens_sshd": false, "agents": "/opt/agents"}
    }}"#;

    #[test]
    fn jobs_cross_a_process_boundary() {
        let job: Job = serde_json::from_str(DEPLOY).unwrap();
        let bytes = postcard::to_allocvec(&job).unwrap();
        let back: Job = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(
            serde_json::to_value(&back).unwrap(),
            serde_json::to_value(&job).unwrap()
        );
        assert_eq!(
            (back.name(), back.image().1),
            ("DeployGuestFs", Access::Write)
        );
        let answer = Answer::Deployed(Some(Box::new(Deployed {
            system: System::default(),
            account: "root".to_owned(),
            key: String::new(),
            has_telegraf: false,
            notes: Vec::new(),
        })));
        let bytes = postcard::to_allocvec(&answer).unwrap();
        let back: Answer = postcard::from_bytes(&bytes).unwrap();
        assert!(matches!(back, Answer::Deployed(Some(it)) if it.account == "root"));
    }
}
