//! The program that runs as PID 1 in the microVM: it mounts filesystems with the kernel and serves
//! them to diskfs over a virtio port (`diskfs-remote`).
//!
//! [`KernelFs`] gives access to a mounted filesystem by system calls. [`LinuxMachine`] mounts
//! devices, [`DirectoryMachine`] serves an existing directory, for tests. [`init`] is the part of
//! PID 1.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod area;
mod disks;
pub mod init;
mod kernel_calls;
mod kernel_fs;
mod kernel_log;
mod machine;
mod modules;
mod mounted;
mod network;
mod programs;
mod resume;
mod waiting;

pub use kernel_fs::{KernelFs, LookupMethod};
pub use machine::{DirectoryMachine, LinuxMachine};
