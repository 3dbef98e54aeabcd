//! Copying an image into its overlay while the overlay is served.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use diskfs::block::{self, ErrorKind, with_reasons};
use diskfs::{BackgroundCopy, Disk, Result};
use rustix::fs::statvfs;

use super::ProgressMode;
use super::logging::WORK;
use super::progress::Progress;
use super::show::size::units;

/// The wait after a failure that may pass. It doubles each time, up to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);

const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// The free space that a copy leaves on the host's filesystem: for the tables of what is copied, which
/// reach the file later, and for writes to the disk. Without it, a flush of a client could fail
/// because of the copy.
const RESERVED_BYTES: u64 = 64 << 20;

/// The overlay of an image that is served.
#[derive(Debug, Args)]
pub(super) struct OverlayArgs {
    /// Write all changes to FILE, a qcow2 overlay of IMG that is created if it does not exist
    #[arg(long, value_name = "FILE")]
    pub(super) overlay: Option<PathBuf>,

    /// Copy IMG into the overlay meanwhile, until the overlay works without IMG
    ///
    /// The log tells each tenth that is copied, and why the copy waits: for the server of IMG, or
    /// because the host has less than 64 MiB left. At any time, `diskfs qemu-img info -U FILE` shows
    /// the size of the overlay, and its backing file until the copy is complete.
    #[arg(long, requires = "overlay")]
    background_copy: bool,
}

impl OverlayArgs {
    /// Prepares the copy that the user wants.
    pub(super) fn prepare_copy(&self, disk: &Disk) -> Result<Option<OverlayCopy>> {
        let copy = self.background_copy.then(|| OverlayCopy::of(disk));
        copy.transpose()
    }
}

/// A copy into an overlay, in its own thread. The thread ends when the program does.
pub(super) struct OverlayCopy {
    copy: BackgroundCopy,
    overlay: PathBuf,
    /// True after the log has told how the copy ended.
    has_ended: Arc<AtomicBool>,
}

impl OverlayCopy {
    fn of(disk: &Disk) -> Result<Self> {
        Ok(Self {
            copy: disk.background_copy()?,
            // A server in the background has another working directory.
            overlay: std::path::absolute(disk.path())?,
            has_ended: Arc::default(),
        })
    }

    /// Starts to copy, and shows the progress in this way, or else in the log.
    pub(super) fn start(&self, shown: ProgressMode) -> Result<()> {
        let (copy, overlay) = (self.copy.clone(), self.overlay.clone());
        let has_ended = Arc::clone(&self.has_ended);
        thread::Builder::new()
            .name("copy".to_owned())
            .spawn(move || {
                let end = run(&copy, &overlay, &mut CopyProgress::new(&overlay, shown));
                has_ended.fetch_or(end == End::Told, Ordering::AcqRel);
            })?;
        Ok(())
    }

    /// Lets the thread change nothing any more. The disk can be closed then.
    pub(super) fn stop(&self) {
        self.copy.stop();
        if !self.has_ended.swap(true, Ordering::AcqRel) {
            let overlay = self.overlay.display();
            tracing::info!(
                target: WORK,
                "{overlay}: the copy was stopped, and is not complete; the same command continues it"
            );
        }
    }
}

/// The end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The copy is complete or has failed, and the log says so.
    Told,
    /// The copy was stopped by the end of the server.
    Stopped,
}

/// Copies until all is copied. Failures of the server, or of a full disk, may pass.
fn run(copy: &BackgroundCopy, overlay: &Path, progress: &mut CopyProgress<'_>) -> End {
    let mut wait = FIRST_WAIT;
    loop {
        let mut has_begun = false;
        let copied = attempt(copy, overlay, &mut |bytes, total| {
            progress.update(bytes, total, !has_begun);
            has_begun = true;
        });
        let overlay = overlay.display();
        if has_begun {
            wait = FIRST_WAIT;
        }
        match copied {
            Ok(()) => {
                progress.finish();
                tracing::info!(
                    target: WORK,
                    "{overlay}: the copy is complete; no backing file is needed now"
                );
                return End::Told;
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => return End::Stopped,
            Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace) => {
                let (seconds, reason) = (wait.as_secs(), with_reasons(&error));
                let step = if error.kind() == ErrorKind::NoSpace {
                    "; free space there"
                } else {
                    ""
                };
                tracing::warn!(
                    target: WORK,
                    "{overlay}: the copy goes on in {seconds} s: {reason}{step}"
                );
            }
            Err(error) => {
                let reason = with_reasons(&error);
                tracing::warn!(
                    target: WORK,
                    "{overlay}: the copy has ended, and is not complete: {reason}; unmount or stop \
                     the export, and repeat the command to continue"
                );
                return End::Told;
            }
        }
        thread::sleep(wait);
        wait = LONGEST_WAIT.min(wait.saturating_mul(2));
    }
}

/// Copies until all is copied, or the host has only the reserved space left.
fn attempt(
    copy: &BackgroundCopy,
    overlay: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> block::Result<()> {
    let room = || match statvfs(overlay) {
        Ok(host) if host.f_bavail.saturating_mul(host.f_frsize) < RESERVED_BYTES => {
            let least = units(RESERVED_BYTES);
            let reason = format!("less than {least} of space left on the host");
            Err(block::Error::new(ErrorKind::NoSpace, reason))
        }
        _ => Ok(()),
    };
    room()?;
    let mut has_room = Ok(());
    let copied = copy.run(&mut |bytes, total| {
        progress(bytes, total);
        has_room = room();
        match has_room {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    has_room.and(copied)
}

/// The progress of a copy, also over several attempts: a bar or JSON, or else lines of the log.
struct CopyProgress<'a> {
    overlay: &'a Path,
    mode: ProgressMode,
    shown: Option<Progress>,
    /// The number of bytes to copy at the first attempt.
    total_bytes: u64,
    /// The number of bytes that were left at the start of this attempt, and those copied since.
    attempt: (u64, u64),
    /// The last tenth that was logged.
    tenth: Option<u64>,
}

impl<'a> CopyProgress<'a> {
    fn new(overlay: &'a Path, mode: ProgressMode) -> Self {
        Self {
            overlay,
            mode,
            shown: None,
            total_bytes: 0,
            attempt: (0, 0),
            tenth: None,
        }
    }

    /// Counts bytes of an attempt that copies `left_bytes` in all.
    fn update(&mut self, bytes: u64, left_bytes: u64, is_first: bool) {
        if is_first {
            self.attempt = (left_bytes, 0);
            self.total_bytes = self.total_bytes.max(left_bytes);
        }
        self.attempt.1 = self.attempt.1.saturating_add(bytes);
        let left = self.attempt.0.saturating_sub(self.attempt.1);
        let done = self.total_bytes.saturating_sub(left);
        let total = Some(self.total_bytes);
        let shown = self
            .shown
            .get_or_insert_with(|| Progress::new(self.mode, total));
        shown.set(0, done);
        if !shown.is_shown() {
            self.log(done);
        }
    }

    fn log(&mut self, done: u64) {
        let tenths = done.saturating_mul(10).checked_div(self.total_bytes);
        if tenths > self.tenth {
            self.tenth = tenths;
            let (overlay, total) = (self.overlay.display(), units(self.total_bytes));
            let percent = tenths.unwrap_or(0).saturating_mul(10);
            tracing::info!(target: WORK, "{overlay}: copied {percent} % of {total}");
        }
    }

    fn finish(&mut self) {
        if let Some(shown) = self.shown.take() {
            shown.finish();
        }
    }
}
