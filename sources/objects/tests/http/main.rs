//! Devices of HTTP servers, good ones and bad ones.

mod faults;
mod reading;
mod server;
