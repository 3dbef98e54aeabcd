//! The copying of a file.

use std::time::{Duration, Instant};

use diskfs::objects::Download;
use diskfs::{Error, Result};

use super::target::NewTarget;
use crate::cli::ProgressMode;
use crate::cli::checksum::{Checksum, Hasher};
use crate::cli::progress::Progress;

/// The least number of bytes, and the least time, between two records. Each flushes the file.
const RECORD_BYTES: u64 = 16 << 20;
const RECORD_PERIOD: Duration = Duration::from_secs(1);

/// The time and the place of the last record.
struct Recorded {
    time: Instant,
    done_bytes: u64,
}

/// Copies a file, checks it, and gives it its name.
pub(super) fn run(
    download: &Download,
    mut target: NewTarget,
    checksum: Option<&Checksum>,
    progress: ProgressMode,
) -> Result<()> {
    let mut progress = Progress::new(progress, Some(download.size_bytes()));
    let mut hasher = checksum.map(Checksum::hasher);
    if let Some(hasher) = &mut hasher {
        target.read_done(&mut |bytes| hasher.update(bytes))?;
    }
    progress.advance(target.done_bytes());
    copy(download, &mut target, hasher.as_mut(), &mut progress)?;
    progress.finish();
    if let Some((checksum, hasher)) = checksum.zip(hasher)
        && let Err(error) = checksum.check(hasher)
    {
        target.discard();
        return Err(error.with_hint("nothing was stored"));
    }
    target.finish()
}

fn copy(
    download: &Download,
    target: &mut NewTarget,
    mut hasher: Option<&mut Hasher>,
    progress: &mut Progress,
) -> Result<()> {
    let mut recorded = Recorded {
        time: Instant::now(),
        done_bytes: target.done_bytes(),
    };
    let copied = download.read_from(target.done_bytes(), |bytes| {
        if let Some(hasher) = &mut hasher {
            hasher.update(bytes);
        }
        target.add(bytes)?;
        progress.advance(bytes.len() as u64);
        if target.is_resumable() && recorded.is_due(target) {
            target.record()?;
            recorded = Recorded {
                time: Instant::now(),
                done_bytes: target.done_bytes(),
            };
        }
        Ok(())
    });
    copied.map_err(|error: Error| {
        if !target.is_resumable() {
            return error;
        }
        // What is there is kept for the next call, as far as the host can store it.
        let _ = target.record();
        error.with_hint("the same call continues the copy")
    })
}

impl Recorded {
    fn is_due(&self, target: &NewTarget) -> bool {
        let more = target.done_bytes() - self.done_bytes;
        more >= RECORD_BYTES && self.time.elapsed() >= RECORD_PERIOD
    }
}
