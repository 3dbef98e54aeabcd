//! `diskfs umount`.

use std::path::{Path, PathBuf};

use clap::Args;

use diskfs::export::fuse::{Laziness, Unmounted, unmount};
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

use super::session::{Output, Session, stdout};
use super::show::json::{self as document, put_name};

/// Unmount what `diskfs mount` mounted
///
/// Returns when the process that served it has ended, and the image is free again. Also takes
/// away a mount whose server is gone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs umount /mnt
  diskfs umount --lazy /mnt")]
pub(super) struct Umount {
    /// Where it is mounted
    #[arg(required = true, value_name = "MOUNTPOINT")]
    mountpoints: Vec<PathBuf>,

    /// Take it out of the tree now, and end serving it when nobody uses it any more
    #[arg(short, long)]
    lazy: bool,
}

pub(super) fn run(args: &Umount, session: &mut Session) -> Result<()> {
    let laziness = if args.lazy {
        Laziness::Detach
    } else {
        Laziness::Refuse
    };
    let mut told = Vec::new();
    for mountpoint in &args.mountpoints {
        match unmount(mountpoint, laziness) {
            Ok(unmounted) => {
                let free = unmounted == Unmounted::Completely;
                if !free && !args.lazy {
                    let reason = "unmounted, but its server still runs; the image stays in use";
                    let error = Error::new(ErrorKind::Locked, reason).in_file(mountpoint);
                    session.report(&error.with_hint("`diskfs wait IMG` waits for it"));
                } else if !free {
                    session.warn(&format!(
                        "{}: unmounted, but still served for those who use it; the image stays locked",
                        mountpoint.display()
                    ));
                }
                told.push(entry(mountpoint, free));
            }
            Err(error) => session.report(&error),
        }
    }
    if session.output() == Output::Json {
        let body = json!({ "unmounted": told });
        document::write(&mut stdout()?, session.command(), body)?;
    }
    Ok(())
}

fn entry(mountpoint: &Path, free: bool) -> Value {
    let mut fields = Map::new();
    put_name(
        &mut fields,
        "mountpoint",
        mountpoint.as_os_str().as_encoded_bytes(),
    );
    fields.insert("free".to_owned(), free.into());
    fields.into()
}
