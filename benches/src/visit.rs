//! What is measured on each contender, one visit per file. A visit fills one or more rows.

mod commands;
mod creates;
mod deploy;
mod find;
mod first_byte;
mod inspect;
mod large_write;
mod overlays;
mod random;
mod sequential;
mod session;
mod tar;
mod tree;
mod written;

use std::fmt::Debug;
use std::time::Duration;

use anyhow::Result;

use crate::contender::Contender;
use crate::rig::Rig;

/// The milliseconds that it may take through a machine: 500 MB/s read, and 300 MB/s written.
const READ_TARGET_MS: f64 = 2147.0;
const WRITTEN_TARGET_MS: f64 = 3579.0;

/// A small file that every Debian has.
const SMALL_FILE: &str = "etc/os-release";

/// What a row's figures are, and which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds of wall time.
    Milliseconds,
    /// 4 KiB reads in a second: more is better, as with all that are per second.
    ReadsPerSecond,
    /// 4 KiB writes in a second.
    WritesPerSecond,
    /// Files made in a second.
    FilesPerSecond,
    /// Images in a second.
    ImagesPerSecond,
    /// MiB of memory, or read.
    Mebibytes,
    /// Bytes read from the image per byte asked for.
    BytesPerByte,
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name in JSON.
    pub(crate) key: &'static str,
    /// Its name in the table.
    pub(crate) title: &'static str,
    /// What its figures are.
    pub(crate) unit: Unit,
    /// The ratio to the kernel's mount of the raw image that diskfs is to stay within by its own
    /// drivers.
    pub(crate) target: Option<f64>,
    /// The figure that is to be reached through User Mode Linux.
    pub(crate) machine_target: Option<f64>,
}

impl Row {
    const fn new(key: &'static str, title: &'static str, unit: Unit) -> Self {
        Self {
            key,
            title,
            unit,
            target: None,
            machine_target: None,
        }
    }

    const fn within(mut self, target: f64) -> Self {
        self.target = Some(target);
        self
    }

    const fn with_machine(mut self, target: f64) -> Self {
        self.machine_target = Some(target);
        self
    }
}

/// Something that is measured on each contender.
pub(crate) trait Visit: Debug {
    /// What `--visits` calls it.
    fn name(&self) -> &'static str;

    /// The rows that it fills.
    fn rows(&self) -> &'static [Row];

    /// Measures `contender` once; hands each figure to `record` with the row's key.
    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()>;
}

/// Where a visit's figures go.
pub(crate) type Record<'a> = dyn FnMut(&'static str, f64) + 'a;

/// All visits, in the order of the table.
pub(crate) fn all() -> [&'static dyn Visit; 12] {
    [
        &first_byte::FirstByte,
        &session::Session,
        &find::Find,
        &tar::Tar,
        &sequential::Sequential,
        &random::Random,
        &commands::Commands,
        &inspect::Inspect,
        &deploy::Deploy,
        &tree::Tree,
        &large_write::LargeWrite,
        &creates::Creates,
    ]
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[expect(
    clippy::cast_precision_loss,
    clippy::as_conversions,
    reason = "figures for a table; 53 bits are plenty"
)]
fn to_float(count: u64) -> f64 {
    count as f64
}

fn mebibytes(bytes: u64) -> f64 {
    to_float(bytes) / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique() {
        let mut keys: Vec<_> = all()
            .iter()
            .flat_map(|visit| visit.rows())
            .map(|row| row.key)
            .collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
