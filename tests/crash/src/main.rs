//! The command line of the crash harness: long runs, and the repetition of a failed case.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use diskfs_crash::crash_points::Points;
use diskfs_crash::exhaustive::{Found, Search, Sequence, States};
use diskfs_crash::feature_set::{FeatureSet, SETS};
use diskfs_crash::layer::Layer;
use diskfs_crash::many::{Outcome, run_many};
use diskfs_crash::plan::{self, Crashes};
use diskfs_crash::random::Random;
use diskfs_crash::session::{Report, Session};
use diskfs_crash::soak::{Flushes, Round, Soaked};

/// The time in which `quick` starts new sessions.
const QUICK: Duration = Duration::from_secs(150);

/// The number of crashes in a session of `quick`: more than 2,000 over all feature sets.
const QUICK_POINTS: usize = 130;

/// The number of seeds of `quick`. They are the same on every machine, but a slow machine may not
/// get to all. Use `run` for other seeds.
const QUICK_SEEDS: u64 = 2;

/// The time in which `quick` starts rounds of the soak.
const QUICK_SOAK: Duration = Duration::from_secs(10);

/// The default number of queues of the soak.
const QUEUES: usize = 4;

/// The default number of requests of each queue in a phase of the soak.
const REQUESTS: usize = 30;

/// The number of crashes of a plan on each of its feature sets.
const PLAN_POINTS: usize = 25;

/// One of so many states after a plan is checked by others.
const PLAN_EXAMINED: u64 = 200;

/// The types of filesystems of the exhaustive search, with the cluster size of qcow2.
const EXHAUSTIVE: [(&str, Option<u32>); 7] = [
    ("1k-blocks", None),
    ("default", None),
    ("bigalloc", None),
    ("inline-data", None),
    ("no-journal", None),
    ("1k-blocks", Some(4096)),
    ("default", Some(65536)),
];

/// After so many sequences the exhaustive search prints how far it is.
const REPORTED: usize = 1000;

#[derive(Debug, Parser)]
#[command(about = "Random operations with a crash at any moment, checked by e2fsck and the kernel")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run operations on our writer and on the kernel's mount, simulate crashes, and check them.
    Run(Which),
    /// Run a few sessions on every feature set, in 3 minutes.
    Quick {
        /// The seed of the random numbers.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Run operations on the kernel's mount alone, with snapshots as crashes, to test the harness.
    Kernel(Which),
    /// Check that a plan of `diskfs deploy` is atomic.
    Plan {
        /// The seed of the random numbers.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The number of crashes on each feature set.
        #[arg(long, default_value_t = PLAN_POINTS)]
        points: usize,
        /// Check all states that a crash can leave, instead of some.
        #[arg(long)]
        all: bool,
    },
    /// Run all short sequences of operations, and check each state that a crash can leave.
    Exhaustive(Bounds),
    /// Let several queues use a qcow2 image at once, and check each state that a crash can leave.
    Soak(Soak),
    /// Print the operations of a run.
    Show(Which),
}

#[derive(Debug, Args)]
struct Soak {
    /// The seed of the first round; each further round has the next one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The time in which rounds are started, in minutes; without it, there is one round.
    #[arg(long)]
    minutes: Option<u64>,
    /// The number of queues.
    #[arg(long, default_value_t = QUEUES)]
    queues: usize,
    /// The number of requests of each queue between two checks; with more than 1,000, power does
    /// not fail.
    #[arg(long, default_value_t = REQUESTS)]
    requests: usize,
}

impl Soak {
    fn run(&self) -> bool {
        let minutes = self.minutes.unwrap_or(0);
        let first = Round {
            queues: self.queues,
            requests: self.requests,
            ..round(self.seed)
        };
        soak(first, Duration::from_secs(60 * minutes))
    }
}

#[derive(Debug, Args)]
struct Which {
    /// The type of filesystem; without it, all types.
    #[arg(long)]
    feature_set: Option<String>,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of runs, with consecutive seeds.
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// The number of operations in each run.
    #[arg(long, default_value_t = 500)]
    operations: usize,
    /// The number of crashes in each run.
    #[arg(long, default_value_t = 200)]
    points: usize,
    /// The number of parallel runs.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// The cluster size in bytes of a qcow2 image that contains the filesystem.
    #[arg(long)]
    qcow2: Option<u32>,
    /// The numbers of the operations to run: 3,17,20. All others are left out.
    #[arg(long, value_delimiter = ',')]
    only: Vec<usize>,
    /// After a failure, search for fewer operations that fail, too.
    #[arg(long)]
    reduce: bool,
}

