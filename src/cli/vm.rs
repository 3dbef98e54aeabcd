//! The options of the microVM, which commands share.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use clap::{Args, ValueEnum};

use diskfs::vm::appliance::{self, GuestKernel};
use diskfs::vm::{Appliance, Choice, MicroVm, VmOptions};
use diskfs::{Disk, Error, ErrorKind, Fallback, Result, guest};

use super::bytes;
use super::config::Config;

/// Overrides what is chosen by itself, before the command line does.
const VARIABLE: &str = "DISKFS_VM";

/// How filesystems are opened that diskfs has no driver for.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "MicroVM options")]
pub(crate) struct VmArgs {
    /// What runs a kernel for filesystems without a driver: auto, uml, qemu-kvm, qemu-tcg or none
    /// [default: `$DISKFS_VM`, the configuration's, or auto]
    #[arg(long, value_name = "BACKEND")]
    vm: Option<Choice>,

    /// The directory of the kernels for it (see `diskfs appliance`)
    #[arg(long, value_name = "DIR")]
    appliance: Option<PathBuf>,

    /// Whose kernel: the appliance's, or the guest's own, which QEMU boots
    #[arg(
        long,
        value_name = "KERNEL",
        default_value = "appliance",
        hide_default_value = true
    )]
    vm_kernel: Kernel,

    /// Memory of each machine, at most: more for a program that needs it [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = memory_mib)]
    vm_memory: Option<u32>,

    /// How many booted machines wait for the next image, to mount it at once
    #[arg(long, value_name = "N")]
    vm_pool: Option<u8>,

    /// The guest's kernel, when it was taken.
    #[arg(skip)]
    guest_kernel: OnceLock<GuestKernel>,
}

/// Whose kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Kernel {
    /// That of the appliance
    #[default]
    Appliance,
    /// The newest one that the image holds: it understands its own filesystems
    Guest,
}

impl VmArgs {
    pub(crate) fn options(&self) -> Result<VmOptions> {
        let config = Config::load()?.vm;
        let choice = match self.vm {
            Some(choice) => choice,
            None => from_environment()?.or(config.backend).unwrap_or_default(),
        };
        Ok(VmOptions {
            choice,
            appliance: self.appliance_dir(config.appliance),
            kernel: self.guest_kernel.get().cloned(),
            pool: self.vm_pool.or(config.pool).unwrap_or_default(),
            memory_mib: self
                .vm_memory
                .or(config.memory)
                .unwrap_or(VmOptions::DEFAULT_MEMORY_MIB),
            ..VmOptions::default()
        })
    }

    /// The variable goes before the configuration, and is looked at where the appliance is.
    fn appliance_dir(&self, configured: Option<PathBuf>) -> Option<PathBuf> {
        let is_said = std::env::var_os(appliance::VARIABLE).is_some_and(|dir| !dir.is_empty());
        let configured = configured.filter(|_| !is_said);
        self.appliance.clone().or(configured)
    }

    /// What opens the filesystems that have no driver.
    pub(crate) fn fallback(&self) -> Result<Arc<dyn Fallback>> {
        Ok(Arc::new(MicroVm::new(self.options()?)))
    }

    /// Whether the guest's kernel is still to be taken.
    pub(crate) fn lacks_kernel(&self) -> bool {
        self.vm_kernel == Kernel::Guest && self.guest_kernel.get().is_none()
    }

    /// Takes the kernel of the system on this disk, which the appliance's reads where no driver does.
    pub(crate) fn take_kernel(&self, disk: &Disk, os: Option<usize>) -> Result<()> {
        let system = guest::meant(disk, os)?.ok_or_else(|| guest::no_system(disk))?;
        let appliance = Appliance::find(self.options()?.appliance.as_deref());
        let kernel = GuestKernel::of(&system, &appliance)?;
        // Nobody else takes one.
        self.guest_kernel.set(kernel).ok();
        Ok(())
    }
}

/// A kernel needs so much to start.
const LEAST_MEMORY_MIB: u32 = 64;

pub(super) fn memory_mib(text: &str) -> std::result::Result<u32, String> {
    let mib = u32::try_from(bytes::parse(text)? >> 20).ok();
    mib.filter(|mib| *mib >= LEAST_MEMORY_MIB).ok_or_else(|| {
        format!("`{text}` is no memory for a machine; {LEAST_MEMORY_MIB}M is the least")
    })
}

fn from_environment() -> Result<Option<Choice>> {
    let said = std::env::var(VARIABLE).unwrap_or_default();
    if said.is_empty() {
        return Ok(None);
    }
    said.parse()
        .map(Some)
        .map_err(|reason: String| Error::new(ErrorKind::Invalid, format!("{VARIABLE}: {reason}")))
}
