//! A guest's tree in a machine, for its programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diskfs_remote::client::{Place, Program, Remote, Running};

use super::kinds::Access;
use super::kinds::{self, Mounting};
use super::machine::{Machine, serial};
use super::{VmOptions, start};
use diskfs_disk::guest::Steps;
use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_export::vhost_user::BlockDevice;

/// As many disks as have a name of one letter in the machine, less the one for the area.
const MAX_DISKS: usize = 25;

/// A disk of the machine, and how its filesystem is mounted if it is.
pub(super) struct Part {
    device: BlockDevice,
    mounting: Option<(Mounting, Access)>,
}

impl Part {
    pub(super) fn mounted(device: BlockDevice, mounting: Mounting, access: Access) -> Self {
        Self {
            device,
            mounting: Some((mounting, access)),
        }
    }

    pub(super) fn only_a_disk(device: BlockDevice) -> Self {
        Self {
            device,
            mounting: None,
        }
    }
}

/// A guest's tree, mounted for writing in a machine of its own, in which the guest's programs run.
///
/// Dropped without [`end`](Self::end), it is unmounted all the same, but nobody learns how that
/// went.
#[derive(Debug)]
pub struct MachineTree {
    /// In the order in which they were mounted.
    filesystems: Vec<Remote>,
    root: Place,
    machine: Machine,
    is_over: AtomicBool,
}

impl MachineTree {
    /// Starts a machine, and mounts there what a tree consists of.
    ///
    /// # Errors
    /// `Unsupported` when no machine starts, or its kernel does not know a filesystem; `ReadOnly` when
    /// the disk is open for reading only; what mounting meets.
    pub fn mount(options: &VmOptions, steps: &Steps) -> Result<Self> {
        let mut parts = Vec::new();
        for volume in &steps.volumes {
            let mounting = kinds::for_access(volume.filesystem_kind()?, Access::ReadWrite)?;
            let device = BlockDevice::writable(volume.writable_device()?);
            parts.push(Part::mounted(device, mounting, Access::ReadWrite));
        }
        let tree = Self::of_parts(options, parts, &steps.root)?;
        tree.show(steps);
        Ok(tree)
    }

    /// Starts a machine with these disks, of which the first one has the root.
    pub(super) fn of_parts(options: &VmOptions, parts: Vec<Part>, root: &[u8]) -> Result<Self> {
        if parts.len() > MAX_DISKS {
            let reason = format!("a microVM has {MAX_DISKS} disks at most");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let mut disks = Vec::new();
        let mut mountings = Vec::new();
        for (index, part) in parts.into_iter().enumerate() {
            disks.push(Arc::new(part.device.with_serial(serial(index))));
            mountings.push(part.mounting);
        }
        let machine = start::start(options, &disks)?;
        if options.network {
            machine.client.connect_network()?;
        }
        let mut filesystems = Vec::new();
        for (index, mounting) in mountings.into_iter().enumerate() {
            if let Some((mounting, access)) = mounting {
                filesystems.push(machine.mount(&serial(index), &mounting, access)?);
            }
        }
        Ok(Self {
            root: filesystems[0].place(root, ""),
            filesystems,
            machine,
            is_over: AtomicBool::new(false),
        })
    }

    /// Shows a filesystem, by its number among those that are mounted, at a directory of the first one.
    pub(super) fn show_at(&self, filesystem: usize, at: &str) -> Result<()> {
        let from = self.filesystems[filesystem].place("", "");
        let to = self.filesystems[0].place("", at);
        Ok(self.machine.client.bind(from, to)?)
    }

    /// What can't be shown is left out, as the guest itself would do without it.
    fn show(&self, steps: &Steps) {
        for shown in &steps.shown {
            let filesystem = &self.filesystems[shown.volume];
            let from = filesystem.place(shown.root.clone(), shown.dir.clone());
            let to = self.filesystems[0].place(steps.root.clone(), shown.at.clone());
            if let Err(error) = self.machine.client.bind(from, to) {
                let at = String::from_utf8_lossy(&shown.at);
                tracing::warn!(%at, %error, "not mounted");
            }
        }
    }

    /// Starts a program, whose root is the tree's.
    ///
    /// # Errors
    /// `NotFound` without the program, `Denied` when it may not be run, `Unsupported` when it is for
    /// another architecture.
    pub fn start(&self, program: Program) -> Result<Running> {
        Ok(self.machine.client.start(self.root.clone(), program)?)
    }

    /// Kills what runs, unmounts everything and ends the machine, once. Returns when all is durable.
    ///
    /// # Errors
    /// When something can't be unmounted.
    pub fn end(&self) -> Result<()> {
        if self.is_over.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let ended = self.machine.shut_down();
        for filesystem in &self.filesystems {
            filesystem.was_unmounted();
        }
        ended
    }

    /// Kills the machine: its filesystems are as after a power cut. For one that does not answer.
    pub fn kill(&self) {
        self.machine.kill();
    }
}

impl Drop for MachineTree {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!(%error, "the microVM did not unmount");
        }
    }
}
