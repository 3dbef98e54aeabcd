//! Copies an image to standard output, or prints its map: `image_read cat|map SPEC`.

use std::io::Write;

use diskfs_image::{Image, ImageSpec, OpenOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(command), Some(spec)) = (args.next(), args.next()) else {
        return Err("usage: image_read cat|map SPEC".into());
    };
    let image = Image::open_spec(&spec.parse::<ImageSpec>()?, &OpenOptions::default())?;
    let mut out = std::io::stdout().lock();
    if command == "map" {
        writeln!(out, "{:#?}", image.description())?;
        for entry in image.map() {
            writeln!(out, "{:?}", entry?)?;
        }
        return Ok(());
    }
    let device = image.device();
    let mut buf = vec![0; 1 << 20];
    let mut at = 0;
    while at < device.size_bytes() {
        let n = usize::try_from(device.size_bytes() - at)?.min(buf.len());
        device.read_at(at, &mut buf[..n])?;
        out.write_all(&buf[..n])?;
        at += n as u64;
    }
    Ok(())
}
