//! NBD with QEMU's programs, libnbd and nbdkit, and with peers that misbehave.

mod hand;
mod hostile;
mod rig;
mod server;
