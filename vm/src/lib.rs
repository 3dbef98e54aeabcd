//! The microVM: a kernel that runs beside diskfs and opens the filesystems that diskfs has no
//! driver for.
//!
//! A [`MicroVm`] is a [`Fallback`]: its filesystems are used like those of any driver. The
//! filesystems of one [`Disk`](diskfs_disk::Disk) share a machine, which sees nothing but their
//! volumes, served by this process: no partitions, no volume groups, no network, and no files of
//! the host.
//!
//! One of several backends ([`BackendKind`]) starts the machine; they are tried in turn until one
//! answers in time. They boot the [`Appliance`].

pub mod appliance;
mod architecture;
mod area;
mod backend;
mod boot_files;
mod confine;
mod connection;
mod console;
mod ending_signals;
mod filesystem_kinds;
mod forward;
#[cfg(target_arch = "x86_64")]
mod kvm_probe;
/// The probe runs a program for x86-64.
#[cfg(not(target_arch = "x86_64"))]
mod kvm_probe {
    pub(super) fn problem() -> Option<String> {
        Some("KVM machines are supported on x86-64 only".to_owned())
    }
}
mod machine;
mod mount;
mod options;
mod pool;
mod process;
mod qemu;
mod run_dir;
mod saved_state;
mod start;
pub mod tools;
mod tree;
mod uml;
mod verdict;
mod watch;

pub use boot_files::Appliance;
pub use diskfs_remote::client::{
    Ended, Program, ProgramEvent, Running, Stream, TerminalSize, User,
};
pub use ending_signals::clean_up_on_signals;
use filesystem_kinds::Access;
pub use forward::{ForwardServer, Forwarded};
pub use options::{BackendChoice, BackendKind, VmOptions};
use pool::Pool;
pub use tree::MachineTree;

use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::{BlockRead, BlockWrite, Memory, Overlay};
use diskfs_vfs::{FsRead, FsWrite};

use diskfs_disk::{Fallback, FallbackRequest, Result};

/// The limit for writes of a journal recovery when a filesystem is mounted read-only. They go into
/// memory and are discarded.
const RECOVERY_MAX_BYTES: u64 = 1 << 30;

/// The result of a trial start of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The version of the machine's kernel.
    pub kernel: String,
    /// The time until the agent answered.
    pub ready: Duration,
    /// The time until the machine had ended.
    pub ended: Duration,
}

impl Trial {
    /// Starts a machine with an empty disk, and ends it.
    ///
    /// # Errors
    /// Fails with the reason why the machine does not answer.
    pub fn run(kind: BackendKind, options: &VmOptions) -> Result<Self> {
        let began = Instant::now();
        let empty = Memory::new(vec![0; TRIAL_DISK_BYTES]);
        let disks = machine::disks_of(vec![Arc::new(empty)], 1);
        let machine = start::start_only(kind, options, &disks)?;
        let (ready, kernel) = (began.elapsed(), machine.kernel().to_owned());
        machine.end();
        Ok(Self {
            kernel,
            ready,
            ended: began.elapsed(),
        })
    }
}

const TRIAL_DISK_BYTES: usize = 1 << 20;

/// A fallback that opens filesystems in microVMs.
///
/// The filesystems of one disk share a machine. After the last one was closed, the machine is kept
/// for a while for the next filesystem of that disk. Dropping the last clone ends the machines that are kept.
#[derive(Debug, Clone)]
pub struct MicroVm {
    pool: Arc<Pool>,
}

impl MicroVm {
    /// Creates a fallback with these options. It starts a machine when a filesystem is opened.
    pub fn new(options: VmOptions) -> Self {
        Self {
            pool: Arc::new(Pool::new(options)),
        }
    }
}

impl Default for MicroVm {
    fn default() -> Self {
        Self::new(VmOptions::default())
    }
}

impl Fallback for MicroVm {
    fn supports(&self, kind: &str) -> bool {
        self.pool.options().choice != BackendChoice::None && filesystem_kinds::of(kind).is_some()
    }

    fn open(
        &self,
        wanted: &FallbackRequest<'_>,
        devices: Vec<Arc<dyn BlockRead>>,
    ) -> Result<Arc<dyn FsRead>> {
        // The kernel replays a journal even for a read-only mount, but the image must not change.
        let scratch = |device| -> Arc<dyn BlockWrite> {
            Arc::new(Overlay::in_memory(device, RECOVERY_MAX_BYTES))
        };
        let devices = devices.into_iter().map(scratch).collect();
        Ok(mount::mount(&self.pool, wanted, devices, Access::ReadOnly)?)
    }

    fn open_for_writing(
        &self,
        wanted: &FallbackRequest<'_>,
        devices: Vec<Arc<dyn BlockWrite>>,
    ) -> Result<Arc<dyn FsWrite>> {
        Ok(mount::mount(
            &self.pool,
            wanted,
            devices,
            Access::ReadWrite,
        )?)
    }
}
