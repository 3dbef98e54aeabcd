//! The command `diskfs completions`, and the hidden command that the completion scripts call.

mod candidates;
pub(super) mod words;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use diskfs::Result;

use super::options::ImageArgs;
use super::sandbox::Needs;
use super::session::{Session, stdout};

/// Print the completion script of a shell
///
/// In bash, zsh and fish, the script also completes paths in images, volumes, snapshots and the
/// steps of plans.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs completions bash > /etc/bash_completion.d/diskfs
  diskfs completions zsh > ~/.zfunc/_diskfs")]
pub(super) struct Completions {
    /// The shell to print the script for
    shell: Shell,
}

/// Print the completions of the last word of a command line; called by completion scripts
#[derive(Debug, Args)]
#[command(hide = true)]
pub(super) struct Complete {
    /// The shell whose script calls
    shell: CompletionShell,

    /// The command line up to the cursor
    #[arg(allow_hyphen_values = true)]
    line: OsString,
}

impl Complete {
    /// Returns the files of the host that the command uses: the image of the command line.
    pub(super) fn needs(&self) -> Option<Needs<'_>> {
        let image = candidates::image(&words::split(self.line.as_bytes()))?;
        let options = ImageArgs::default();
        Some(Needs::reading_whole(&image.into(), &options))
    }
}

/// The shells whose completion scripts call this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompletionShell {
    /// Expects quoted words, without the part before the last colon
    Bash,
    /// Expects words as they are
    Zsh,
    /// Expects words as they are
    Fish,
}

/// Completion scripts for words that clap's scripts do not know, and ask the program for.
const BASH: &str = include_str!("complete/diskfs.bash");
const ZSH: &str = include_str!("complete/diskfs.zsh");
const FISH: &str = include_str!("complete/diskfs.fish");

pub(super) fn run(args: &Completions, _: &mut Session) -> Result<()> {
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

pub(super) fn answer(args: &Complete, _: &mut Session) -> Result<()> {
    let words = words::split(args.line.as_bytes());
    let mut out = stdout()?;
    for word in candidates::candidates(&words) {
        // Candidates are separated by newlines, so a word with a newline cannot be offered.
        if word.contains(&b'\n') {
            continue;
        }
        let word = match args.shell {
            CompletionShell::Bash => words::for_bash(&word),
            CompletionShell::Zsh | CompletionShell::Fish => word,
        };
        out.write_all(&[&word, &b"\n"[..]].concat())?;
    }
    Ok(out.flush()?)
}
