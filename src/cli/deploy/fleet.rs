//! Many guests side by side, a line of JSON each.
//!
//! A job is `{"image": PATH, "plan": {...}}`; the steps that the command line has come first. A result is `{"image": PATH,
//! "steps": [...]}`, or `{"image": PATH, "error": {...}}`, in the order of the jobs. What fails stops nothing, and the same
//! list once more does what is left.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use diskfs::deploy::Plan;
use diskfs::{Error, ErrorKind, Result};

use super::Deploy;
use crate::cli::fleet;
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
    let jobs = read(jobs)?;
    let mut out = stdout()?;
    let work = |job: &Job| deploy(args, plan, job);
    let tell = |job: &Job, told: std::result::Result<Value, Value>| match told {
        Ok(told) => told,
        Err(error) => json!({ "image": job.image, "error": error }),
    };
    let failed = "guests could not be deployed";
    fleet::run(session, &mut out, jobs, args.jobs, work, tell, failed)
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
    if path == Path::new("-") {
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
