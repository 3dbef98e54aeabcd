//! The options of the microVM, which several commands share.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::{Args, ValueEnum};

use diskfs::vm::appliance::{self, GuestKernel};
use diskfs::vm::{Appliance, BackendChoice, MicroVm, VmOptions};
use diskfs::{Disk, Error, ErrorKind, Fallback, Result, guest};

use super::bytes;
use super::config::{Config, parse_seconds};

/// The environment variable for the backend, which the command line overrides.
const VARIABLE: &str = "DISKFS_VM";

/// The options for filesystems without a driver in diskfs.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "MicroVM options")]
pub(crate) struct VmArgs {
    /// The backend that runs a kernel for filesystems without a driver: auto, uml, qemu-kvm,
    /// qemu-tcg or none [default: `$DISKFS_VM`, the configuration's, or auto]
    #[arg(long, value_name = "BACKEND")]
    vm: Option<BackendChoice>,

    /// The directory of the backend's kernels (see `diskfs appliance`)
    #[arg(long, value_name = "DIR")]
    appliance: Option<PathBuf>,

    /// The kernel to run: the appliance's, or the guest's own, which requires QEMU
    #[arg(
        long,
        value_name = "KERNEL",
        default_value = "appliance",
        hide_default_value = true
    )]
    vm_kernel: Kernel,

    /// The maximum memory of each machine; a program that needs more gets more [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = memory_mib)]
    vm_memory: Option<u32>,

    /// The time after which a machine that neither answers nor uses its disks is killed: its
    /// filesystems are then as after a power cut [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    vm_deadline: Option<Duration>,

    /// The guest's kernel, once it was extracted.
    #[arg(skip)]
    guest_kernel: OnceLock<GuestKernel>,
}

/// The origin of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Kernel {
    /// The kernel of the appliance
    #[default]
    Appliance,
    /// The newest kernel in the image, which supports the image's own filesystems
    Guest,
}

impl VmArgs {
    pub(crate) fn options(&self) -> Result<VmOptions> {
        diskfs::vm::clean_up_on_signals();
        let config = Config::load()?.vm;
        let choice = match self.vm {
            Some(choice) => choice,
            None => from_environment()?.or(config.backend).unwrap_or_default(),
        };
        Ok(VmOptions {
            choice,
            appliance: self.appliance_dir(config.appliance),
            kernel: self.guest_kernel.get().cloned(),
            call_deadline: self
                .vm_deadline
                .or(config.deadline)
                .unwrap_or(VmOptions::DEFAULT_CALL_DEADLINE),
            memory_mib: self
                .vm_memory
                .or(config.memory)
                .unwrap_or(VmOptions::DEFAULT_MEMORY_MIB),
            ..VmOptions::default()
        })
    }

    /// Returns the appliance's directory. The environment variable overrides the configuration; it
    /// is read where the appliance is searched.
    fn appliance_dir(&self, configured: Option<PathBuf>) -> Option<PathBuf> {
        let is_said = std::env::var_os(appliance::VARIABLE).is_some_and(|dir| !dir.is_empty());
        let configured = configured.filter(|_| !is_said);
        self.appliance.clone().or(configured)
    }

    /// Returns the fallback that opens filesystems without a driver.
    pub(crate) fn fallback(&self) -> Result<Arc<dyn Fallback>> {
        Ok(Arc::new(MicroVm::new(self.options()?)))
    }

    /// Returns true if the guest's kernel is needed, but not yet extracted.
    pub(crate) fn lacks_kernel(&self) -> bool {
        self.vm_kernel == Kernel::Guest && self.guest_kernel.get().is_none()
    }

    /// Extracts the kernel of the system on this disk. Filesystems without a driver are read with
    /// the appliance's kernel for that.
    pub(crate) fn take_kernel(&self, disk: &Disk, os: Option<usize>) -> Result<()> {
        let system = guest::select_system(disk, os)?.ok_or_else(|| guest::no_system(disk))?;
        let appliance = Appliance::find(self.options()?.appliance.as_deref());
        let kernel = GuestKernel::of(&system, &appliance)?;
        // No other thread sets the kernel.
        self.guest_kernel.set(kernel).ok();
        Ok(())
    }
}

/// The minimum memory with which a kernel starts.
const LEAST_MEMORY_MIB: u32 = 64;

pub(super) fn memory_mib(text: &str) -> std::result::Result<u32, String> {
    let mib = u32::try_from(bytes::parse(text)? >> 20).ok();
    mib.filter(|mib| *mib >= LEAST_MEMORY_MIB).ok_or_else(|| {
        format!("invalid memory size `{text}`: expected at least {LEAST_MEMORY_MIB}M")
    })
}

fn from_environment() -> Result<Option<BackendChoice>> {
    let value = std::env::var(VARIABLE).unwrap_or_default();
    if value.is_empty() {
        return Ok(None);
    }
    value
        .parse()
        .map(Some)
        .map_err(|reason: String| Error::new(ErrorKind::Invalid, format!("{VARIABLE}: {reason}")))
}
