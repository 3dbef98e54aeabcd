//! Many guests side by side, a line of JSON each.
//!
//! A job is `{"image": PATH, "plan": {...}}`; the steps that the command line has come first. A result is `{"image": PATH,
//! "steps": [...]}`, or `{"image": PATH, "error": {...}}`, in the order of the jobs. Jobs of one image are done one after the other. What fails stops nothing, and the same
//! list once more does what is left.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};

use diskfs::deploy::Plan;
use diskfs::{Error, ErrorKind, Result};

use super::Deploy;
use crate::cli::fleet;
use crate::cli::out_file::is_standard;
use crate::cli::session::{Session, stdout};

/// A line longer than this is no job.
const MAX_LINE_BYTES: usize = 16 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    image: String,
    #[serde(default)]
    plan: Plan,
}

pub(super) fn run(args: &Deploy, plan: &Plan, jobs: &Path, session: &mut Session) -> Result<()> {
    let jobs = queued(read(jobs)?);
    let queues = Queues::default();
    let mut out = stdout()?;
    let work = |queued: &Queued| {
        let _turn = queued.place.as_ref().map(|place| queues.wait(place));
        deploy(args, plan, &queued.job)
    };
    let tell = |queued: &Queued, told: std::result::Result<Value, Value>| match told {
        Ok(told) => told,
        Err(error) => json!({ "image": queued.job.image, "error": error }),
    };
    let failed = "guests could not be deployed";
    fleet::run(session, &mut out, jobs, args.jobs, work, tell, failed)
}

/// Where a job stands among those of the same image, whatever the list calls it.
#[derive(Debug)]
struct Place {
    /// Device and inode.
    image: (u64, u64),
    /// How many come before it.
    before: usize,
}

/// A job and its place.
struct Queued {
    job: Job,
    /// `None` for an image that can't be found, which the job tells.
    place: Option<Place>,
}

/// The jobs with their places.
fn queued(jobs: Vec<Job>) -> Vec<Queued> {
    let mut lengths: HashMap<(u64, u64), usize> = HashMap::new();
    let place = |job: Job| {
        let metadata = fs::metadata(&job.image).ok();
        let place = metadata.map(|metadata| {
            let image = (metadata.dev(), metadata.ino());
            let length = lengths.entry(image).or_default();
            let before = *length;
            *length += 1;
            Place { image, before }
        });
        Queued { job, place }
    };
    jobs.into_iter().map(place).collect()
}

/// Lets jobs of one image wait for each other. Jobs are begun in their order, so those that others wait for are under way.
#[derive(Default)]
struct Queues {
    /// How many are done of each image.
    done: Mutex<HashMap<(u64, u64), usize>>,
    changed: Condvar,
}

/// A job's turn, which ends when this goes.
struct Turn<'q> {
    queues: &'q Queues,
    image: (u64, u64),
}

impl Queues {
    fn wait(&self, place: &Place) -> Turn<'_> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = |done: &mut HashMap<_, usize>| {
            done.get(&place.image).copied().unwrap_or(0) < place.before
        };
        drop(
            self.changed
                .wait_while(done, is_early)
                .unwrap_or_else(PoisonError::into_inner),
        );
        Turn {
            queues: self,
            image: place.image,
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut done = self
            .queues
            .done
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *done.entry(self.image).or_default() += 1;
        self.queues.changed.notify_all();
    }
}

fn deploy(args: &Deploy, common: &Plan, job: &Job) -> Result<Value> {
    let mut plan = common.clone();
    plan.steps.extend(job.plan.steps.iter().cloned());
    let image = OsString::from(&job.image);
    let deployed = args.deploy(&image, &plan)?;
    Ok(deployed.json(&image))
}

/// All jobs, so that what is none is found before anything is done.
fn read(path: &Path) -> Result<Vec<Job>> {
    let in_file = |error: io::Error| Error::from(error).in_file(path);
    if is_standard(path) {
        return parse(io::stdin().lock(), path);
    }
    parse(BufReader::new(File::open(path).map_err(in_file)?), path)
}

fn parse(list: impl BufRead, path: &Path) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for (line, number) in list.lines().zip(1_usize..) {
        let line = line.map_err(|error| Error::from(error).in_file(path))?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |reason: String| {
            let reason = format!("line {number} is no job: {reason}");
            Error::new(ErrorKind::Invalid, reason).in_file(path)
        };
        if line.len() > MAX_LINE_BYTES {
            return Err(wrong("it is too long".to_owned()));
        }
        jobs.push(serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?);
    }
    Ok(jobs)
}
