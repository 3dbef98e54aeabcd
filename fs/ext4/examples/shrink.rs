//! Shrinks an ext2, ext3 or ext4 filesystem, or prints the smallest size.
//!
//! ```text
//! cargo run --release --example shrink -- IMAGE [BYTES]
//! ```
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use diskfs_block::{BlockRead, BlockWrite, File};
use diskfs_ext4::{ShrinkOptions, minimum_size, shrink};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let image = args.next().ok_or("missing argument IMAGE")?;
    let start = Instant::now();
    let Some(size) = args.next() else {
        let device: Arc<dyn BlockRead> = Arc::new(File::open(image)?);
        println!("{} in {:?}", minimum_size(&device)?, start.elapsed());
        return Ok(());
    };
    let device: Arc<dyn BlockWrite> = Arc::new(File::open_read_write(image)?);
    let options = ShrinkOptions::new(size.parse()?);
    let resized = shrink(&device, &options, &mut |_| ControlFlow::Continue(()))?;
    println!("{resized:?} in {:?}", start.elapsed());
    Ok(())
}
