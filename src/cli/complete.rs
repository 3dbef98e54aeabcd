//! `diskfs completions`.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use diskfs::Result;

use super::session::stdout;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs completions bash > /etc/bash_completion.d/diskfs
  diskfs completions zsh > ~/.zfunc/_diskfs")]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::definition(), "diskfs", &mut script);
    let mut out = stdout()?;
    out.write_all(&script)?;
    Ok(out.flush()?)
}
