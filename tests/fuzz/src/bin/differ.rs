//! Compares our readers with other programs on random images, for a given time.
//!
//! A case is identified by a number: the same number and seed give the same image. The image of a
//! finding is kept in `artifacts`.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use diskfs_fuzz::differential::{Pair, Tally, Verdict};
use diskfs_fuzz::random::Random;

const USAGE: &str = "\
Compares our readers with other programs on random images.

  differ [--seconds N] [--cases N] [--pair NAME] [--seed N] [--first N]

  --seconds N    run each pair for N seconds (10)
  --cases N      run N cases of each pair instead
  --pair NAME    gpt, qcow2 or ext4 only
  --seed N       another run with other cases (1)
  --first N      begin with case N (0)
";

/// The number of findings after which a pair stops.
const MAX_FINDINGS: usize = 10;

/// The parsed command line.
#[derive(Debug, Clone)]
struct Arguments {
    time: Duration,
    cases: u64,
    pairs: Vec<Pair>,
    seed: u64,
    first: u64,
}

impl Arguments {
    fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut parsed = Self {
            time: Duration::from_secs(10),
            cases: u64::MAX,
            pairs: Pair::ALL.to_vec(),
            seed: 1,
            first: 0,
        };
        let mut arguments = arguments.into_iter();
        while let Some(option) = arguments.next() {
            let value = arguments
                .next()
                .with_context(|| format!("missing value for {option}\n\n{USAGE}"))?;
            match option.as_str() {
                "--seconds" => parsed.time = Duration::from_secs(value.parse()?),
                "--cases" => (parsed.cases, parsed.time) = (value.parse()?, Duration::MAX),
                "--seed" => parsed.seed = value.parse()?,
                "--first" => parsed.first = value.parse()?,
                "--pair" => {
                    parsed.pairs.retain(|pair| pair.name() == value);
                    if parsed.pairs.is_empty() {
                        bail!("unknown pair `{value}`\n\n{USAGE}");
                    }
                }
                _ => bail!("unknown option `{option}`\n\n{USAGE}"),
            }
        }
        Ok(parsed)
    }
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let mut code = ExitCode::SUCCESS;
    for &pair in &arguments.pairs {
        if let Some(program) = pair.programs().iter().find(|name| !is_installed(name)) {
            println!("SKIP: differ: {}: {program} is not installed", pair.name());
            if std::env::var_os("CI").is_some_and(|value| value == "true") {
                code = ExitCode::FAILURE;
            }
        } else if !run(pair, &arguments)? {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    places
        .into_iter()
        .any(|place| place.join(program).is_file())
}

/// Runs the cases of a pair; returns true if there were no findings.
fn run(pair: Pair, arguments: &Arguments) -> Result<bool> {
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut findings = BTreeMap::new();
    for number in arguments.first..arguments.first.saturating_add(arguments.cases) {
        if started.elapsed() >= arguments.time || findings.len() >= MAX_FINDINGS {
            break;
        }
        let directory = scratch()?;
        let mut random = Random::of_case(arguments.seed, number);
        let verdict = case(pair, &mut random, directory.path())
            .with_context(|| format!("{} case {number}", pair.name()))?;
        tally.add(&verdict);
        if let Verdict::Different(what) = verdict {
            keep(pair, arguments.seed, number, directory.path())?;
            findings.insert(number, what);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{}: {tally}\n  {} findings in {seconds:.0} s",
        pair.name(),
        findings.len()
    );
    for (number, what) in &findings {
        println!(
            "{}: case {number}: {what}\n  again: cargo run -p diskfs-fuzz --bin differ -- --pair {} \
             --seed {} --first {number} --cases 1",
            pair.name(),
            pair.name(),
            arguments.seed
        );
    }
    Ok(findings.is_empty())
}

/// Runs a case. A panic of ours is a difference, too.
fn case(pair: Pair, random: &mut Random, directory: &Path) -> Result<Verdict> {
    catch_unwind(AssertUnwindSafe(|| pair.run(random, directory)))
        .unwrap_or_else(|_| Ok(Verdict::Different("a panic".to_owned())))
}

/// Returns a directory in memory if possible, because the images are short-lived.
fn scratch() -> Result<tempfile::TempDir> {
    Ok(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?)
}

/// Copies the files of a case to `artifacts`.
fn keep(pair: Pair, seed: u64, number: u64, directory: &Path) -> Result<()> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let kept = here.join(format!("artifacts/differ-{}-{seed}-{number}", pair.name()));
    std::fs::create_dir_all(&kept)?;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), kept.join(entry.file_name()))?;
        }
    }
    Ok(())
}
