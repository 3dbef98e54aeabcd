//! Large numbers: files of a directory, files of a filesystem, bytes of a file, mounts, and images
//! that are open at once. Each case repeats an operation, and checks that its time, the memory and
//! the descriptors are as in the beginning.

mod case;
mod directory;
mod image;
mod images;
mod large_file;
mod level;
mod mounts;
mod names;
mod opened;
mod processor_clock;
mod track;
mod tree;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{machine, program};
use case::{Case, Setting};

/// The number of times that an operation may take longer in the last decade than in the first.
const TIME_FACTOR: f64 = 4.0;

/// The options of `scale`.
#[derive(Debug, Args)]
pub(crate) struct Scale {
    /// Run only cases whose name contains one of these (directory, directory-mounted, tree-raw,
    /// tree-qcow2, large-file, mounts, mounts-at-once, images)
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Number of files, mounts or images, instead of each case's own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Fail if the last decade of an operation takes this many times as long as the first
    #[arg(long, value_name = "FACTOR", default_value_t = TIME_FACTOR)]
    factor: f64,

    /// Count processor time alone, because other programs make this machine slow
    #[arg(long)]
    busy: bool,

    /// Directory for the images, which are removed; they need up to 8 GB [default: TMPDIR]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Program that mounts, instead of the one built from this checkout
    #[arg(long, value_name = "PROGRAM")]
    diskfs: Option<PathBuf>,
}

impl Scale {
    /// Runs the chosen cases, and prints a table.
    pub(crate) fn run(&self) -> Result<()> {
        let setting = Setting {
            dir: self.dir.clone().unwrap_or_else(std::env::temp_dir),
            diskfs: match &self.diskfs {
                Some(program) => program.clone(),
                None => program::build()?,
            },
            slower: track::Slower {
                factor: self.factor,
                is_busy: self.busy,
            },
        };
        print(&track::head());
        let mut failed = 0;
        for case in case::all() {
            let is_chosen = |name: &String| case.name.contains(name.as_str());
            if !self.names.is_empty() && !self.names.iter().any(is_chosen) {
                continue;
            }
            if let Err(error) = run(case, self.count.unwrap_or(case.count), &setting) {
                failed += 1;
                print(&format!("\n{}: {error:#}\n", case.name));
            }
        }
        print(&format!("\n{}", machine::describe()));
        ensure!(failed == 0, "{failed} cases failed (see above)");
        Ok(())
    }
}

/// Runs a case and prints its rows.
fn run(case: &Case, count: u64, setting: &Setting) -> Result<()> {
    let prefix = format!("diskfs-scale-{}-", case.name);
    let dir = tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir_in(&setting.dir)
        .with_context(|| setting.dir.display().to_string())?;
    let mut run = case::Run::new(case, count, dir.path(), setting, &print);
    (case.run)(&mut run)
}

fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
