//! Mutates the fixtures and runs the parsers on them, for a given time.
//!
//! A case is identified by a number: the same number and seed give the same image. Cases run in a
//! child process, so that a stack overflow or a failed allocation is a finding like any other. This
//! process then builds the image again and writes it to `artifacts`.

mod allocator;
mod child;
mod parent;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use diskfs_fuzz::mutate::mutate;
use diskfs_fuzz::random::Random;
use diskfs_fuzz::seeds::Seed;
use diskfs_fuzz::{Sparse, Target, corpus};

const USAGE: &str = "\
Mutates images and runs the parsers on them.

  smoke [--seconds N] [--cases N] [--target NAME] [--seed N] [--images DIR] [--first N] [--only-seeds]
  smoke --replay FILE --target NAME
  smoke --corpus DIR

  --seconds N    run for N seconds (70)
  --cases N      run N cases instead
  --target NAME  probe, probe_content, qcow2, qcow2_write, qcow2_bitmaps, image_maps, validate, gpt,
                 mbr, lvm, md, luks, ext4_walk, ext4_write, fat, iso9660, xfs, btrfs, squashfs, erofs, exfat,
                 systemd_journal, guest, deploy, registry, remote, rpm, selinux, etc,
                 varstore, vmdk, archive, oci, ova, service, nbd_server or nbd_client only
  --seed N       another run with other cases (1)
  --images DIR   compressed images to begin with (fixtures/images)
  --first N      begin with case N (0)
  --replay FILE  run one image that was written to artifacts
  --corpus DIR   write the seeds to DIR/TARGET, for cargo fuzz
  --only-seeds   run the seeds without mutations
";

/// The parsed command line.
#[derive(Debug, Clone)]
struct Arguments {
    seconds: u64,
    cases: u64,
    target: Option<Target>,
    seed: u64,
    images: PathBuf,
    first: u64,
    replay: Option<PathBuf>,
    corpus: Option<PathBuf>,
    /// True if only the seeds run, which are the first cases.
    only_seeds: bool,
    /// True in the child process that runs the cases.
    is_child: bool,
}

impl Arguments {
    fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self> {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let mut parsed = Self {
            seconds: 70,
            cases: u64::MAX,
            target: None,
            seed: 1,
            images: here.join("../../fixtures/images"),
            first: 0,
            replay: None,
            corpus: None,
            only_seeds: false,
            is_child: false,
        };
        let mut arguments = arguments.into_iter();
        while let Some(option) = arguments.next() {
            match option.as_str() {
                "--child" => {
                    parsed.is_child = true;
                    continue;
                }
                "--only-seeds" => {
                    (parsed.only_seeds, parsed.seconds) = (true, u64::MAX);
                    continue;
                }
                _ => {}
            }
            let value = arguments
                .next()
                .with_context(|| format!("missing value for {option}\n\n{USAGE}"))?;
            match option.as_str() {
                "--seconds" => parsed.seconds = value.parse()?,
                "--cases" => (parsed.cases, parsed.seconds) = (value.parse()?, u64::MAX),
                "--seed" => parsed.seed = value.parse()?,
                "--first" => parsed.first = value.parse()?,
                "--images" => parsed.images = value.into(),
                "--replay" => parsed.replay = Some(value.into()),
                "--corpus" => parsed.corpus = Some(value.into()),
                "--target" => parsed.target = Some(target_named(&value)?),
                _ => bail!("unknown option `{option}`\n\n{USAGE}"),
            }
        }
        Ok(parsed)
    }
}

fn target_named(name: &str) -> Result<Target> {
    let named = Target::ALL.into_iter().find(|target| target.name() == name);
    named.with_context(|| format!("unknown target `{name}`"))
}

/// The seeds of a run, from which its cases are made.
struct Run {
    seeds: Vec<Seed>,
    seed: u64,
}

/// An image for a target.
struct Case {
    target: Target,
    name: String,
    image: Sparse,
}

impl Run {
    fn load(arguments: &Arguments) -> Result<Self> {
        let seeds = corpus::load_with_seeds(&arguments.images, arguments.target)?;
        if seeds.is_empty() {
            bail!("no images in {}", arguments.images.display());
        }
        Ok(Self {
            seeds,
            seed: arguments.seed,
        })
    }

    /// Builds a case. The first cases are the unchanged seeds.
    fn case(&self, number: u64) -> Case {
        let as_it_is = usize::try_from(number).ok().and_then(|n| self.seeds.get(n));
        if let Some(seed) = as_it_is {
            return Case {
                target: seed.target,
                name: seed.name.clone(),
                image: seed.image.clone(),
            };
        }
        let mut random = Random::of_case(self.seed, number);
        let seed = random.pick(&self.seeds);
        Case {
            target: seed.target,
            name: seed.name.clone(),
            image: mutate(seed, &mut random),
        }
    }
}

fn write_corpus(run: &Run, directory: &std::path::Path) -> Result<()> {
    for seed in &run.seeds {
        let directory = directory.join(seed.target.name());
        std::fs::create_dir_all(&directory)?;
        std::fs::write(
            directory.join(seed.name.replace([' ', '/'], "-")),
            seed.image.to_input(),
        )?;
    }
    Ok(())
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    if let Some(file) = &arguments.replay {
        let target = arguments
            .target
            .context("missing option --target, which --replay needs")?;
        let data = std::fs::read(file).with_context(|| file.display().to_string())?;
        return Ok(child::replay(target, &data));
    }
    if let Some(directory) = &arguments.corpus {
        write_corpus(&Run::load(&arguments)?, directory)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.is_child {
        child::run(&Run::load(&arguments)?, &arguments);
        return Ok(ExitCode::SUCCESS);
    }
    parent::run(&arguments)
}
