//! Measures the throughput of the ciphers: a volume in memory is read and written in one thread.
//!
//!     cargo run --release -p diskfs-luks --example throughput
//!
//! Compare with `cryptsetup benchmark -c aes-xts -s 512` or, if the kernel has no `AF_ALG`, with
//! `openssl speed -evp aes-256-xts -bytes 4096`.

#[path = "../tests/volume/mod.rs"]
mod volume;

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::{BlockRead, BlockWrite, Memory};
use diskfs_luks::{Header, Key, Limits, Secret, Unlocked};

const REQUEST_BYTES: usize = 1 << 20;

/// Returns how many requests of 1 MiB run per second, in the best of several rounds.
fn mib_per_second(mut work: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    let until = Instant::now() + Duration::from_millis(500);
    while best == Duration::MAX || Instant::now() < until {
        let began = Instant::now();
        work();
        best = best.min(began.elapsed());
    }
    1.0 / best.as_secs_f64()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    for cipher in [
        "aes-xts-plain64",
        "aes-cbc-plain64",
        "serpent-xts-plain64",
        "twofish-xts-plain64",
    ] {
        for sector in [512, 4096] {
            let data = format!(r#""encryption": "{cipher}", "sector_size": {sector}"#);
            let json = volume::metadata().replace(
                "\"encryption\": \"aes-xts-plain64\", \"sector_size\": 512",
                &data,
            );
            let mut disk = volume::luks2(&json);
            disk.resize(4 << 20, 0);
            let disk = Arc::new(Memory::new(disk));
            let header = Header::read(&*disk)?.ok_or("no header")?;
            let key = Key::Volume(Secret::new(volume::KEY.to_vec()));
            let key = header.unlock(&*disk, &key, &Limits::default())?;
            let Ok(unlocked) = Unlocked::new(disk, &header, &key) else {
                continue; // CBC does not support keys of 512 bits.
            };
            let mut buf = vec![0; REQUEST_BYTES];
            let read = mib_per_second(|| unlocked.read_at(0, &mut buf).unwrap_or_default());
            let write = mib_per_second(|| unlocked.write_at(0, &buf).unwrap_or_default());
            writeln!(
                out,
                "{cipher}, sectors of {sector}: read {read:.0} MiB/s, write {write:.0} MiB/s"
            )?;
        }
    }
    Ok(())
}
