//! Copying an image into its overlay while the overlay is served.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use diskfs::block::ErrorKind;
use diskfs::{BackgroundCopy, Disk, Result};

/// The wait after a failure that may pass. It doubles each time, up to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);

const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// The overlay of an image that is served.
#[derive(Debug, Args)]
pub(super) struct OverlayArgs {
    /// Write all changes to FILE, a qcow2 overlay of IMG that is created if it does not exist
    #[arg(long, value_name = "FILE")]
    pub(super) overlay: Option<PathBuf>,

    /// Copy IMG into the overlay meanwhile, until the overlay works without IMG
    #[arg(long, requires = "overlay")]
    background_copy: bool,
}

impl OverlayArgs {
    /// Starts the copy that the user wants.
    pub(super) fn start_copy(&self, disk: &Disk) -> Result<Option<RunningCopy>> {
        let copy = self.background_copy.then(|| RunningCopy::start(disk));
        copy.transpose()
    }
}

/// The thread that copies. It ends when the program does.
pub(super) struct RunningCopy(BackgroundCopy);

impl RunningCopy {
    /// Starts to copy into the overlay of this disk.
    fn start(disk: &Disk) -> Result<Self> {
        let copy = disk.background_copy()?;
        let (copied, overlay) = (copy.clone(), disk.path().to_owned());
        thread::Builder::new()
            .name("copy".to_owned())
            .spawn(move || run(&copied, &overlay))?;
        Ok(Self(copy))
    }

    /// Lets the thread change nothing any more. The disk can be closed then.
    pub(super) fn stop(&self) {
        self.0.stop();
    }
}

/// Copies until all is copied. Failures of the server, or of a full disk, may pass.
fn run(copy: &BackgroundCopy, overlay: &Path) {
    let overlay = overlay.display();
    let mut wait = FIRST_WAIT;
    loop {
        let mut has_begun = false;
        let copied = copy.run(&mut |_, _| {
            has_begun = true;
            ControlFlow::Continue(())
        });
        if has_begun {
            wait = FIRST_WAIT;
        }
        match copied {
            Ok(()) => {
                tracing::info!("{overlay}: the copy is complete; no backing file is needed now");
                return;
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => return,
            Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace) => {
                let seconds = wait.as_secs();
                tracing::warn!("{overlay}: the copy goes on in {seconds} s: {error}");
            }
            Err(error) => {
                tracing::warn!("{overlay}: the copy has ended, and is not complete: {error}");
                return;
            }
        }
        thread::sleep(wait);
        wait = LONGEST_WAIT.min(wait.saturating_mul(2));
    }
}
