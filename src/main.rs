//! The `diskfs` program: parses, runs, and answers with an exit code.

mod cli;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches = cli::definition().try_get_matches_from(&words);
    let parsed = matches.and_then(|matches| cli::Cli::from_arg_matches(&matches));
    ExitCode::from(match parsed {
        Ok(args) => cli::run(&args),
        Err(error) => cli::refuse(&error, &words),
    })
}
