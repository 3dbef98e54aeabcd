//! Mounts an empty writable filesystem in memory until it is unmounted: what the conformance tools
//! find there is due to the mount, not to a driver.

use std::sync::Arc;

use diskfs::export::fuse::{Access, Effect, Options, mount_writable};
use diskfs::vfs::testing::WritableMemoryFs;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mountpoint = std::env::args_os()
        .nth(1)
        .ok_or("usage: memory_mount DIR")?;
    let options = Options {
        access: Access::Everyone,
        suid: Effect::Allowed,
        devices: Effect::Allowed,
        ..Options::default()
    };
    let fs = Arc::new(WritableMemoryFs::new());
    let mounted = mount_writable(fs, mountpoint.as_ref(), &options)?;
    mounted.serve()?;
    Ok(())
}
