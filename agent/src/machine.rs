//! The machines that mount filesystems.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use diskfs_remote::server::{
    About, BulkArea, HostHello, Location, Machine, MountRequest, Program, Running, Served,
};
use diskfs_vfs::{Error, ErrorKind, Result};

use crate::area::DiskArea;
use crate::kernel_fs::{KernelFs, LookupMethod};
use crate::mounted::Mounted;
use crate::network;
use crate::programs::Programs;
use crate::resume;

/// Filesystems without persistent handles: their inode numbers are valid only while a file is in
/// use.
const WITHOUT_HANDLES: [&str; 5] = ["vfat", "msdos", "exfat", "hfs", "hfsplus"];

/// Returns a description of this agent and its machine.
fn about() -> About {
    let uname = rustix::system::uname();
    About {
        agent: env!("CARGO_PKG_VERSION").into(),
        kernel: uname.release().to_string_lossy().into_owned(),
        architecture: uname.machine().to_string_lossy().into_owned(),
    }
}

fn lookup_method(kind: &str) -> LookupMethod {
    if WITHOUT_HANDLES.contains(&kind) {
        LookupMethod::Open
    } else {
        LookupMethod::Handles
    }
}

/// The machine on which the agent runs; it mounts the machine's devices.
#[derive(Debug, Default)]
pub struct LinuxMachine {
    mounted: AtomicU32,
    programs: Arc<Programs>,
    /// The area, which is searched after the handshake.
    area: OnceLock<DiskArea>,
    /// The state of PID 1; `None` if the agent is not PID 1.
    init: Option<Init>,
}

/// The state that only PID 1 has.
#[derive(Debug)]
struct Init {
    /// True if the machine may have been restored from a saved state, with other disks.
    is_saved: bool,
}

impl LinuxMachine {
    /// Creates the machine of PID 1.
    pub(crate) fn of_init(is_saved: bool) -> Self {
        Self {
            init: Some(Init { is_saved }),
            ..Self::default()
        }
    }
}

impl Machine for LinuxMachine {
    fn about(&self) -> About {
        about()
    }

    fn on_handshake(&self, host_hello: &HostHello) {
        let Some(init) = &self.init else {
            return; // The machine's time belongs to its own system.
        };
        resume::apply_handshake(host_hello);
        if init.is_saved {
            resume::find_disks();
        }
        if let Some(area) = DiskArea::find() {
            self.area.get_or_init(|| area);
        }
    }

    fn area(&self) -> Option<&dyn BulkArea> {
        let area = self.area.get()?;
        Some(area)
    }

    fn mount(&self, request: &MountRequest) -> Result<Arc<dyn Served>> {
        let number = self.mounted.fetch_add(1, Ordering::Relaxed);
        let mounted = Mounted::new(request, number)?;
        let unmount_it = {
            let (mounted, programs) = (mounted.clone(), Arc::clone(&self.programs));
            move || mounted.end(&programs)
        };
        let kind = &request.kind;
        let fs = KernelFs::new(&mounted.target, kind, lookup_method(kind), unmount_it);
        Ok(Arc::new(fs.inspect_err(|_| mounted.give_up())?))
    }

    fn bind(&self, from: &Location<'_>, to: &Location<'_>) -> Result<()> {
        self.programs.bind(from, to)
    }

    fn connect(&self) -> Result<()> {
        if self.init.is_none() {
            let reason = "setting up the network is not supported: the agent is not PID 1";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        network::connect()
    }

    fn start(&self, root: &Location<'_>, program: &Program) -> Result<Arc<dyn Running>> {
        self.programs.start(root, program)
    }

    fn end_programs(&self) {
        self.programs.end_all();
    }
}

/// A machine for tests that "mounts" an existing directory, whatever device is requested.
#[derive(Debug)]
pub struct DirectoryMachine {
    directory: String,
}

impl DirectoryMachine {
    /// Creates a machine that serves this directory.
    pub fn new(directory: impl Into<String>) -> Self {
        Self {
            directory: directory.into(),
        }
    }
}

impl Machine for DirectoryMachine {
    fn about(&self) -> About {
        about()
    }

    fn mount(&self, request: &MountRequest) -> Result<Arc<dyn Served>> {
        let kind = &request.kind;
        let fs = KernelFs::new(&self.directory, kind, lookup_method(kind), || Ok(()))?;
        Ok(Arc::new(fs))
    }
}
