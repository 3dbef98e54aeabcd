//! Deployment of many guests in parallel, from a list with one JSON object per line.
//!
//! A job is `{"image": PATH, "plan": {...}}`; the steps of the command line come before those of
//! the plan. A result is `{"image": PATH, "steps": [...]}` or `{"image": PATH, "error": {...}}`, in
//! the order of the jobs. Jobs of the same image run one after the other. A failed job does not
//! stop the others, and deploying the same list again does what is left.

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

/// The maximum length of a line.
const MAX_LINE_BYTES: usize = 16 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    image: String,
    #[serde(default)]
    plan: Plan,
}

pub(super) fn run(args: &Deploy, plan: &Plan, jobs: &Path, session: &mut Session) -> Result<()> {
    let mut jobs = read(jobs)?;
    if let Some(shard) = args.shard {
        shard.retain(&mut jobs, |job| job.image.clone());
    }
    let jobs = queued(jobs);
    let queues = Queues::default();
    let mut out = stdout()?;
    let work = |queued: &Queued| {
        let _turn = queued
            .position
            .as_ref()
            .map(|position| queues.wait(position));
        deploy(args, plan, &queued.job)
    };
    let describe = |queued: &Queued, result: std::result::Result<Value, Value>| match result {
        Ok(result) => result,
        Err(error) => json!({ "image": queued.job.image, "error": error }),
    };
    let failed = "guests could not be deployed";
    fleet::run(session, &mut out, jobs, args.jobs, work, describe, failed)
}

/// The position of a job among those of the same image, which the list may name in several ways.
#[derive(Debug)]
struct QueuePosition {
    /// The device and the inode of the image.
    image: (u64, u64),
    /// The number of jobs before this one.
    before: usize,
}

/// A job and its position.
struct Queued {
    job: Job,
    /// `None` for an image that cannot be found; the job then reports that.
    position: Option<QueuePosition>,
}

/// Determines the positions of the jobs.
fn queued(jobs: Vec<Job>) -> Vec<Queued> {
    let mut lengths: HashMap<(u64, u64), usize> = HashMap::new();
    let queue = |job: Job| {
        let metadata = fs::metadata(&job.image).ok();
        let position = metadata.map(|metadata| {
            let image = (metadata.dev(), metadata.ino());
            let length = lengths.entry(image).or_default();
            let before = *length;
            *length += 1;
            QueuePosition { image, before }
        });
        Queued { job, position }
    };
    jobs.into_iter().map(queue).collect()
}

/// Queues in which jobs of the same image wait for each other. Jobs are started in their order, so
/// every job that another one waits for is already running.
#[derive(Default)]
struct Queues {
    /// The number of finished jobs of each image.
    done: Mutex<HashMap<(u64, u64), usize>>,
    changed: Condvar,
}

/// A job's turn, which ends when this value is dropped.
struct Turn<'q> {
    queues: &'q Queues,
    image: (u64, u64),
}

impl Queues {
    fn wait(&self, position: &QueuePosition) -> Turn<'_> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = |done: &mut HashMap<_, usize>| {
            done.get(&position.image).copied().unwrap_or(0) < position.before
        };
        drop(
            self.changed
                .wait_while(done, is_early)
                .unwrap_or_else(PoisonError::into_inner),
        );
        Turn {
            queues: self,
            image: position.image,
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
    Ok(deployed.document(&image))
}

/// Reads all jobs first, so that an invalid one is found before any guest is changed.
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
            let reason = format!("line {number}: invalid job: {reason}");
            Error::new(ErrorKind::Invalid, reason).in_file(path)
        };
        if line.len() > MAX_LINE_BYTES {
            return Err(wrong("the line is longer than 16 MiB".to_owned()));
        }
        jobs.push(serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?);
    }
    Ok(jobs)
}
