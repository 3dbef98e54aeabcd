//! Hashes all files of an image from asynchronous code, with a timeout: `cargo run --example async
//! -- disk.qcow2 60`.
//!
//! diskfs computes and reads files, so its calls belong on the threads that a runtime has for
//! blocking work. The example needs no feature of the crate: `diskfs = { version = "0.1",
//! default-features = false }`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::ffi::OsString;
use std::hash::Hasher;
use std::io::{self, Write};
use std::time::Duration;

use diskfs::vfs::FileType;
use diskfs::{CancellationToken, Disk};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = env::args_os().skip(1);
    let (Some(image), Some(seconds)) = (words.next(), words.next()) else {
        return Err("usage: async IMAGE SECONDS".into());
    };
    let seconds = seconds.to_string_lossy().parse()?;

    let token = CancellationToken::new();
    let for_work = token.clone();
    let mut work = spawn_blocking(move || hash_all(&image, for_work));
    // A blocking task can't be aborted: if it were dropped, it would continue.
    let hashed = match timeout(Duration::from_secs(seconds), &mut work).await {
        Ok(ended) => ended?,
        Err(_too_late) => {
            token.cancel();
            work.await?
        }
    };
    println!("{} files", hashed?);
    Ok(())
}

/// Prints a hash of each regular file, and returns their number.
fn hash_all(image: &OsString, token: CancellationToken) -> diskfs::Result<u64> {
    let disk = Disk::options().cancellation(token).open_spec(image)?;
    let root = disk.filesystem()?;
    let mut files = 0;
    for entry in root.walk("/")? {
        let entry = entry?;
        if entry.metadata.file_type != FileType::Regular {
            continue;
        }
        let mut hash = Hash::default();
        io::copy(&mut root.open(&entry.path)?, &mut hash)?;
        println!("{:016x} {}", hash.0.finish(), entry.path.escape_ascii());
        files += 1;
    }
    Ok(files)
}

/// A writer that hashes the bytes that it gets.
#[derive(Default)]
struct Hash(DefaultHasher);

impl Write for Hash {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
