//! Serves a raw file on a Unix socket until its standard input ends: to compare with `qemu-nbd`.
//!
//! `cargo run --release -p diskfs-nbd --example serve -- FILE SOCKET`

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::File;
use diskfs_nbd::server::{Export, Options, Server};

fn main() -> anyhow::Result<()> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [file, socket] = words.as_slice() else {
        anyhow::bail!("usage: serve FILE SOCKET");
    };
    let device = Arc::new(File::open_read_write(Path::new(file))?);
    let server = Server::start(vec![Export::writable("", device)], Options::default())?;
    server.listen(UnixListener::bind(socket)?)?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop()?;
    Ok(())
}
