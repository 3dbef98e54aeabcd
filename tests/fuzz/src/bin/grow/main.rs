//! Searches the corpus: mutations that reach code which no seed reaches.
//!
//! The program is instrumented, and reads its own counters after each case; `tests/fuzz/coverage
//! --grow` builds and starts it. A mutation that reaches new code is mutated further. At the end, the
//! fewest of them that reach all of it are written to `tests/fuzz/corpus`. A case that panics is a
//! finding as in `smoke`, which also has limits of time and memory.

mod counters;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use diskfs_block::BlockRead;
use diskfs_fuzz::mutate::mutate;
use diskfs_fuzz::random::Random;
use diskfs_fuzz::seeds::{self, Seed};
use diskfs_fuzz::{Sparse, Target, corpus, finding};

/// The time limit of a case in the corpus, which every run of `smoke` begins with.
const MAX_CASE_TIME: Duration = Duration::from_millis(500);

/// The length limit of a mutation in the corpus: a line of its file.
const MAX_LINE_BYTES: usize = 8 << 10;

/// The number of newest mutations that half of the cases start from.
const NEWEST: usize = 16;

/// A mutation that reached new code.
struct Kept {
    /// The index of the seed from which it is made, perhaps in several steps.
    seed: usize,
    image: Sparse,
}

/// The search for a target.
struct Search {
    target: Target,
    seeds: Vec<Seed>,
    kept: Vec<Kept>,
    /// The seeds, and the kept mutations as seeds of further ones, each with its original seed.
    pool: Vec<(Seed, usize)>,
    /// The indices of the counters that any case has reached.
    reached: HashSet<usize>,
    random: Random,
    panics: u64,
}

/// Runs a case. Returns the counters that it reaches, or `None` if it panics or takes too long. A
/// panic is kept as a finding: the last one of each target.
fn run(target: Target, image: &Sparse) -> Option<Vec<usize>> {
    let device: Arc<dyn BlockRead> = Arc::new(image.clone());
    counters::reset();
    let start = Instant::now();
    if catch_unwind(AssertUnwindSafe(|| target.run(&device))).is_err() {
        match finding::save(target, "grow", image) {
            Ok(again) => println!("{}: panic; again: {again}", target.name()),
            Err(error) => println!("{}: panic; not saved: {error}", target.name()),
        }
        return None;
    }
    if start.elapsed() > MAX_CASE_TIME {
        return None;
    }
    let mut reached = Vec::new();
    counters::visit_nonzero(|index| reached.push(index));
    Some(reached)
}

impl Search {
    fn start(target: Target, seeds: &[Seed], seed: u64) -> Result<Self> {
        let of_target = seeds.iter().filter(|seed| seed.target == target);
        let mut search = Self {
            target,
            seeds: of_target.cloned().collect(),
            kept: Vec::new(),
            pool: Vec::new(),
            reached: HashSet::new(),
            random: Random::of_case(seed, 0),
            panics: 0,
        };
        for index in 0..search.seeds.len() {
            let mut seed = search.seeds[index].clone();
            let reached = run(target, &seed.image).unwrap_or_default();
            search.reached.extend(reached);
            seed.find_places();
            search.pool.push((seed, index));
        }
        for mutation in corpus::load(&corpus::directory(), &search.seeds)? {
            let name = mutation
                .name
                .rsplit_once(", mutation ")
                .unwrap_or_default()
                .0;
            let seed = search.seeds.iter().position(|seed| seed.name == name);
            search.consider(seed.unwrap_or(0), mutation.image);
        }
        Ok(search)
    }

    /// Keeps a mutation if it reaches new code.
    fn consider(&mut self, seed: usize, image: Sparse) {
        let Some(reached) = run(self.target, &image) else {
            self.panics += 1;
            return;
        };
        let is_new = reached.iter().any(|index| !self.reached.contains(index));
        let len = || corpus::line_of(&self.seeds[seed], &image).len();
        if !is_new || len() > MAX_LINE_BYTES {
            return;
        }
        self.reached.extend(reached);
        let mut mutated = self.seeds[seed].clone();
        mutated.image = image.clone();
        mutated.find_places();
        self.pool.push((mutated, seed));
        self.kept.push(Kept { seed, image });
    }

    fn step(&mut self) {
        let newest = &self.pool[self.pool.len().saturating_sub(NEWEST)..];
        let from = match self.random.below(2) {
            0 => newest,
            _ => &self.pool[..],
        };
        let (from, seed) = self.random.pick(from).clone();
        let image = mutate(&from, &mut self.random);
        self.consider(seed, image);
    }

    /// Chooses mutations until they reach all that the kept ones reach: the one that adds most first.
    fn fewest(&self) -> Vec<&Kept> {
        let mut reached = HashSet::new();
        for seed in &self.seeds {
            reached.extend(run(self.target, &seed.image).unwrap_or_default());
        }
        let of = |kept: &Kept| run(self.target, &kept.image).unwrap_or_default();
        let mut left: Vec<_> = self.kept.iter().map(|kept| (of(kept), kept)).collect();
        let mut chosen = Vec::new();
        loop {
            for (adds, _) in &mut left {
                adds.retain(|index| !reached.contains(index));
            }
            let most = left.iter().max_by_key(|(adds, _)| adds.len());
            let Some((adds, kept)) = most.filter(|(adds, _)| !adds.is_empty()) else {
                return chosen;
            };
            reached.extend(adds.iter().copied());
            chosen.push(*kept);
        }
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || {
        arguments
            .next()
            .context("usage: grow SECONDS SEED [TARGET...]")
    };
    let time = Duration::from_secs(next()?.parse()?);
    let seed = next()?.parse()?;
    let names: Vec<String> = arguments.collect();
    let images = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/images");
    let seeds = seeds::load(&images, None)?;
    for target in Target::ALL {
        let is_named = names.is_empty() || names.iter().any(|name| name == target.name());
        if !is_named {
            continue;
        }
        let mut search = Search::start(target, &seeds, seed)?;
        println!("{}: {} seeds", target.name(), search.seeds.len());
        let (before, start) = (search.reached.len(), Instant::now());
        let mut cases = 0_u64;
        while start.elapsed() < time {
            search.step();
            cases += 1;
        }
        let chosen = search.fewest();
        println!(
            "{}: {cases} cases, {before} to {} regions, {} mutations of {} kept, {} panics or slow",
            target.name(),
            search.reached.len(),
            chosen.len(),
            search.kept.len(),
            search.panics
        );
        let mutations = chosen
            .iter()
            .map(|kept| (&search.seeds[kept.seed], &kept.image));
        corpus::save(&corpus::directory(), target, mutations)?;
    }
    Ok(())
}