#[derive(Debug, Args)]
struct Bounds {
    /// The type of filesystem; without it, several, each also in qcow2.
    #[arg(long)]
    feature_set: Option<String>,
    /// The cluster size in bytes of a qcow2 image that contains the filesystem.
    #[arg(long)]
    qcow2: Option<u32>,
    /// The maximum number of elements in a sequence.
    #[arg(long, default_value_t = 2)]
    length: usize,
    /// The number of random sequences of three elements, in addition.
    #[arg(long, default_value_t = 500)]
    longer: usize,
    /// The seed for the choice of longer sequences.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run one of this many sequences.
    #[arg(long, default_value_t = 1)]
    one_in: usize,
    /// Also check one of this many states by e2fsck, our writer and qemu-img.
    #[arg(long, default_value_t = 2000)]
    examine_one_in: u64,
    /// The number of parallel sequences.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// One sequence: each element and what follows it (`append,fsync,rename,-`).
    #[arg(long, value_delimiter = ',')]
    sequence: Vec<String>,
}

impl Bounds {
    fn search(&self) -> Result<bool> {
        let searches: Vec<_> = match &self.feature_set {
            Some(name) => vec![(&**name, self.qcow2)],
            None => EXHAUSTIVE.to_vec(),
        };
        let mut passed = true;
        for (name, qcow2) in searches {
            let layer = qcow2.map_or(Layer::Raw, |cluster_size| Layer::Qcow2 { cluster_size });
            let search = Search::new(FeatureSet::named(name)?, layer, self.examine_one_in)?;
            passed &= self.run(&search, &format!("{name} {layer:?}"))?;
        }
        Ok(passed)
    }

    fn sequences(&self) -> Result<Vec<Sequence>> {
        if !self.sequence.is_empty() {
            return Ok(vec![Sequence::parse(&self.sequence)?]);
        }
        let mut random = Random::new(self.seed);
        let all = (1..=self.length).flat_map(Sequence::all);
        let longer = (0..self.longer).map(|_| Sequence::random(3, &mut random));
        Ok(all.chain(longer).step_by(self.one_in.max(1)).collect())
    }

    fn run(&self, search: &Search, head: &str) -> Result<bool> {
        let started = Instant::now();
        let states = if self.sequence.is_empty() {
            States::New
        } else {
            States::All
        };
        let (mut sequences, mut failed, mut all) = (0, 0, Found::default());
        let chosen = self.sequences()?;
        let count = chosen.len();
        run_many(
            chosen,
            self.jobs,
            None,
            |sequence| search.run(sequence, states),
            |(_, outcome, _)| {
                sequences += 1;
                if sequences % REPORTED == 0 {
                    print(&format!("{head}: {sequences} of {count} sequences"));
                }
                match outcome {
                    Ok(found) => all += found,
                    Err(error) => {
                        failed += 1;
                        print(&format!("{head}: FAILED\n{error:#}\n"));
                    }
                }
            },
        );
        print(&format!(
            "{head}: {sequences} sequences, {} states, {} of them also checked by others, {failed} \
             failures in {} s",
            all.states,
            all.examined,
            started.elapsed().as_secs()
        ));
        Ok(failed == 0)
    }
}

