//! Many images side by side: a line of JSON for each, in their order, as soon as it is known.

use std::io::Write;
use std::num::NonZero;

use diskfs::{Error, Result};
use serde_json::Value;

use super::pool;
use super::progress::Progress;
use super::session::{Session, error_json};

/// Does `work` on each of `things` and writes its line: what `tell` makes of the thing and its result. A failure stops
/// nothing; in the end `failed` says what could not be done, as in `images could not be looked at`.
pub(super) fn run<T: Send, R>(
    session: &mut Session,
    out: &mut dyn Write,
    things: Vec<T>,
    jobs: Option<NonZero<u8>>,
    work: impl Fn(&T) -> Result<R> + Sync,
    tell: impl Fn(&T, std::result::Result<R, Value>) -> Value + Sync,
    failed: &str,
) -> Result<()> {
    let threads = jobs.map_or_else(pool::default_threads, |jobs| jobs.get().into());
    let command = session.command();
    let mut progress = Progress::new(session.progress(), None);
    let (total, mut done, mut failures, mut exit_code) = (things.len(), 0, 0_usize, 0);
    let look = |thing: T| {
        let result = work(&thing);
        let failure = result.as_ref().err().map(|error| error.kind().exit_code());
        let result = result.map_err(|error| told(command, &error));
        // As text, which takes less room than what it is made from while it waits for those before it.
        (tell(&thing, result).to_string(), failure)
    };
    pool::in_order(things.into_iter(), threads, look, |(line, failure)| {
        if let Some(code) = failure {
            failures += 1;
            exit_code = if exit_code == 0 { code } else { exit_code };
        }
        done += 1;
        progress.set(done, 0);
        // A line at once, so that what was done is there when it ends early.
        writeln!(out, "{line}")?;
        out.flush()
    })?;
    progress.finish();
    if failures > 0 {
        session.warn(&format!(
            "{failures} of {total} {failed}: their lines say why"
        ));
        session.end_with(exit_code);
    }
    Ok(())
}

/// The member `error` of a line.
fn told(command: &str, error: &Error) -> Value {
    let mut told = error_json(command, error, error.kind().exit_code());
    told["error"].take()
}
