//! Measures how fast an image is read, compared with its file: `image_speed SPEC [FILE]`.
//!
//! `FILE` is read directly for comparison. By default it is the image's own file, which for a
//! compressed or sparse image has another number of bytes. All reads come from the page cache, so
//! the result is the cost of the program and not of a disk.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use diskfs_block::{BlockRead, File};
use diskfs_image::{Image, ImageSpec, OpenOptions};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let Some(spec) = args.next() else {
        return Err("usage: image_speed SPEC [FILE]".into());
    };
    let spec: ImageSpec = spec.parse()?;
    let start = Instant::now();
    let image = Image::open_spec(&spec, &OpenOptions::default())?;
    let opened = start.elapsed();
    let mut out = std::io::stdout().lock();
    writeln!(out, "open: {opened:?}")?;
    let direct = args.next().map_or_else(|| spec.path.clone(), PathBuf::from);
    let device = image.device();
    let file = File::open(direct)?;
    for round in 1..=2 {
        measure(&mut out, &format!("image {round}"), device.as_ref())?;
        measure(&mut out, &format!("file {round}"), &file)?;
    }
    Ok(())
}

fn measure(out: &mut impl Write, what: &str, device: &dyn BlockRead) -> Outcome {
    for (name, threads) in [("random 4K", 1), ("random 4K", 2)] {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || random(device, thread + 1));
            }
        });
        let each = start.elapsed().as_nanos() / u128::from(READS);
        writeln!(out, "{what}: {name}, {threads} threads: {each} ns each")?;
    }
    let start = Instant::now();
    sequential(device)?;
    let rate = u128::from(device.size_bytes()) / start.elapsed().as_micros().max(1);
    writeln!(out, "{what}: sequential 1M: {rate} MB/s")?;
    Ok(())
}

const READS: u64 = 100_000;

fn random(device: &dyn BlockRead, seed: u64) {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut buf = [0; 4096];
    for _ in 0..READS {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let at = (x % (device.size_bytes() / 4096)) * 4096;
        device.read_at(at, &mut buf).expect("read");
    }
}

fn sequential(device: &dyn BlockRead) -> Outcome {
    let mut buf = vec![0; 1 << 20];
    let mut at = 0;
    while at < device.size_bytes() {
        let n = usize::try_from(device.size_bytes() - at)?.min(buf.len());
        device.read_at(at, &mut buf[..n])?;
        at += n as u64;
    }
    Ok(())
}
