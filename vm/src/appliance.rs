//! The building of the appliance: kernels for microVMs with the agent in them, in one directory.
//!
//! | file | what |
//! |---|---|
//! | `uml` | a User Mode Linux kernel with the agent embedded: one static program |
//! | `qemu/vmlinux`, `qemu/initramfs` | a kernel for QEMU, and the agent with its modules |
//! | `qemu/saved` | the state of a machine that has booted these two, without KVM |
//! | `diskfs-agent` | the agent, for kernels that a guest brings |
//! | `tools` | a filesystem with programs that make, check and resize filesystems |

mod build_qemu;
mod build_tools;
mod build_uml;
mod kernel_source;
mod lacking;
mod monitor;
mod part;
mod precompiled;
mod save;

pub use super::boot_files::{
    Appliance, GuestKernel, QemuFiles, VARIABLE, cache_dir, verify_checksum as verify,
};
pub use build_qemu::{BuildQemu, BuiltQemu};
pub use build_tools::{BuildTools, BuiltTools};
pub use build_uml::{BuildUml, Built};
pub use lacking::Lacking;
pub use part::Part;
