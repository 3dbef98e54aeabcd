//! The command `diskfs umount`.

use std::path::{Path, PathBuf};

use clap::Args;

use diskfs::export::fuse::{Laziness, Unmounted, unmount};
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

use super::session::{Output, Session, stdout};
use super::show::json::{self as document, put_name};

/// Unmount an image that was mounted with `diskfs mount`
///
/// Returns when the process that served the mount has ended, and the image is free again. Also
/// removes a mount whose server has died.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs umount /mnt
  diskfs umount --lazy /mnt")]
pub(super) struct Umount {
    /// The mount points
    #[arg(required = true, value_name = "MOUNTPOINT")]
    mountpoints: Vec<PathBuf>,

    /// Detach the mount now, and stop serving it when no process uses it any more
    #[arg(short, long)]
    lazy: bool,
}

pub(super) fn run(args: &Umount, session: &mut Session) -> Result<()> {
    let laziness = if args.lazy {
        Laziness::Detach
    } else {
        Laziness::Refuse
    };
    let mut entries = Vec::new();
    for mountpoint in &args.mountpoints {
        match unmount(mountpoint, laziness) {
            Ok(unmounted) => {
                match unmounted {
                    // The end of a bind mount is not the end of the server.
                    Unmounted::Completely | Unmounted::StillMounted => {}
                    Unmounted::ServerMayRun if args.lazy => session.warn(&format!(
                        "{}: unmounted, but still served for processes that use it; the image stays locked",
                        mountpoint.display()
                    )),
                    Unmounted::ServerMayRun => {
                        let reason = "unmounted, but its server still runs; the image stays in use";
                        let error = Error::new(ErrorKind::Locked, reason).in_file(mountpoint);
                        session.report(
                            &error.with_hint("`diskfs wait IMG` waits until the image is free"),
                        );
                    }
                }
                let free = unmounted == Unmounted::Completely;
                entries.push(entry(mountpoint, free));
            }
            Err(error) => session.report(&error),
        }
    }
    if session.output() == Output::Json {
        let body = json!({ "unmounted": entries });
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
