//! The common parts of the visits that write: each has a new filesystem, and its work ends when it
//! is durable.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Record, mebibytes, milliseconds};
use crate::contender::Contender;
use crate::mount::Mount;
use crate::rig::Rig;

/// A contender that writes to its own image.
pub(super) struct Writer<'a> {
    rig: &'a Rig,
    contender: &'a dyn Contender,
}

/// The time and the result of a piece of work.
pub(super) struct Timed<R> {
    /// The time from the start of the work to the end of the unmount, which includes a server's
    /// flush.
    pub(super) wall: Duration,
    /// The server's peak memory at the end of the work.
    pub(super) peak_memory_mib: Option<f64>,
    pub(super) result: R,
}

impl<'a> Writer<'a> {
    /// Creates the contender's image anew, with an empty filesystem; returns `None` if it can't
    /// write.
    pub(super) fn on_empty(rig: &'a Rig, contender: &'a dyn Contender) -> Result<Option<Self>> {
        if !contender.writes() {
            return Ok(None);
        }
        rig.make_empty(contender)?;
        Ok(Some(Self { rig, contender }))
    }

    /// Mounts the image, does the work, and unmounts: then everything is durable.
    pub(super) fn timed<R>(&self, work: impl FnOnce(&Mount) -> Result<R>) -> Result<Timed<R>> {
        let mount = self.rig.mount_for_writing(self.contender)?;
        let start = Instant::now();
        let result = work(&mount)?;
        let peak_memory_mib = mount
            .server_peak_memory_kib()
            .map(|kib| mebibytes(kib << 10));
        mount.unmount()?;
        Ok(Timed {
            wall: start.elapsed(),
            peak_memory_mib,
            result,
        })
    }

    /// Does the work like [`timed`](Self::timed), and records its milliseconds.
    pub(super) fn record(
        &self,
        key: &'static str,
        record: &mut Record<'_>,
        work: impl FnOnce(&Mount) -> Result<()>,
    ) -> Result<Option<f64>> {
        let timed = self.timed(work)?;
        record(key, milliseconds(timed.wall));
        Ok(timed.peak_memory_mib)
    }
}
