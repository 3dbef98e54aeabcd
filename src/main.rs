//! The `diskfs` program: parses, runs, and answers with an exit code.

mod cli;

use std::process::ExitCode;

use clap::FromArgMatches;

fn main() -> ExitCode {
    let matches = cli::definition().get_matches();
    match cli::Cli::from_arg_matches(&matches) {
        Ok(args) => ExitCode::from(cli::run(&args)),
        Err(error) => error.exit(),
    }
}
