//! The command line of `qemu-img`: `diskfs qemu-img ...`, or a link to the program by that name.
//!
//! Arguments, output and exit codes are those of qemu-img 10, so that programs which call it need
//! not be changed. What differs is listed in diskfs-qemu-img(1). The work is done by the same
//! functions as that of diskfs's own commands.

mod amend;
mod arguments;
mod bench;
mod bitmap;
mod check;
mod commit;
mod compare;
mod convert;
mod create;
mod dd;
mod failure;
mod info;
mod luks;
mod map;
mod measure;
mod names;
mod new_format;
mod progress;
mod rebase;
mod resize;
mod runner;
mod secret;
mod size;
mod snapshot;
mod specific;
mod target;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;

use clap::{Parser, Subcommand};

use failure::{Failure, Result};

/// The name under which the program is called.
const NAME: &str = "qemu-img";

/// The man page.
pub(super) const PAGE: &str = include_str!("qemu_img/diskfs-qemu-img.1");

/// The version of qemu-img whose behaviour this is. Programs compare it.
const QEMU_VERSION: &str = "10.0.2";

/// Create, convert and change disk images with the command line of qemu-img
#[derive(Debug, Parser)]
#[command(
    name = "qemu-img",
    bin_name = "qemu-img",
    disable_version_flag = true,
    infer_long_args = true,
    max_term_width = 100
)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
#[command(infer_long_args = true, disable_version_flag = true)]
enum Command {
    Amend(amend::Amend),
    Bench(bench::Bench),
    Bitmap(bitmap::Bitmap),
    Check(check::Check),
    Commit(commit::Commit),
    Compare(compare::Compare),
    Convert(convert::Convert),
    Create(create::Create),
    Dd(dd::Dd),
    Info(info::Info),
    Map(map::Map),
    Measure(measure::Measure),
    Rebase(rebase::Rebase),
    Resize(resize::Resize),
    Snapshot(snapshot::Snapshot),
}

/// Returns the words of a command line of qemu-img, the first of which is the program's name;
/// `None` for one of diskfs.
pub(crate) fn words(words: &[OsString]) -> Option<&[OsString]> {
    let (program, rest) = words.split_first()?;
    if Path::new(program).file_name() == Some(OsStr::new(NAME)) {
        return Some(words);
    }
    let is_command = rest.first().is_some_and(|word| word == NAME);
    is_command.then_some(rest)
}

/// Returns the definition of the command line.
#[cfg(test)]
pub(super) fn definition() -> clap::Command {
    <Program as clap::CommandFactory>::command()
}

/// Runs a command and returns the exit code.
pub(crate) fn run(words: &[OsString]) -> u8 {
    let done = parse(words).and_then(|command| command.map_or(Ok(0), Command::run));
    done.unwrap_or_else(|failure| failure.print())
}

/// Parses a command line; returns `None` if it asks for help or the version, which is printed.
fn parse(words: &[OsString]) -> Result<Option<Command>> {
    let named = words.get(1).and_then(|word| word.to_str()).unwrap_or("");
    if matches!(named, "--version" | "-V") {
        return print_version().map(|()| None);
    }
    match Program::try_parse_from(words) {
        Ok(program) => Ok(Some(program.command)),
        Err(error) if !error.use_stderr() => {
            let _ = error.print(); // A failure here cannot be reported.
            Ok(None)
        }
        Err(error) => Err(Failure::of_usage(&error, named)),
    }
}

fn print_version() -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = std::io::stdout().lock();
    writeln!(out, "qemu-img version {QEMU_VERSION} (diskfs {version})")?;
    Ok(out.flush()?)
}

impl Command {
    fn run(self) -> Result<u8> {
        match self {
            Self::Amend(args) => args.run(),
            Self::Bench(args) => args.run(),
            Self::Bitmap(args) => args.run(),
            Self::Check(args) => args.run(),
            Self::Commit(args) => args.run(),
            Self::Compare(args) => args.run(),
            Self::Convert(args) => args.run(),
            Self::Create(args) => args.run(),
            Self::Dd(args) => args.run(),
            Self::Info(args) => args.run(),
            Self::Map(args) => args.run(),
            Self::Measure(args) => args.run(),
            Self::Rebase(args) => args.run(),
            Self::Resize(args) => args.run(),
            Self::Snapshot(args) => args.run(),
        }
    }
}
