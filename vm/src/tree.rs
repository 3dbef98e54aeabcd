//! The tree of a guest, mounted in a machine to run the guest's programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diskfs_remote::client::{Program, ProgramDir, Remote, Running};

use super::filesystem_kinds::Access;
use super::filesystem_kinds::{self, Mounting};
use super::machine::{MAX_DISKS, Machine, serial};
use super::{VmOptions, start};
use diskfs_disk::guest::KernelMounts;
use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_export::vhost_user::BlockDevice;

/// The disks of one filesystem, with its mount options if it is mounted.
pub(super) struct Part {
    devices: Vec<BlockDevice>,
    mounting: Option<(Mounting, Access)>,
}

impl Part {
    pub(super) fn mounted(devices: Vec<BlockDevice>, mounting: Mounting, access: Access) -> Self {
        Self {
            devices,
            mounting: Some((mounting, access)),
        }
    }

    pub(super) fn only_disks(devices: Vec<BlockDevice>) -> Self {
        Self {
            devices,
            mounting: None,
        }
    }
}

/// A guest's tree, mounted for writing in a machine of its own, in which the guest's programs run.
///
/// Dropping it without [`end`](Self::end) unmounts it, too, but errors are only logged.
#[derive(Debug)]
pub struct MachineTree {
    /// The filesystems in the order in which they were mounted.
    filesystems: Vec<Remote>,
    root: ProgramDir,
    machine: Machine,
    is_over: AtomicBool,
}

impl MachineTree {
    /// Starts a machine and mounts the filesystems of a tree in it.
    ///
    /// # Errors
    /// Fails with `Unsupported` if no machine starts or its kernel does not know a filesystem; with
    /// `ReadOnly` if the disk is open read-only; with the error of mounting.
    pub fn mount(options: &VmOptions, mounts: &KernelMounts) -> Result<Self> {
        let mut parts = Vec::new();
        for volume in &mounts.volumes {
            let mounting =
                filesystem_kinds::for_access(volume.filesystem_kind()?, Access::ReadWrite)?;
            let devices = volume.writable_devices()?.into_iter();
            let devices = devices.map(BlockDevice::writable).collect();
            parts.push(Part::mounted(devices, mounting, Access::ReadWrite));
        }
        let tree = Self::of_parts(options, parts, &mounts.root)?;
        tree.show(mounts);
        Ok(tree)
    }

    /// Starts a machine with these disks; the first one has the root.
    pub(super) fn of_parts(options: &VmOptions, parts: Vec<Part>, root: &[u8]) -> Result<Self> {
        if parts.iter().map(|part| part.devices.len()).sum::<usize>() > MAX_DISKS {
            let reason = format!("too many disks for a microVM: at most {MAX_DISKS}");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let mut disks = Vec::new();
        let mut mountings = Vec::new();
        for part in parts {
            let first = disks.len();
            for device in part.devices {
                disks.push(Arc::new(device.with_serial(serial(disks.len()))));
            }
            let indices: Vec<_> = (first..disks.len()).collect();
            mountings.push((indices, part.mounting));
        }
        let machine = start::start(options, &disks)?;
        if options.network {
            machine.client.connect_network()?;
        }
        let mut filesystems = Vec::new();
        for (indices, mounting) in mountings {
            if let Some((mounting, access)) = mounting {
                filesystems.push(machine.mount(&indices, &mounting, access)?);
            }
        }
        Ok(Self {
            root: filesystems[0].program_dir(root, ""),
            filesystems,
            machine,
            is_over: AtomicBool::new(false),
        })
    }

    /// Bind-mounts a filesystem, given by its index in `filesystems`, at a directory of the first
    /// one.
    pub(super) fn show_at(&self, filesystem: usize, at: &str) -> Result<()> {
        let from = self.filesystems[filesystem].program_dir("", "");
        let to = self.filesystems[0].program_dir("", at);
        Ok(self.machine.client.bind(from, to)?)
    }

    /// Makes the bind mounts. A mount that fails is left out, as in the guest itself.
    fn show(&self, mounts: &KernelMounts) {
        for mount in &mounts.mounts {
            let filesystem = &self.filesystems[mount.volume];
            let from = filesystem.program_dir(mount.root.clone(), mount.dir.clone());
            let to = self.filesystems[0].program_dir(mounts.root.clone(), mount.at.clone());
            if let Err(error) = self.machine.client.bind(from, to) {
                let at = String::from_utf8_lossy(&mount.at);
                tracing::warn!(%at, %error, "cannot mount this part of the tree; it is left out");
            }
        }
    }

    /// Starts a program whose root is the tree's root.
    ///
    /// # Errors
    /// Fails with `NotFound` if the program does not exist, with `Denied` if it may not be
    /// executed, and with `Unsupported` if it is for another architecture.
    pub fn start(&self, program: Program) -> Result<Running> {
        Ok(self.machine.client.start(self.root.clone(), program)?)
    }

    /// Kills running programs, unmounts everything and ends the machine; later calls do nothing.
    /// All data is durable when it returns.
    ///
    /// # Errors
    /// Fails if something can't be unmounted.
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

    /// Kills a machine that does not answer: its filesystems are as after a power cut.
    pub fn kill(&self) {
        self.machine.kill();
    }
}

impl Drop for MachineTree {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!(%error, "the microVM could not unmount its filesystems");
        }
    }
}
