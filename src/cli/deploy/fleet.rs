//! Many guests side by side, a line of JSON each.
//!
//! A job is `{"image": PATH, "plan": {...}}`; the steps that the command line has come first. A result is `{"image": PATH,
//! "steps": [...]}`, or `{"image": PATH, "error": {...}}`, in the order of the jobs. What fails stops nothing, and the same
//! list once more does what is left.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use diskfs::deploy::Plan;
use diskfs::{Error, ErrorKind, Result};

use super::Deploy;
use crate::cli::pool;
use crate::cli::progress::Progress;
use crate::cli::session::{Session, error_json, stdout};

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
    let threads = args
        .jobs
        .map_or_else(pool::default_threads, |jobs| jobs.get().into());
    let command = session.command();
    let mut out = stdout()?;
    let mut progress = Progress::new(session.progress(), None);
    let (total, mut done, mut failed, mut exit_code) = (jobs.len(), 0, 0_usize, 0);
    let work = |job: Job| {
        let deployed = deploy(args, plan, &job);
        let failure = deployed
            .as_ref()
            .err()
            .map(|error| error.kind().exit_code());
        let line = match deployed {
            Ok(told) => told,
            Err(error) => {
                let told = error_json(command, &error, error.kind().exit_code());
                json!({ "image": job.image, "error": told["error"] })
            }
        };
        (line.to_string(), failure)
    };
    pool::in_order(jobs.into_iter(), threads, work, |(line, failure)| {
        if let Some(code) = failure {
            failed += 1;
            exit_code = if exit_code == 0 { code } else { exit_code };
        }
        done += 1;
        progress.set(done, 0);
        // A line at once, so that what was done is known when it ends early.
        writeln!(out, "{line}")?;
        out.flush()
    })?;
    progress.finish();
    if failed > 0 {
        let text = format!("{failed} of {total} guests could not be deployed: their lines say why");
        session.warn(&text);
        session.end_with(exit_code);
    }
    Ok(())
}

fn deploy(args: &Deploy, common: &Plan, job: &Job) -> Result<Value> {
    let mut plan = common.clone();
    plan.steps.extend(job.plan.steps.iter().cloned());
    let image = OsString::from(&job.image);
    let deployed = args.deploy(&image, &plan, |_| {})?;
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
