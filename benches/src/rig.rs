//! A run: every visit to every contender, several times, one after the other.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::contender::{self, Contender};
use crate::filesystem::Filesystem;
use crate::image::{ImageFormat, Images};
use crate::machine::Cold;
use crate::mount::Mount;
use crate::options::Options;
use crate::samples::{Gap, Samples};
use crate::visit::{self, Visit};
use crate::{command, interrupt, limit, machine, program};

/// The number of bytes of the large file that each reader reads at random.
const RANDOM_BYTES_PER_JOB: u64 = 64 << 20;

/// The options, images and contenders of a run.
#[derive(Debug)]
pub(crate) struct Rig {
    images: Images,
    contenders: Vec<Box<dyn Contender>>,
    absent: Vec<(String, String)>,
    visits: Vec<&'static dyn Visit>,
    repetitions: u32,
    random_bytes_per_job: u64,
    cold: Cold,
    scratch: TempDir,
}

impl Rig {
    /// Determines which contenders take part.
    pub(crate) fn new(options: &Options, images: Images) -> Result<Self> {
        let diskfs = match &options.diskfs {
            Some(program) => program.clone(),
            None => program::build()?,
        };
        let (mut contenders, mut absent) = (Vec::new(), Vec::new());
        let all = contender::all(&diskfs, options.filesystem);
        for (index, contender) in all.into_iter().enumerate() {
            let name = contender.name();
            let is_named = !options.contenders.is_empty();
            let is_unwanted = contender.is_by_name_only() && !is_named;
            if index > 0 && (is_unwanted || !options.wants_contender(&name)) {
                continue;
            }
            match contender.obstacle() {
                None => contenders.push(contender),
                Some(reason) => {
                    print_progress(&format!("{name} does not take part: {reason}"));
                    absent.push((name, reason));
                }
            }
        }
        let quarter = if options.quick { 4 } else { 1 };
        Ok(Self {
            images,
            contenders,
            absent,
            visits: visit::all()
                .into_iter()
                .filter(|visit| options.wants_visit(visit.name()))
                .collect(),
            repetitions: options.repetitions(),
            random_bytes_per_job: RANDOM_BYTES_PER_JOB / quarter,
            cold: options.cold,
            scratch: tempfile::Builder::new().prefix("diskfs-bench-").tempdir()?,
        })
    }

    /// Measures everything. The contenders take turns within each visit, so that other load on the
    /// machine affects all of them. A contender that fails a visit is left out of it from then on;
    /// if the first one fails, which the ratios are relative to, the run fails. An interrupted run
    /// returns the samples so far.
    pub(crate) fn run(&self) -> Result<Samples> {
        let mut samples = Samples::default();
        for repetition in 1..=self.repetitions {
            for visit in &self.visits {
                for contender in &self.contenders {
                    let is_enough = repetition > contender.most_repetitions();
                    if is_enough || samples.has_given_up(visit.name(), &contender.name()) {
                        continue;
                    }
                    let of = self.repetitions;
                    let (visit_name, name) = (visit.name(), contender.name());
                    print_progress(&format!("{repetition}/{of} {visit_name}: {name}"));
                    let visited = self.visit(*visit, contender.as_ref(), &mut samples);
                    if interrupt::has_come() {
                        return Ok(samples);
                    }
                    visited.with_context(|| format!("{visit_name}, {name}"))?;
                }
            }
        }
        Ok(samples)
    }

    /// Makes one visit.
    fn visit(
        &self,
        visit: &dyn Visit,
        contender: &dyn Contender,
        samples: &mut Samples,
    ) -> Result<()> {
        interrupt::check()?;
        let name = contender.name();
        let clock = limit::Visit::begin();
        let mut record = |row, value| samples.add(row, &name, value);
        let Err(error) = visit.run(self, contender, &mut record) else {
            return Ok(());
        };
        let cut_off = limit::check().err();
        drop(clock);
        let is_baseline = self.contenders.first().is_some_and(|it| it.name() == name);
        if is_baseline || interrupt::has_come() {
            return Err(error);
        }
        let is_cut_off = cut_off.is_some();
        let reason = format!("{:#}", cut_off.unwrap_or(error));
        print_progress(&format!("{name} stopped: {reason}"));
        samples.give_up(Gap {
            visit: visit.name(),
            contender: name,
            reason,
            is_cut_off,
        });
        Ok(())
    }

