//! Reads the export of a URI, scattered and in order, and prints how fast.
//!
//! `cargo run --release -p diskfs-nbd --example read_all -- 'nbd+unix:///?socket=SOCKET'`

use std::io::Write;
use std::time::Instant;

use diskfs_block::BlockRead;
use diskfs_nbd::client::{Nbd, Options, Uri};

/// The number of reads at scattered places, for each thread.
const READS: u64 = 20_000;

/// The number of threads that read at once, after one alone.
const THREADS: u64 = 16;

/// The length of reads in order.
const LONG: usize = 8 << 20;

fn main() -> anyhow::Result<()> {
    let uri: Uri = std::env::args().nth(1).unwrap_or_default().parse()?;
    let device = Nbd::connect(&uri, Options::default())?;
    let mut out = std::io::stdout();
    for threads in [1, THREADS] {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let reads = (0..threads).map(|thread| {
                let device = &device;
                scope.spawn(move || scattered(device, thread, READS / threads))
            });
            let all: Vec<_> = reads.collect();
            all.into_iter()
                .try_for_each(|it| it.join().expect("a read does not panic"))
        })?;
        let micros = begun.elapsed().as_micros().max(1);
        let rate = u128::from(READS) * 1_000_000 / micros;
        writeln!(out, "4 KiB, {threads} threads: {rate}/s")?;
    }
    let begun = Instant::now();
    let mut buf = vec![0; LONG];
    let step = LONG as u64;
    for at in (0..device.size_bytes() / step).map(|it| it * step) {
        device.read_at(at, &mut buf)?;
    }
    let rate = u128::from(device.size_bytes()) / begun.elapsed().as_micros().max(1);
    writeln!(out, "in order, 8 MiB each: {rate} MB/s")?;
    Ok(())
}

fn scattered(device: &Nbd, thread: u64, reads: u64) -> diskfs_block::Result<()> {
    let blocks = (device.size_bytes() / 4096).max(1);
    let mut buf = [0; 4096];
    (0..reads).try_for_each(|number| {
        let block = (number * 7919 + thread * 104_729) % blocks;
        device.read_at(block * 4096, &mut buf)
    })
}
