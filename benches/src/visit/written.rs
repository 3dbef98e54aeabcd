//! What the visits that write share: a new filesystem for each, and work that is over when it is
//! durable.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Record, mebibytes, milliseconds};
use crate::contender::Contender;
use crate::mount::Mount;
use crate::rig::Rig;

/// A contender that writes into an image of its own.
pub(super) struct Writer<'a> {
    rig: &'a Rig,
    contender: &'a dyn Contender,
}

/// What a piece of work took, and its result.
pub(super) struct Timed<R> {
    /// From the start of the work to the end of the unmount: a server's flush is part of it.
    pub(super) wall: Duration,
    /// Of the server, at the end of the work.
    pub(super) peak_memory_mib: Option<f64>,
    pub(super) result: R,
}

impl<'a> Writer<'a> {
    /// Makes the contender's image anew, with an empty filesystem; `None` when it writes none.
    pub(super) fn on_empty(rig: &'a Rig, contender: &'a dyn Contender) -> Result<Option<Self>> {
        if !contender.writes() {
            return Ok(None);
        }
        rig.make_empty(contender)?;
        Ok(Some(Self { rig, contender }))
    }

    /// Mounts the image, does the work, and unmounts: then all of it is durable.
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

    /// The same, recorded in milliseconds.
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
