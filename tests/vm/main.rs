//! Filesystems that diskfs has no driver for, opened by a kernel in a microVM.
//!
//! All tests are below one name, by which `tests/run` puts them off until there is an appliance.
#![cfg(feature = "microvm")]

mod microvm;
