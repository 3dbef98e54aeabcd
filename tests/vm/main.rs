//! Filesystems without a driver in diskfs, opened by a kernel in a microVM.
//!
//! All tests are below one module name, by which `tests/run` postpones them until the appliance is
//! built.
#![cfg(feature = "microvm")]

mod microvm;
