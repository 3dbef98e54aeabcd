//! Progress of long work, on standard error.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::ProgressMode;

/// What is done sooner shows no progress at all.
const QUIET: Duration = Duration::from_secs(1);
/// Between two updates.
const STEP: Duration = Duration::from_millis(200);

/// Files and bytes done so far, of a total that may not be known.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: Shown,
    started: Instant,
    updated: Instant,
    files: u64,
    bytes: u64,
    total_bytes: Option<u64>,
}

#[derive(Debug)]
enum Shown {
    Not,
    Bar(Option<ProgressBar>),
    Json,
}

impl Progress {
    pub(crate) fn new(mode: ProgressMode, total_bytes: Option<u64>) -> Self {
        let now = Instant::now();
        Self {
            shown: match mode {
                ProgressMode::Auto if io::stderr().is_terminal() => Shown::Bar(None),
                ProgressMode::Json => Shown::Json,
                ProgressMode::Auto | ProgressMode::None => Shown::Not,
            },
            started: now,
            updated: now,
            files: 0,
            bytes: 0,
            total_bytes,
        }
    }

    /// So many files and bytes so far.
    pub(crate) fn done(&self) -> (u64, u64) {
        (self.files, self.bytes)
    }

    /// So many files and bytes are done by now.
    pub(crate) fn set(&mut self, files: u64, bytes: u64) {
        (self.files, self.bytes) = (files, bytes);
        self.update();
    }

    /// One more file is begun.
    pub(crate) fn file(&mut self) {
        self.files += 1;
        self.update();
    }

    /// So many more bytes are done.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.update();
    }

    fn update(&mut self) {
        if matches!(self.shown, Shown::Not) {
            return;
        }
        let now = Instant::now();
        if now - self.started >= QUIET && now - self.updated >= STEP {
            self.updated = now;
            self.show();
        }
    }

    fn show(&mut self) {
        let (files, bytes, total) = (self.files, self.bytes, self.total_bytes);
        match &mut self.shown {
            Shown::Not => {}
            Shown::Json => say(&json!({ "files": files, "bytes": bytes, "total_bytes": total })),
            Shown::Bar(bar) => {
                let elapsed = self.started.elapsed();
                let bar = bar.get_or_insert_with(|| new_bar(total).with_elapsed(elapsed));
                bar.set_message(format!("{files} files"));
                bar.set_position(bytes);
            }
        }
    }

    /// Takes the bar away; in JSON says the final numbers.
    pub(crate) fn finish(mut self) {
        match &self.shown {
            Shown::Bar(Some(bar)) => bar.finish_and_clear(),
            Shown::Json => self.show(),
            Shown::Bar(None) | Shown::Not => {}
        }
    }
}

fn say(progress: &serde_json::Value) {
    let line = format!("{}\n", json!({ "progress": progress }));
    let _ = io::stderr().write_all(line.as_bytes()); // Nowhere left to complain.
}

fn new_bar(total_bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match total_bytes {
        Some(total) => (
            ProgressBar::new(total),
            "{bar:30} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{spinner} {msg}, {bytes}, {binary_bytes_per_sec}",
        ),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
