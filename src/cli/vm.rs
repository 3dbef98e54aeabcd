//! The options of the microVM, which commands share.

use std::path::PathBuf;

use clap::Args;

use diskfs::vm::{Choice, MicroVm, VmOptions};
use diskfs::{Error, ErrorKind, Result};

use super::bytes;

/// Overrides what is chosen by itself, before the command line does.
const VARIABLE: &str = "DISKFS_VM";

/// How filesystems are opened that diskfs has no driver for.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "MicroVM options")]
pub(crate) struct VmArgs {
    /// What runs a kernel for filesystems without a driver: auto, uml, qemu-kvm, qemu-tcg or none
    /// [default: `$DISKFS_VM`, or auto]
    #[arg(long, value_name = "BACKEND")]
    vm: Option<Choice>,

    /// The directory of the kernels for it (see `diskfs appliance`)
    #[arg(long, value_name = "DIR")]
    appliance: Option<PathBuf>,

    /// Memory of each machine, at most: more for a program that needs it [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = memory_mib)]
    vm_memory: Option<u32>,

    /// How many booted machines wait for the next image, to mount it at once
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    vm_pool: u8,
}

impl VmArgs {
    pub(crate) fn options(&self) -> Result<VmOptions> {
        let choice = match self.vm {
            Some(choice) => choice,
            None => from_environment()?,
        };
        Ok(VmOptions {
            choice,
            appliance: self.appliance.clone(),
            pool: self.vm_pool,
            memory_mib: self.vm_memory.unwrap_or(VmOptions::DEFAULT_MEMORY_MIB),
            ..VmOptions::default()
        })
    }

    pub(crate) fn fallback(&self) -> Result<MicroVm> {
        self.options().map(MicroVm::new)
    }
}

/// A kernel needs so much to start.
const LEAST_MEMORY_MIB: u32 = 64;

fn memory_mib(text: &str) -> std::result::Result<u32, String> {
    let mib = u32::try_from(bytes::parse(text)? >> 20).ok();
    mib.filter(|mib| *mib >= LEAST_MEMORY_MIB).ok_or_else(|| {
        format!("`{text}` is no memory for a machine; {LEAST_MEMORY_MIB}M is the least")
    })
}

fn from_environment() -> Result<Choice> {
    let said = std::env::var(VARIABLE).unwrap_or_default();
    if said.is_empty() {
        return Ok(Choice::default());
    }
    said.parse()
        .map_err(|reason: String| Error::new(ErrorKind::Invalid, format!("{VARIABLE}: {reason}")))
}
