//! Comparison of our readers with other programs, on random images with valid checksums.
//!
//! A case builds an image in the form of its format, most of it valid, and writes it to a file. Our
//! reader and the other program then read the file. Each difference is a finding, except those that
//! a [`Rule`] names with its reason. A rule describes a property of the image or of a program's
//! answer. No rule names a single input.

mod ext4;
mod ext4_image;
mod gpt;
mod gpt_image;
mod qcow2;
mod qcow2_image;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result};

use crate::Sparse;
use crate::random::Random;

/// A reader of ours, and the program that it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pair {
    /// Our partition list of a GPT, and that of `sfdisk --json`.
    Gpt,
    /// Our map and contents of a qcow2 image, and those of `qemu-img`.
    Qcow2,
    /// Our tree of an ext2, ext3 or ext4 filesystem, and that of debugfs.
    Ext4,
}

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Both read the image, and their results are equal.
    Same,
    /// Both refuse the image.
    Refused,
    /// The results differ for the reasons that these rules name, and agree in everything else.
    Excused(Vec<Rule>),
    /// The results differ. The text says in what.
    Different(String),
}

/// A difference that is not an error of either program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// The name of the rule in reports.
    pub name: &'static str,
    /// The reason why both results are right, or why ours is.
    pub reason: &'static str,
}

impl Verdict {
    /// Returns the verdict for equal results, which may need rules.
    fn read(mut rules: Vec<Rule>) -> Self {
        if rules.is_empty() {
            return Self::Same;
        }
        rules.sort_unstable();
        rules.dedup();
        Self::Excused(rules)
    }
}

impl Pair {
    /// All pairs.
    pub const ALL: [Self; 3] = [Self::Gpt, Self::Qcow2, Self::Ext4];

    /// Returns the name of the pair for the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpt => "gpt",
            Self::Qcow2 => "qcow2",
            Self::Ext4 => "ext4",
        }
    }

    /// Returns the programs that the cases run.
    pub const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Gpt => &["sfdisk"],
            Self::Qcow2 => &["qemu-img", "qemu-io"],
            Self::Ext4 => &["mke2fs", "debugfs", "e2fsck"],
        }
    }

    /// Builds the image of a case in `directory`, and compares the results.
    ///
    /// # Errors
    /// Fails if the image cannot be built or a program cannot be started.
    pub fn run(self, random: &mut Random, directory: &Path) -> Result<Verdict> {
        match self {
            Self::Gpt => gpt::compare(random, directory),
            Self::Qcow2 => qcow2::compare(random, directory),
            Self::Ext4 => ext4::compare(random, directory),
        }
    }
}

/// The number of cases with each verdict.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    cases: u64,
    same: u64,
    refused: u64,
    rules: BTreeMap<Rule, u64>,
}

impl Tally {
    /// Adds the verdict of a case.
    pub fn add(&mut self, verdict: &Verdict) {
        self.cases += 1;
        match verdict {
            Verdict::Same => self.same += 1,
            Verdict::Refused => self.refused += 1,
            Verdict::Excused(rules) => {
                for rule in rules {
                    *self.rules.entry(*rule).or_default() += 1;
                }
            }
            Verdict::Different(_) => {}
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} cases, {} read equally, {} refused by both",
            self.cases, self.same, self.refused
        )?;
        for (rule, count) in &self.rules {
            write!(f, "\n  {count} with `{}`: {}", rule.name, rule.reason)?;
        }
        Ok(())
    }
}

/// The time limit of a program in seconds. e2fsck runs for minutes on some invalid sizes.
const TIME_LIMIT: &str = "20";

/// Returns a program's command with a time limit. Its language and clock are the same in each run.
fn command(program: &str) -> Command {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", TIME_LIMIT, program]);
    command.env("PATH", path).env("LC_ALL", "C.UTF-8");
    command.env("E2FSPROGS_FAKE_TIME", "1700000000");
    command.stdin(Stdio::null());
    command
}

/// Runs a program to its end, whether or not it fails.
fn output(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| format!("{command:?}"))
}

/// Writes an image to a sparse file.
fn write_image(path: &Path, image: &Sparse) -> Result<()> {
    use diskfs_block::BlockRead;
    use std::os::unix::fs::FileExt;

    let file = std::fs::File::create(path)?;
    file.set_len(image.size_bytes())?;
    for offset in image.block_offsets() {
        let len = (image.size_bytes() - offset).min(4096);
        let mut block = vec![0; usize::try_from(len)?];
        image.read_at(offset, &mut block)?;
        file.write_all_at(&block, offset)?;
    }
    Ok(())
}
