//! The microVM: a kernel that runs beside diskfs and opens the filesystems that diskfs has no driver
//! for.
//!
//! A [`MicroVm`] is a [`Fallback`]: whoever opens a filesystem does not notice that it is behind one. Each
//! filesystem gets a machine of its own, which sees exactly one disk: the volume, served by this process.
//! There is no partition, no volume group and no network in it, and no file of the host.
//!
//! The machine is started by one of several backends ([`Kind`]), each tried in turn until one answers in time.
//! What they boot is the [`Appliance`].

pub mod appliance;
mod area;
mod backend;
mod boot_files;
mod confine;
mod connection;
mod console;
mod kinds;
mod kvm_probe;
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
pub use diskfs_remote::client::{Ended, Happened, Program, Running, Stream, User};
pub use options::{Choice, Kind, VmOptions};
use pool::Pool;
pub use tree::MachineTree;

use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::{BlockRead, BlockWrite, Memory, Overlay};
use diskfs_vfs::{FsRead, FsWrite};

use diskfs_disk::{Fallback, Result, Wanted};

/// What recovery of a journal may write before a filesystem that is only read is mounted: it goes into
/// memory, and is forgotten.
const RECOVERY_MAX_BYTES: u64 = 1 << 30;

/// What starting a machine came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The version of its kernel.
    pub kernel: String,
    /// How long it took until its agent answered.
    pub ready: Duration,
    /// How long it took until it had ended again.
    pub ended: Duration,
}

impl Trial {
    /// Starts a machine with an empty disk, and ends it.
    ///
    /// # Errors
    /// Why it does not answer.
    pub fn run(kind: Kind, options: &VmOptions) -> Result<Self> {
        let began = Instant::now();
        let empty = Memory::new(vec![0; TRIAL_DISK_BYTES]);
        let disk = machine::only_disk(Arc::new(empty));
        let machine = start::start_only(kind, options, &[disk])?;
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

/// Opens filesystems in a microVM.
///
/// A machine whose filesystem was closed waits a while for the next one of the same disk. With the last clone of
/// this, those that wait are gone.
#[derive(Debug, Clone)]
pub struct MicroVm {
    pool: Arc<Pool>,
}

impl MicroVm {
    /// One with these options. Nothing is started yet, but what [is to wait](VmOptions::pool).
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
    fn takes(&self, kind: &str) -> bool {
        self.pool.options().choice != Choice::None && kinds::of(kind).is_some()
    }

    fn open(&self, wanted: &Wanted<'_>, device: Arc<dyn BlockRead>) -> Result<Arc<dyn FsRead>> {
        // The kernel replays a journal also when it mounts read-only, and the image must not change.
        let scratch = Arc::new(Overlay::in_memory(device, RECOVERY_MAX_BYTES));
        let fs = mount::mount(&self.pool, wanted, scratch, kinds::Access::ReadOnly)?;
        Ok(fs)
    }

    fn open_for_writing(
        &self,
        wanted: &Wanted<'_>,
        device: Arc<dyn BlockWrite>,
    ) -> Result<Arc<dyn FsWrite>> {
        let fs = mount::mount(&self.pool, wanted, device, kinds::Access::ReadWrite)?;
        Ok(fs)
    }
}
