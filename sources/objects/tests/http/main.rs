//! Devices of HTTP servers, good ones and bad ones.

mod downloading;
mod faults;
mod reading;
mod registry;
mod server;
mod slices;
