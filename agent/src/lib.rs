//! What runs as PID 1 in the microVM: it mounts filesystems with the kernel and serves them to diskfs
//! over a virtio port (`diskfs-remote`).
//!
//! [`KernelFs`] shows a mounted filesystem by system calls. [`LinuxMachine`] mounts what it is asked
//! for, [`DirectoryMachine`] serves a directory that is there, for tests. [`init`] is PID 1's part.
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
mod network;
mod programs;
mod waiting;
mod wake;

pub use kernel_fs::{Kept, KernelFs};
pub use machine::{DirectoryMachine, LinuxMachine};
