//! The command `diskfs wait`.

use std::ffi::{OsStr, OsString};
use std::thread;
use std::time::Duration;

use clap::Args;

use diskfs::export::fuse::wait_for_servers;
use diskfs::image::ImageSpec;
use diskfs::{Disk, ErrorKind, Result};
use serde_json::{Map, Value, json};

use super::session::{Output, Session, stdout};
use super::show::json::{self as document, put_name};

/// The time between two checks of the image's lock.
const PAUSE: Duration = Duration::from_millis(20);

/// Wait until an image is free
///
/// Returns when diskfs no longer serves the image, all written data is durable, and no process has
/// locked it for writing; umount(8) and `fusermount3 -u` do not wait for that. Fails if a mount
/// ended without making all data durable. Also waits while a virtual machine uses the image.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fusermount3 -u /mnt && diskfs wait debian.qcow2 && qemu-system-x86_64 debian.qcow2")]
pub(super) struct Wait {
    /// The images to wait for
    #[arg(required = true, value_name = "IMG")]
    images: Vec<OsString>,
}

pub(super) fn run(args: &Wait, session: &mut Session) -> Result<()> {
    let mut free = Vec::new();
    for image in &args.images {
        match wait(image) {
            Ok(()) => {
                let mut fields = Map::new();
                put_name(&mut fields, "image", image.as_encoded_bytes());
                free.push(Value::Object(fields));
            }
            Err(error) => session.report(&error),
        }
    }
    if session.output() == Output::Json {
        let body = json!({ "free": free });
        document::write(&mut stdout()?, session.command(), body)?;
    }
    Ok(())
}

fn wait(image: &OsStr) -> Result<()> {
    let spec = ImageSpec::parse(image)?;
    let ended = wait_for_servers(&spec.path);
    loop {
        match Disk::options().open_spec(image) {
            Err(error) if error.kind() == ErrorKind::Locked => thread::sleep(PAUSE),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Denied) => {
                return Err(error);
            }
            // The image need not be valid; only its lock matters here.
            Ok(_) | Err(_) => return ended,
        }
    }
}
