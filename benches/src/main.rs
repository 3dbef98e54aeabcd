//! Compares diskfs with the kernel and other programs, in one run.
//!
//! The program builds a Debian image once, mounts it by each contender in turn, does the same work
//! on each mount, and prints a table of medians and of ratios to the kernel's loop mount of the raw
//! image. `README.md` explains each row.

mod command;
mod contender;
mod filesystem;
mod image;
mod interrupt;
mod limit;
mod machine;
mod meter;
mod mount;
mod options;
mod process;
mod program;
mod report;
mod rig;
mod samples;
mod scale;
mod server;
mod visit;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::options::{Command, Options};

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "diskfs-benches: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    interrupt::install()?;
    limit::install(options.limit())?;
    machine::require_root()?;
    if let Some(Command::Scale(which)) = &options.command {
        return which.run();
    }
    let images = image::build_all(&options.cache_dir(), options.filesystem)?;
    if options.build_only {
        return Ok(());
    }
    let rig = rig::Rig::new(options, images)?;
    let samples = rig.run()?;
    let report = report::Report::new(&rig, &samples);
    let text = if options.json {
        report.to_json()?
    } else {
        report.to_markdown()
    };
    std::io::stdout().write_all(text.as_bytes())?;
    interrupt::check()?;
    let has_failed = samples.gaps().iter().any(|gap| !gap.is_cut_off);
    anyhow::ensure!(!has_failed, "some measurements failed (see above)");
    Ok(())
}
