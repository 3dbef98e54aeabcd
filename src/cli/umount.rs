//! `diskfs umount`.

use std::path::PathBuf;

use clap::Args;

use diskfs::Result;
use diskfs::export::fuse::{Laziness, Unmounted, unmount};

use super::session::Session;

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

#[expect(clippy::unnecessary_wraps, reason = "all commands have this form")]
pub(super) fn run(args: &Umount, session: &mut Session) -> Result<()> {
    let laziness = if args.lazy {
        Laziness::Detach
    } else {
        Laziness::Refuse
    };
    for mountpoint in &args.mountpoints {
        match unmount(mountpoint, laziness) {
            Ok(Unmounted::Completely) => {}
            Ok(Unmounted::ServerMayRun) => session.warn(&format!(
                "{}: unmounted, but still served for those who use it; the image stays locked",
                mountpoint.display()
            )),
            Err(error) => session.report(&error),
        }
    }
    Ok(())
}
