//! Measures the speed of writing directly to the driver: `write_speed IMAGE` creates files in a
//! directory, writes a large file, removes all of them again, and prints the time of each step. The
//! image is changed.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use diskfs_block::File;
use diskfs_ext4::{WritableExt4, WriteOptions};
use diskfs_vfs::{FsRead, FsWrite, NewAttributes, NewKind, Result};

const FILES: [u32; 3] = [2_000, 20_000, 100_000];
const LARGE_BYTES: u64 = 1 << 30;

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let image = std::env::args().nth(1).ok_or("usage: write_speed IMAGE")?;
    let device = Arc::new(File::open_read_write(&image)?);
    let fs = WritableExt4::open(device, &WriteOptions::default())?;
    for count in FILES {
        let rate = |seconds: f64| f64::from(count) / seconds;
        let name = format!("many-{count}");
        let dir = fs.create(
            fs.root(),
            name.as_bytes(),
            NewKind::Directory,
            &attributes(),
        )?;
        timed(&format!("{count} files made, a second"), rate, || {
            for n in 0..count {
                let name = format!("file-{n:07}");
                fs.create(dir, name.as_bytes(), NewKind::Regular, &attributes())?;
            }
            fs.sync()
        })?;
        timed(
            &format!("{count} files of 4 KiB written, a second"),
            rate,
            || {
                for n in 0..count {
                    let file = fs.lookup(dir, format!("file-{n:07}").as_bytes())?;
                    fs.write_at(file, 0, &[7; 4096])?;
                }
                fs.sync()
            },
        )?;
        timed(&format!("{count} files removed, a second"), rate, || {
            for n in 0..count {
                fs.unlink(dir, format!("file-{n:07}").as_bytes())?;
            }
            fs.sync()
        })?;
    }
    large(&fs)?;
    timed("close, ms", |seconds| seconds * 1e3, || fs.close())?;
    Ok(())
}

fn large(fs: &WritableExt4) -> Result<()> {
    let file = fs.create(fs.root(), b"large", NewKind::Regular, &attributes())?;
    let data = vec![9; 1 << 20];
    timed(
        "1 GiB written in order, ms",
        |seconds| seconds * 1e3,
        || {
            let mut at = 0;
            while at < LARGE_BYTES {
                fs.write_at(file, at, &data)?;
                at += 1 << 20;
            }
            fs.sync()
        },
    )?;
    let runs = fs.extents_of(file, 0)?.count();
    let _ = writeln!(std::io::stdout(), "runs of it: {runs}");
    timed(
        "removed, ms",
        |seconds| seconds * 1e3,
        || {
            fs.unlink(fs.root(), b"large")?;
            fs.sync()
        },
    )
}

fn attributes() -> NewAttributes {
    NewAttributes::for_root(0o644)
}

fn timed(
    what: &str,
    figure: impl FnOnce(f64) -> f64,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    work()?;
    let value = figure(start.elapsed().as_secs_f64());
    let _ = writeln!(std::io::stdout(), "{what}: {value:.0}");
    Ok(())
}
