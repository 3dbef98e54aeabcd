//! The `diskfs` program: parses the command line, runs the command, and returns an exit code.

mod cli;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;

/// The allocator of musl has one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    match cli::qemu_img::words(&words) {
        Some(words) => cli::qemu_img::run(words).into(),
        None => start(&words),
    }
}

#[cfg(feature = "fuse")]
fn start(words: &[OsString]) -> ExitCode {
    use cli::Invocation;
    match Invocation::with(words.to_vec()) {
        Invocation::AsIs(words) => run_as_is(&words),
        Invocation::AsHelper(words) => cli::helper_exit_code(run(&words)).into(),
        Invocation::Done(code) => code.into(),
    }
}

#[cfg(not(feature = "fuse"))]
fn start(words: &[OsString]) -> ExitCode {
    run_as_is(words)
}

/// Runs the command, or does the work of a process that another command has started. Such a process
/// starts before options and log.
fn run_as_is(words: &[OsString]) -> ExitCode {
    #[cfg(feature = "serve")]
    if words
        .get(1)
        .is_some_and(|word| word == diskfs::service::executor::WORKER)
    {
        return diskfs::service::executor::worker();
    }
    #[cfg(feature = "fuse")]
    if let Some(code) = cli::companion(words) {
        return code.into();
    }
    run(words).into()
}

fn run(words: &[OsString]) -> u8 {
    if version::is_answered(words) {
        return 0;
    }
    let parse = |definition: clap::Command| {
        let matches = definition.try_get_matches_from(words)?;
        cli::Cli::from_arg_matches(&matches)
    };
    // The messages and the help are those of the whole definition.
    let parsed = cli::parser(words).and_then(|parser| parse(parser).ok());
    match parsed.map_or_else(|| parse(cli::definition()), Ok) {
        Ok(args) => cli::run(&args),
        Err(error) => cli::refuse(&error, words),
    }
}
