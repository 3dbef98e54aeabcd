//! `diskfs seed sysprep`: answer files of Windows Setup.

use std::path::PathBuf;

use clap::Args;
use diskfs::{Error, ErrorKind, Result};

use super::{OutputArgs, Seed, file, input, lint};

/// Make a disk with answer files for Windows Setup, with the label unattendCD
///
/// Windows Setup reads autounattend.xml when it installs, and unattend.xml when a generalised system
/// starts for the first time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs seed sysprep --autounattend answers.xml -o install.iso
  diskfs seed sysprep --unattend unattend.xml -o start.iso")]
pub(super) struct Sysprep {
    /// The answers for an installation, stored as autounattend.xml
    #[arg(long, value_name = "FILE")]
    autounattend: Option<PathBuf>,

    /// The answers for the first start of a generalised system, stored as unattend.xml
    #[arg(long, value_name = "FILE")]
    unattend: Option<PathBuf>,

    #[command(flatten)]
    output: OutputArgs,
}

impl Sysprep {
    /// Returns the seed.
    pub(super) fn seed(&self) -> Result<Seed<'_>> {
        let mut files = Vec::new();
        let answers = [
            ("autounattend.xml", &self.autounattend),
            ("unattend.xml", &self.unattend),
        ];
        for (name, path) in answers {
            if let Some(path) = path {
                let text = input::read(path)?;
                lint::answers(path, &text)?;
                files.push(file(name, text));
            }
        }
        if files.is_empty() {
            let error = Error::new(ErrorKind::Invalid, "missing answer file");
            return Err(error.with_hint("give --autounattend FILE or --unattend FILE"));
        }
        Ok(Seed {
            kind: "sysprep",
            label: "unattendCD",
            files,
            warnings: Vec::new(),
            output: &self.output,
        })
    }
}
