//! The cases, and the state of one that runs.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::level::{Level, Meter};
use super::track::{Limits, Phase, Slower};
use super::{directory, images, large_file, mounts, tree};

/// The options that all cases share.
#[derive(Debug)]
pub(super) struct Setting {
    /// The directory for the images.
    pub(super) dir: PathBuf,
    /// The program that mounts.
    pub(super) diskfs: PathBuf,
    /// The limits of the time of the last decade.
    pub(super) slower: Slower,
}

/// A case: an operation that is repeated often.
#[derive(Debug)]
pub(super) struct Case {
    /// The name on the command line.
    pub(super) name: &'static str,
    /// The number of repetitions.
    pub(super) count: u64,
    /// The number of repetitions that the others are compared with.
    pub(super) first: u64,
    pub(super) run: fn(&mut Run<'_>) -> Result<()>,
}

const fn case(
    name: &'static str,
    count: u64,
    first: u64,
    run: fn(&mut Run<'_>) -> Result<()>,
) -> Case {
    Case {
        name,
        count,
        first,
        run,
    }
}

/// Returns all cases.
pub(super) fn all() -> &'static [Case] {
    const ALL: &[Case] = &[
        case("directory", 1_000_000, 10_000, directory::by_library),
        case("directory-mounted", 1_000_000, 10_000, directory::by_mount),
        case("tree-raw", 10_000_000, 1000, tree::in_raw),
        case("tree-qcow2", 10_000_000, 1000, tree::in_qcow2),
        case("large-file", 100_000, 1000, large_file::run),
        case("mounts", 2_000, 20, mounts::one_after_another),
        case("mounts-at-once", 200, 20, mounts::at_once),
        case("images", 500, 5, images::run),
    ];
    ALL
}

/// A case that runs.
pub(super) struct Run<'a> {
    case: &'a Case,
    /// The number of repetitions.
    pub(super) count: u64,
    /// An empty directory, which is removed afterwards.
    pub(super) dir: &'a Path,
    /// The options.
    pub(super) setting: &'a Setting,
    print: &'a dyn Fn(&str),
}

impl<'a> Run<'a> {
    /// Returns the run of a case. `print` gets each row of the table.
    pub(super) fn new(
        case: &'a Case,
        count: u64,
        dir: &'a Path,
        setting: &'a Setting,
        print: &'a dyn Fn(&str),
    ) -> Self {
        Self {
            case,
            count,
            dir,
            setting,
            print,
        }
    }

    /// Repeats an operation, prints its decades, and checks that they are flat. The operation gets
    /// the number of those before it.
    pub(super) fn repeat(
        &self,
        title: &str,
        meter: Meter,
        count: u64,
        operation: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        self.repeat_within(title, meter, count, Limits::default(), operation)
    }

    /// Does the same as [`repeat`](Self::repeat), with limits for what each repetition keeps.
    pub(super) fn repeat_within(
        &self,
        title: &str,
        meter: Meter,
        count: u64,
        limits: Limits,
        operation: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let before = Level::of(meter)?;
        let first = self.case.first.min(self.count / 10);
        let level = || Level::of(meter);
        let processor_time = || meter.processor_time();
        let phase = Phase::measure(count, first, level, processor_time, operation)?;
        phase.print(self.case.name, title, self.print);
        phase.check(title, before, limits, self.setting.slower)
    }

    /// Prints a fact beside the table.
    pub(super) fn say(&self, fact: &str) {
        (self.print)(&format!("| {} | {fact} | | | | | | | |", self.case.name));
    }
}
