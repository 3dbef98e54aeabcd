//! The visits: measurements that each contender gets, one per file. A visit fills one or more rows.

mod commands;
mod creates;
mod deploy;
mod find;
mod first_byte;
mod inspect;
mod large_write;
mod make;
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
use crate::samples::to_float;

/// The milliseconds that a microVM may take for 1 GiB: 500 MB/s when reading, 300 MB/s when
/// writing.
const READ_TARGET_MS: f64 = 2147.0;
const WRITTEN_TARGET_MS: f64 = 3579.0;

/// A small file that every Debian has.
const SMALL_FILE: &str = "etc/os-release";

/// The unit of a row's figures, which also says which direction is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The wall time in milliseconds.
    Milliseconds,
    /// The number of 4 KiB reads per second; more is better, as with all rates.
    ReadsPerSecond,
    /// The number of 4 KiB writes per second.
    WritesPerSecond,
    /// The number of files made per second.
    FilesPerSecond,
    /// The number of images per second.
    ImagesPerSecond,
    /// The size in MiB, of memory or of reads.
    Mebibytes,
    /// The bytes read from the image for each requested byte.
    BytesPerByte,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name in JSON.
    pub(crate) key: &'static str,
    /// The name in the table.
    pub(crate) title: &'static str,
    /// The unit of its figures.
    pub(crate) unit: Unit,
    /// The target of diskfs' own drivers: the highest ratio to the kernel's mount of the raw image.
    pub(crate) target: Option<f64>,
    /// The target for User Mode Linux, as an absolute figure.
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

/// A measurement that each contender gets.
pub(crate) trait Visit: Debug {
    /// Returns the name for `--visits`.
    fn name(&self) -> &'static str;

    /// Returns the rows that it fills.
    fn rows(&self) -> &'static [Row];

    /// Measures `contender` once, and passes each figure to `record` with the row's key.
    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()>;
}

/// The callback that records a visit's figures.
pub(crate) type Record<'a> = dyn FnMut(&'static str, f64) + 'a;

/// Returns all visits, in the order of the table.
pub(crate) fn all() -> [&'static dyn Visit; 13] {
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
        &make::Make,
    ]
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
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
