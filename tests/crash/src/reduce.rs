//! Reduction of a failing run to fewer operations.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::session::{Report, Session};

/// Leaves out operations as long as `what` still fails: first many at once, then one by one. Calls
/// `progress` with each shorter run.
pub fn reduce(
    session: &Session,
    what: impl Fn(&Session) -> Result<Report>,
    mut progress: impl FnMut(&Session),
) -> Session {
    let mut best = session.clone();
    let all: BTreeSet<usize> = match &session.only {
        Some(only) => only.clone(),
        None => (0..session.operations).collect(),
    };
    // Try first to leave out everything after the last needed operation, which is usually most of
    // it.
    let mut kept: Vec<usize> = all.into_iter().collect();
    let mut size = kept.len() / 2;
    while size > 0 {
        let mut at = kept.len();
        while at > 0 {
            let start = at.saturating_sub(size);
            let mut fewer = kept.clone();
            fewer.drain(start..at);
            let shorter = Session {
                only: Some(fewer.iter().copied().collect()),
                ..session.clone()
            };
            if what(&shorter).is_err() {
                kept = fewer;
                progress(&shorter);
                best = shorter;
            }
            at = start;
        }
        size /= 2;
    }
    best
}
