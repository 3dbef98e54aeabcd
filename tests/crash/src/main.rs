//! The crash harness as a program: the long run, and one failing case again.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use diskfs_crash::crash_points::Points;
use diskfs_crash::feature_set::{FeatureSet, SETS};
use diskfs_crash::layer::Layer;
use diskfs_crash::many::{Outcome, run_many};
use diskfs_crash::plan;
use diskfs_crash::session::{Report, Session};

/// How long `quick` begins new sessions for.
const QUICK: Duration = Duration::from_secs(150);

/// Crashes in a session of `quick`: more than 2,000 over all feature sets.
const QUICK_POINTS: usize = 130;

/// How many seeds `quick` takes: it does the same on every machine, but for what a slow one has no
/// time for. New ones are for `run`.
const QUICK_SEEDS: u64 = 2;

/// Crashes of a plan on each of its feature sets.
const PLAN_POINTS: usize = 25;

#[derive(Debug, Parser)]
#[command(about = "Random operations, a crash at any moment, and what e2fsck and the kernel say")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Operations on our writer and on the kernel's mount, crashes, and every judge.
    Run(Which),
    /// The same on every feature set, in 3 minutes.
    Quick {
        /// Where chance begins.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Operations on the kernel's mount alone, with snapshots for crashes: tests the harness.
    Kernel(Which),
    /// A plan of `diskfs deploy`, which is done or not.
    Plan {
        /// Where chance begins.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Crashes on each feature set.
        #[arg(long, default_value_t = PLAN_POINTS)]
        points: usize,
    },
    /// Prints the operations of a run.
    Show(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// The kind of filesystem; all of them without it.
    #[arg(long)]
    feature_set: Option<String>,
    /// Where chance begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many runs, with seeds that follow each other.
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// Operations in each run.
    #[arg(long, default_value_t = 500)]
    operations: usize,
    /// Crashes in each run.
    #[arg(long, default_value_t = 200)]
    points: usize,
    /// How many runs at a time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// In a qcow2 image with clusters of so many bytes.
    #[arg(long)]
    qcow2: Option<u32>,
    /// Leaves out all operations but these: 3,17,20.
    #[arg(long, value_delimiter = ',')]
    only: Vec<usize>,
    /// After a failure, looks for fewer operations that fail, too.
    #[arg(long)]
    reduce: bool,
}

fn main() -> ExitCode {
    let passed = match &Cli::parse().command {
        Command::Run(which) => which.each(Session::run),
        Command::Quick { seed } => {
            Ok(quick(*seed)).map(|passed| plans(*seed, PLAN_POINTS) && passed)
        }
        Command::Plan { seed, points } => Ok(plans(*seed, *points)),
        Command::Kernel(which) => which.each(Session::run_on_kernel),
        Command::Show(which) => which.each(show),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

impl Which {
    fn sessions(&self) -> Result<Vec<Session>> {
        let sets = match &self.feature_set {
            Some(name) => vec![FeatureSet::named(name)?],
            None => SETS.to_vec(),
        };
        let only: BTreeSet<_> = self.only.iter().copied().collect();
        let only = (!only.is_empty()).then_some(only);
        let session = |(seed, set): (u64, &FeatureSet)| Session {
            set: *set,
            layer: self
                .qcow2
                .map_or(Layer::Raw, |cluster_size| Layer::Qcow2 { cluster_size }),
            seed,
            operations: self.operations,
            only: only.clone(),
            points: self.points,
        };
        let seeds = self.seed..self.seed + self.runs;
        let pairs = seeds.flat_map(|seed| sets.iter().map(move |set| (seed, set)));
        Ok(pairs.map(session).collect())
    }

    /// Does every session that is asked for. Returns whether all went well.
    fn each(&self, what: impl Fn(&Session) -> Result<Report> + Sync) -> Result<bool> {
        let mut failed = Vec::new();
        run_many(self.sessions()?, self.jobs, None, &what, |outcome| {
            if !tell(&outcome) {
                failed.push(outcome.0);
            }
        });
        if self.reduce {
            for session in &failed {
                reduce(session, &what)?;
            }
        }
        Ok(failed.is_empty())
    }
}

/// Prints what came of a session. Returns whether it went well.
fn tell((session, outcome, took): &Outcome) -> bool {
    let head = format!("{} seed {}", session.set.name, session.seed);
    let took = took.as_secs_f32();
    match outcome {
        Ok(report) => say(&format!("{head}: {report} in {took:.1} s")),
        Err(error) => say(&format!("{head}: FAILED in {took:.1} s\n{error:#}\n")),
    }
    outcome.is_ok()
}

/// Every feature set once, then with another seed while there is time.
fn quick(seed: u64) -> bool {
    let started = Instant::now();
    let session = |set: &FeatureSet, layer, seed| Session {
        set: *set,
        layer,
        seed,
        operations: 300,
        only: None,
        points: QUICK_POINTS,
    };
    let raw = |seed| SETS.iter().map(move |set| session(set, Layer::Raw, seed));
    let in_qcow2 = [4096, 65536].map(|cluster_size| Layer::Qcow2 { cluster_size });
    let in_qcow2 = SETS.iter().zip(in_qcow2);
    let in_qcow2 = in_qcow2.map(|(set, layer)| session(set, layer, seed));
    let sessions = in_qcow2.chain((seed..seed + QUICK_SEEDS).flat_map(raw));
    let (mut images, mut failed) = (0, 0);
    run_many(
        sessions,
        2,
        Some(started + QUICK),
        Session::run,
        |outcome| {
            images += outcome.1.as_ref().map_or(0, |report| report.images);
            failed += usize::from(!tell(&outcome));
        },
    );
    let took = started.elapsed().as_secs();
    say(&format!(
        "{images} crash images in {took} s, {failed} failures"
    ));
    failed == 0
}

/// A plan on some feature sets. Returns whether all went well.
fn plans(seed: u64, count: usize) -> bool {
    let mut passed = true;
    for name in plan::SETS {
        let started = Instant::now();
        let points = Points { count, seed };
        let outcome = FeatureSet::named(name).and_then(|set| plan::run(&set, points));
        let took = started.elapsed().as_secs_f32();
        passed &= outcome.is_ok();
        match outcome {
            Ok(report) => say(&format!("plan on {name}: {report} in {took:.1} s")),
            Err(error) => say(&format!(
                "plan on {name}: FAILED in {took:.1} s\n{error:#}\n"
            )),
        }
    }
    passed
}

fn reduce(session: &Session, what: &impl Fn(&Session) -> Result<Report>) -> Result<()> {
    let count = |session: &Session| session.only.as_ref().map_or(0, BTreeSet::len);
    let shortest = diskfs_crash::reduce::reduce(session, what, |shorter| {
        say(&format!("  {} operations fail", count(shorter)));
    });
    show(&shortest)?;
    if let Err(error) = what(&shortest) {
        say(&format!("{error:#}"));
    }
    say(&shortest.command());
    Ok(())
}

fn show(session: &Session) -> Result<Report> {
    let directory = diskfs_crash::image::directory()?;
    let fresh = diskfs_crash::image::fresh(&session.set, directory.path())?;
    let operations = session.operations(&fresh).context("the operations")?;
    for (number, operation) in &operations {
        say(&format!("{number}: {operation:?}"));
    }
    Ok(Report {
        operations: operations.len(),
        ..Report::default()
    })
}
