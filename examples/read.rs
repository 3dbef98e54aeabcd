//! Reads a file from an image: `cargo run --example read -- disk.qcow2 /etc/os-release`.
//!
//! The example needs no feature of the crate: `diskfs = { version = "0.1", default-features = false
//! }`.
#![expect(clippy::print_stderr, reason = "an example shows what it does")]

use std::env;
use std::io;

use diskfs::Disk;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = env::args_os().skip(1);
    let (Some(image), Some(path)) = (words.next(), words.next()) else {
        return Err("usage: read IMAGE PATH".into());
    };
    let disk = Disk::options().open_spec(image)?;
    for volume in disk.volumes()? {
        let kind = volume.content()?.map_or("unknown", |content| content.kind);
        eprintln!("{}: {} bytes, {kind}", volume.name(), volume.size_bytes());
    }
    // The only filesystem, or the one that contains an operating system.
    let root = disk.filesystem()?;
    let mut file = root.open(path.as_encoded_bytes())?;
    io::copy(&mut file, &mut io::stdout())?;
    Ok(())
}
