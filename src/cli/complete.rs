//! `diskfs completions`, and what its scripts ask for.

mod candidates;
mod words;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use diskfs::Result;

use super::session::stdout;

/// Print completions for a shell
///
/// In bash, zsh and fish they offer paths in images, volumes, snapshots and the steps of plans, too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs completions bash > /etc/bash_completion.d/diskfs
  diskfs completions zsh > ~/.zfunc/_diskfs")]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

/// Print what the last word of a line can become; scripts of completions ask for it
#[derive(Debug, Args)]
pub(super) struct Complete {
    /// The shell that asks
    shell: Asking,

    /// The line up to the cursor
    #[arg(allow_hyphen_values = true)]
    line: OsString,
}

/// Shells whose scripts ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Asking {
    /// Wants words without what is before the last colon, quoted
    Bash,
    /// Wants words as they are
    Zsh,
    /// The same
    Fish,
}

/// What the scripts of clap don't know: words that the program itself must be asked for.
const BASH: &str = include_str!("complete/diskfs.bash");
const ZSH: &str = include_str!("complete/diskfs.zsh");
const FISH: &str = include_str!("complete/diskfs.fish");

pub(super) fn run(args: &Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::definition(), "diskfs", &mut script);
    let more = match args.shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => "",
    };
    let mut out = stdout()?;
    out.write_all(&script)?;
    out.write_all(more.as_bytes())?;
    Ok(out.flush()?)
}

pub(super) fn answer(args: &Complete) -> Result<()> {
    let words = words::split(args.line.as_bytes());
    let mut out = stdout()?;
    for word in candidates::candidates(&words) {
        // A line is a candidate: what would be several can't be offered.
        if word.contains(&b'\n') {
            continue;
        }
        let word = match args.shell {
            Asking::Bash => words::for_bash(&word),
            Asking::Zsh | Asking::Fish => word,
        };
        out.write_all(&[&word, &b"\n"[..]].concat())?;
    }
    Ok(out.flush()?)
}
