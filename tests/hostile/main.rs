//! Bad input to the program: a clear error with its location and its exit code, within a second and
//! 64 MiB, and no byte of the image changed.

mod deploy;
mod ext4;
mod gate;
mod program;
mod qcow2;
mod tables;
mod truncated;
mod unchanged;
