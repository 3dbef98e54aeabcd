//! Unpacks an image or a tar archive into an ext4 filesystem in a raw image, and prints the times.
//!
//! `untar ARCHIVE[:REFERENCE] DISK`

#![expect(clippy::print_stdout, reason = "the example prints its measurements")]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use diskfs_archive::image::Selection;
use diskfs_archive::tree::{Limits, WriteOptions};
use diskfs_archive::{Image, Layer, Tree};
use diskfs_ext4::{WritableExt4, WriteOptions as Ext4Options};
use diskfs_vfs::FsWrite;

type Error = Box<dyn std::error::Error>;

fn layers(source: &str) -> Result<Vec<Layer>, Error> {
    let (path, selection) = Selection::split(source);
    let limit_bytes = Limits::default().unpacked_bytes;
    Ok(match Image::detect(&path, &selection, limit_bytes)? {
        Some(image) => image.layers().to_vec(),
        None => vec![Layer::open(&path, limit_bytes)?],
    })
}

fn print_peak_memory() -> Result<(), Error> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!("{}", peak.unwrap_or_default());
    Ok(())
}

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let (Some(source), Some(disk)) = (args.next(), args.next()) else {
        return Err("usage: untar ARCHIVE[:REFERENCE] DISK".into());
    };
    let go_on = &mut |_| ControlFlow::Continue(());
    let start = Instant::now();
    let layers = layers(&source)?;
    let tree = Tree::plan(&layers, &Limits::default(), go_on)?;
    println!(
        "plan: {:.2?}, {} files",
        start.elapsed(),
        tree.nodes().count()
    );
    print_peak_memory()?;
    let device = Arc::new(diskfs_block::File::open_read_write(Path::new(&disk))?);
    let fs = WritableExt4::open(device, &Ext4Options::default())?;
    let start = Instant::now();
    let written = tree.write_to(&fs, &WriteOptions::default(), go_on)?;
    println!("write: {:.2?}", start.elapsed());
    fs.close()?;
    println!("with close: {:.2?}, {written:?}", start.elapsed());
    print_peak_memory()
}