fn main() -> ExitCode {
    let passed = match &Cli::parse().command {
        Command::Run(which) => which.each(Session::run),
        Command::Quick { seed } => Ok([
            quick(*seed),
            plans(some(*seed, PLAN_POINTS)),
            soak(round(*seed), QUICK_SOAK),
        ]
        .iter()
        .all(|passed| *passed)),
        Command::Plan { all: true, .. } => Ok(plans(Crashes::All {
            examine_one_in: PLAN_EXAMINED,
        })),
        Command::Plan { seed, points, .. } => Ok(plans(some(*seed, *points))),
        Command::Kernel(which) => which.each(Session::run_on_kernel),
        Command::Exhaustive(bounds) => bounds.search(),
        Command::Soak(which) => Ok(which.run()),
        Command::Show(which) => which.each(show),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) {
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

    /// Runs every requested session. Returns true if all succeeded.
    fn each(&self, what: impl Fn(&Session) -> Result<Report> + Sync) -> Result<bool> {
        let mut failed = Vec::new();
        run_many(self.sessions()?, self.jobs, None, &what, |outcome| {
            if !print_outcome(&outcome) {
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

/// Prints the outcome of a session. Returns true if it succeeded.
fn print_outcome((session, outcome, took): &Outcome) -> bool {
    let head = format!("{} seed {}", session.set.name, session.seed);
    let took = took.as_secs_f32();
    match outcome {
        Ok(report) => print(&format!("{head}: {report} in {took:.1} s")),
        Err(error) => print(&format!("{head}: FAILED in {took:.1} s\n{error:#}\n")),
    }
    outcome.is_ok()
}

/// Runs every feature set once, then with other seeds while there is time.
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
            failed += usize::from(!print_outcome(&outcome));
        },
    );
    let took = started.elapsed().as_secs();
    print(&format!(
        "{images} crash images in {took} s, {failed} failures"
    ));
    failed == 0
}

fn some(seed: u64, count: usize) -> Crashes {
    Crashes::Some(Points { count, seed })
}

/// Runs a plan on some feature sets. Returns true if all succeeded.
fn plans(crashes: Crashes) -> bool {
    let mut passed = true;
    for name in plan::SETS {
        let started = Instant::now();
        let outcome = FeatureSet::named(name).and_then(|set| plan::run(&set, crashes));
        let took = started.elapsed().as_secs_f32();
        passed &= outcome.is_ok();
        match outcome {
            Ok(report) => print(&format!("plan on {name}: {report} in {took:.1} s")),
            Err(error) => print(&format!(
                "plan on {name}: FAILED in {took:.1} s\n{error:#}\n"
            )),
        }
    }
    passed
}

/// Returns the usual round of a soak.
fn round(seed: u64) -> Round {
    Round {
        seed,
        queues: QUEUES,
        requests: REQUESTS,
        flushes: Flushes::default(),
    }
}

/// Soaks qcow2 images until this time has passed, and at least one. Returns true if all rounds
/// succeeded.
fn soak(first: Round, time: Duration) -> bool {
    let seed = first.seed;
    let started = Instant::now();
    let (mut rounds, mut failed, mut all) = (0, 0, Soaked::default());
    while rounds == 0 || started.elapsed() < time {
        let round = Round {
            seed: seed + rounds,
            ..first
        };
        rounds += 1;
        match round.run() {
            Ok(soaked) => all += soaked,
            Err(error) => {
                failed += 1;
                print(&format!(
                    "soak with seed {}: FAILED\n{error:#}\n",
                    round.seed
                ));
            }
        }
    }
    let took = started.elapsed().as_secs_f32();
    print(&format!(
        "soak: {rounds} rounds from seed {seed}, {} requests, {} states, {failed} failures in \
         {took:.1} s",
        all.requests, all.states
    ));
    failed == 0
}

fn reduce(session: &Session, what: &impl Fn(&Session) -> Result<Report>) -> Result<()> {
    let count = |session: &Session| session.only.as_ref().map_or(0, BTreeSet::len);
    let shortest = diskfs_crash::reduce::reduce(session, what, |shorter| {
        print(&format!("  {} operations fail", count(shorter)));
    });
    show(&shortest)?;
    if let Err(error) = what(&shortest) {
        print(&format!("{error:#}"));
    }
    print(&shortest.command());
    Ok(())
}

fn show(session: &Session) -> Result<Report> {
    let directory = diskfs_crash::image::directory()?;
    let fresh = diskfs_crash::image::make_filesystem(&session.set, directory.path())?;
    let operations = session
        .operations(&fresh)
        .context("cannot generate the operations")?;
    for (number, operation) in &operations {
        print(&format!("{number}: {operation:?}"));
    }
    Ok(Report {
        operations: operations.len(),
        ..Report::default()
    })
}