    /// Returns the contenders that take part; ratios are relative to the first one.
    pub(crate) fn contenders(&self) -> &[Box<dyn Contender>] {
        &self.contenders
    }

    /// Returns the contenders that don't take part, each with the reason.
    pub(crate) fn absent(&self) -> &[(String, String)] {
        &self.absent
    }

    /// Returns the filesystem of the images.
    pub(crate) fn filesystem(&self) -> Filesystem {
        self.images.filesystem()
    }

    /// Returns the visits of this run.
    pub(crate) fn visits(&self) -> &[&'static dyn Visit] {
        &self.visits
    }

    /// Returns the number of repetitions of each measurement.
    pub(crate) fn repetitions(&self) -> u32 {
        self.repetitions
    }

    /// Returns the caches to drop before cold measurements.
    pub(crate) fn cold(&self) -> Cold {
        self.cold
    }

    /// Returns the number of bytes of the large file that each reader reads at random.
    pub(crate) fn random_bytes_per_job(&self) -> u64 {
        self.random_bytes_per_job
    }

    /// Returns the path of the image that a contender opens.
    pub(crate) fn image(&self, contender: &dyn Contender) -> PathBuf {
        self.images.path(contender.kind())
    }

    /// Mounts a contender's image.
    pub(crate) fn mount(&self, contender: &dyn Contender) -> Result<Mount> {
        contender.mount(&self.image(contender), self.scratch.path())
    }

    /// Returns the path of the archive of the Debian tree.
    pub(crate) fn archive(&self) -> PathBuf {
        self.images.archive()
    }

    /// Returns the directory for files that a visit makes for itself; it exists until the end of
    /// the run.
    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns the path of the image that a contender writes to.
    fn written(&self, contender: &dyn Contender) -> PathBuf {
        let name = self.images.empty(contender.kind());
        self.scratch
            .path()
            .join(name.file_name().unwrap_or_default())
    }

    /// Creates a new image for a contender to write to, with an empty filesystem.
    pub(crate) fn make_empty(&self, contender: &dyn Contender) -> Result<()> {
        let mut copy = std::process::Command::new("cp");
        copy.arg("--sparse=always")
            .arg(self.images.empty(contender.kind()));
        let to = self.written(contender);
        command::output(copy.arg(&to))?;
        // Otherwise the later write-back of the copy would count for the contender.
        std::fs::File::open(to)?.sync_all()?;
        Ok(())
    }

    /// Mounts the image that [`make_empty`](Self::make_empty) made.
    pub(crate) fn mount_for_writing(&self, contender: &dyn Contender) -> Result<Mount> {
        contender.mount_for_writing(&self.written(contender), self.scratch.path())
    }

    /// Mounts a contender's image with only the image file cached.
    pub(crate) fn mount_with_image_cached(&self, contender: &dyn Contender) -> Result<Mount> {
        self.drop_caches()?;
        self.cache_image(contender)?;
        self.mount(contender)
    }

    /// Reads a contender's image, so that the page cache contains it.
    pub(crate) fn cache_image(&self, contender: &dyn Contender) -> Result<()> {
        machine::fill_page_cache(&self.image(contender))
    }

    /// Drops the machine's caches of the images.
    pub(crate) fn drop_caches(&self) -> Result<()> {
        let paths = [ImageFormat::Raw, ImageFormat::Qcow2, ImageFormat::Qcow2Zstd]
            .map(|kind| self.images.path(kind));
        machine::drop_caches(self.cold, &paths.each_ref().map(PathBuf::as_path))
    }
}

fn print_progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
