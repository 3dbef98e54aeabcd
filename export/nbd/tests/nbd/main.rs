//! NBD with QEMU's programs, libnbd and nbdkit, and with peers that misbehave.

mod catalog;
mod client;
mod hand;
mod hostile;
mod lies;
mod rig;
mod server;
mod stopping;
mod tls;
