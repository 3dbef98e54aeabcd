//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::filesystem::Filesystem;
use crate::machine::Cold;
use crate::scale::Scale;

/// Compares diskfs with the kernel's loop mount, fuse2fs, qemu-storage-daemon and libguestfs on one
/// Debian image.
///
/// Needs root, to mount with the kernel and to drop its caches. The first run builds the image with
/// debootstrap, from the mirror that this machine's apt uses.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Directory of the images, which are kept between runs; missing ones are built [default:
    /// target/diskfs-cache/bench]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,

    /// Filesystem of the image
    #[arg(long, value_enum, default_value_t = Filesystem::Ext4)]
    pub(crate) filesystem: Filesystem,

    /// Number of repetitions of each measurement; the table shows the median
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,

    /// Use two repetitions and a quarter of the random reads: minutes instead of a quarter of an
    /// hour
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print JSON, with every sample, instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Caches to drop before a cold measurement: all of the machine's, or the image's
    #[arg(long, value_enum, default_value_t = Cold::Machine)]
    pub(crate) cold: Cold,

    /// Measure only contenders whose name contains one of these; the kernel's always runs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) contenders: Vec<String>,

    /// Measure only visits whose name contains one of these (first-byte, session, find, tar,
    /// sequential, random, commands, inspect, deploy, tree, write, creates,
    /// make)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) visits: Vec<String>,

    /// Time limit for one visit to one contender; a contender that exceeds it is stopped and gets
    /// no more figures of this visit
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    limit: u64,

    /// Program to measure, instead of the one built from this checkout
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) diskfs: Option<PathBuf>,

    /// Build the missing images, and exit
    #[arg(long)]
    pub(crate) build_only: bool,
}

/// Other measurements than the comparison.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check that time, memory and descriptors stay flat when numbers grow
    Scale(Scale),
}

impl Options {
    /// Returns the number of repetitions of each measurement.
    pub(crate) fn repetitions(&self) -> u32 {
        self.repeat.unwrap_or(if self.quick { 2 } else { 5 })
    }

    /// Returns the time limit of a visit.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.limit)
    }

    /// Returns the directory of the images.
    pub(crate) fn cache_dir(&self) -> PathBuf {
        self.cache.clone().unwrap_or_else(|| {
            let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
            root.join("target/diskfs-cache/bench")
        })
    }

    /// Returns true if a contender of this name takes part.
    pub(crate) fn wants_contender(&self, name: &str) -> bool {
        is_chosen(&self.contenders, name)
    }

    /// Returns true if a visit of this name takes part.
    pub(crate) fn wants_visit(&self, name: &str) -> bool {
        is_chosen(&self.visits, name)
    }
}

fn is_chosen(choices: &[String], name: &str) -> bool {
    choices.is_empty() || choices.iter().any(|choice| name.contains(choice.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }

    #[test]
    fn an_empty_choice_is_everything() {
        assert!(is_chosen(&[], "find"));
        assert!(is_chosen(&["tar".into(), "fi".into()], "find"));
        assert!(!is_chosen(&["tar".into()], "find"));
    }
}
