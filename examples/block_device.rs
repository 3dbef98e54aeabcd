//! Opens a disk on the program's own storage, and uses a volume as a block device in the program's
//! process: `cargo run --example block_device -- disk.img`.
//!
//! `Counted` represents a program's storage: an object store, a network protocol, memory.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use diskfs::Disk;
use diskfs::block::{BlockRead, Error, ErrorKind, Result, check_bounds, len_of};

/// A file that counts the bytes that are read from it.
#[derive(Debug)]
struct Counted {
    file: File,
    size_bytes: u64,
    read_bytes: AtomicU64,
}

impl BlockRead for Counted {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes)?;
        self.read_bytes.fetch_add(len_of(buf), Ordering::Relaxed);
        let read = self.file.read_exact_at(buf, offset);
        read.map_err(|error| Error::new(ErrorKind::Io, error.to_string()).at(offset))
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = env::args_os().nth(1).ok_or("usage: block_device IMAGE")?;
    let file = File::open(&path)?;
    let storage = Arc::new(Counted {
        size_bytes: file.metadata()?.len(),
        file,
        read_bytes: AtomicU64::new(0),
    });

    // From the program's storage up to the files.
    let disk = Disk::options().open_device("storage", storage.clone())?;
    let release = disk.filesystem()?.read("/etc/os-release")?;
    print!("{}", String::from_utf8_lossy(&release));

    // In the other direction: the guest's disk, or one of its volumes, as a block device of this
    // process.
    let volume = disk.default_volume()?;
    let device = volume.device()?;
    let mut block = vec![0; 4096];
    device.read_at(0, &mut block)?;
    println!("{}: {} bytes", volume.name(), device.size_bytes());
    println!(
        "read {} of {} bytes",
        storage.read_bytes.load(Ordering::Relaxed),
        storage.size_bytes
    );
    Ok(())
}
