//! Progress of long operations, on standard error.

mod counted;
mod rate;

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::ProgressMode;
use super::show::size::units;
pub(crate) use counted::{Holes, TotalBytes, size_on_host, sizes_below};
use rate::Rate;

/// The time after which an operation shows progress.
const QUIET: Duration = Duration::from_secs(1);
/// The time between two updates.
const STEP: Duration = Duration::from_millis(200);

/// The progress bar that is drawn on the terminal.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// The number of files and bytes done so far, with a total if it is known.
pub(crate) struct Progress {
    shown: Shown,
    started: Instant,
    updated: Instant,
    files: u64,
    bytes: u64,
    total: TotalBytes,
    /// The rate since progress was first shown.
    rate: Option<Rate>,
    /// The present step of work that is not counted in bytes.
    step: Option<Step>,
}

/// A step of an operation, with the number of its units (block groups, directories) that are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    name: &'static str,
    done: u64,
    total: u64,
}

/// The form in which progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Not,
    Bar,
    Json,
}

impl Progress {
    pub(crate) fn new(mode: ProgressMode, total: impl Into<TotalBytes>) -> Self {
        let now = Instant::now();
        Self {
            shown: match mode {
                ProgressMode::Auto if io::stderr().is_terminal() => Shown::Bar,
                ProgressMode::Json => Shown::Json,
                ProgressMode::Auto | ProgressMode::None => Shown::Not,
            },
            started: now,
            updated: now,
            files: 0,
            bytes: 0,
            total: total.into(),
            rate: None,
            step: None,
        }
    }

    /// Returns true if progress is shown at all.
    #[cfg(feature = "fuse")]
    pub(crate) fn is_shown(&self) -> bool {
        self.shown != Shown::Not
    }

    /// Sets the present step, and how many of its units are done.
    pub(crate) fn step(&mut self, name: &'static str, done: u64, total: u64) {
        self.step = Some(Step { name, done, total });
        self.update();
    }

    /// Sets the name of the present step of work that is counted in bytes.
    pub(crate) fn name_step(&mut self, name: &'static str) {
        self.step(name, 0, 0);
    }

    /// Returns the number of files and bytes done so far.
    pub(crate) fn done(&self) -> (u64, u64) {
        (self.files, self.bytes)
    }

    /// Sets the number of files and bytes done so far.
    pub(crate) fn set(&mut self, files: u64, bytes: u64) {
        (self.files, self.bytes) = (files, bytes);
        self.update();
    }

    /// Counts one more file as begun.
    pub(crate) fn file(&mut self) {
        self.files += 1;
        self.update();
    }

    /// Adds to the number of bytes done.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.update();
    }

    /// Adds to the number of bytes done, with a total that is known only now. Usable as a callback;
    /// never asks to stop.
    pub(crate) fn advance_of(&mut self, bytes: u64, total_bytes: u64) -> ControlFlow<()> {
        self.total = TotalBytes::Known(total_bytes);
        self.advance(bytes);
        ControlFlow::Continue(())
    }

    fn update(&mut self) {
        if self.shown == Shown::Not {
            return;
        }
        let now = Instant::now();
        if now - self.started >= QUIET && now - self.updated >= STEP {
            self.updated = now;
            match &mut self.rate {
                Some(rate) => rate.update(now, self.bytes),
                None => self.rate = Some(Rate::begin(now, self.bytes)),
            }
            self.show();
        }
    }

    fn show(&mut self) {
        let total_bytes = self.total.bytes();
        let per_second = self.rate.as_ref().and_then(Rate::per_second);
        let state = ProgressState {
            files: self.files,
            bytes: self.bytes,
            total_bytes,
            per_second,
            step: self.step,
        };
        match self.shown {
            Shown::Not => {}
            Shown::Json => print_json(&state.json()),
            Shown::Bar => draw(&state),
        }
    }

    /// Removes the bar, or writes the final numbers as JSON.
    pub(crate) fn finish(mut self) {
        self.total.stop();
        match self.shown {
            Shown::Bar => clear(),
            Shown::Json => self.show(),
            Shown::Not => {}
        }
    }
}

/// Removes the bar when an error ends the operation.
impl Drop for Progress {
    fn drop(&mut self) {
        self.total.stop();
        if self.shown == Shown::Bar {
            clear();
        }
    }
}

/// The state to show at one moment.
#[derive(Debug, Clone, Copy)]
struct ProgressState {
    files: u64,
    bytes: u64,
    total_bytes: Option<u64>,
    per_second: Option<u64>,
    step: Option<Step>,
}

impl Step {
    fn text(&self) -> String {
        if self.total == 0 {
            return self.name.to_owned();
        }
        format!("{}: {} of {}", self.name, self.done, self.total)
    }
}

impl ProgressState {
    /// Returns the remaining time, if total and rate are known.
    fn seconds_left(&self) -> Option<u64> {
        let left = self.total_bytes?.saturating_sub(self.bytes);
        left.checked_div(self.per_second?)
    }

    fn json(&self) -> serde_json::Value {
        let mut fields = json!({
            "files": self.files,
            "bytes": self.bytes,
            "total_bytes": self.total_bytes,
            "bytes_per_second": self.per_second,
            "seconds_left": self.seconds_left(),
        });
        if let Some(step) = self.step {
            fields["step"] = step.name.into();
            if step.total > 0 {
                fields["step_done"] = step.done.into();
                fields["step_total"] = step.total.into();
            }
        }
        fields
    }

    /// Returns how much is done, and of how much if that is known.
    fn position(&self) -> (u64, Option<u64>) {
        match self.step.filter(|step| step.total > 0) {
            Some(step) if self.bytes == 0 => (step.done, Some(step.total)),
            _ => (self.bytes, self.total_bytes),
        }
    }

    /// Returns the numbers beside the bar. They are computed here, because the library's rate
    /// includes what was done before the bar was shown.
    fn text(&self) -> String {
        if let Some(step) = self.step.filter(|_| self.bytes == 0) {
            return step.text();
        }
        let bytes = units(self.bytes);
        let mut parts = vec![match self.total_bytes {
            Some(total) => format!("{bytes} of {}", units(total)),
            None if self.bytes == 0 => format!("{} files", self.files),
            None if self.files == 0 => bytes,
            None => format!("{} files, {bytes}", self.files),
        }];
        if let Some(step) = self.step {
            parts.insert(0, step.text());
        }
        let per_second = self.per_second.filter(|_| self.bytes > 0);
        parts.extend(per_second.map(|rate| format!("{}/s", units(rate))));
        parts.extend(
            self.seconds_left()
                .map(|left| format!("{} left", duration(left))),
        );
        parts.join(", ")
    }
}

/// Formats a duration: `8 s`, `2 min 5 s`, `3 h 20 min`.
fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

fn print_json(progress: &serde_json::Value) {
    let line = format!("{}\n", json!({ "progress": progress }));
    let _ = io::stderr().write_all(line.as_bytes()); // A failure here cannot be reported.
}

fn draw(state: &ProgressState) {
    let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    let bar = drawn.get_or_insert_with(|| ProgressBar::new(0));
    let template = match state.position().1 {
        Some(_) => "[{bar:30}] {msg}",
        None => "{msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    let (done, total) = state.position();
    bar.set_length(total.unwrap_or(0));
    bar.set_position(done);
    bar.set_message(state.text());
    bar.tick();
}

/// Removes the bar, if there is one, so that a message can be printed.
pub(crate) fn clear() {
    let drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(bar) = drawn {
        bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_the_time_left_are_told_where_they_are_known() {
        let state = ProgressState {
            files: 7,
            bytes: 512 << 20,
            total_bytes: Some(1 << 30),
            per_second: Some(64 << 20),
            step: None,
        };
        assert_eq!(state.text(), "512 MiB of 1 GiB, 64 MiB/s, 8 s left");
        let unknown = ProgressState {
            total_bytes: None,
            ..state
        };
        assert_eq!(unknown.text(), "7 files, 512 MiB, 64 MiB/s");
        let first = ProgressState {
            bytes: 0,
            per_second: None,
            ..unknown
        };
        assert_eq!(first.text(), "7 files");
        let step = |done, total| Step {
            name: "inodes",
            done,
            total,
        };
        let checking = ProgressState {
            files: 0,
            step: Some(step(3, 12)),
            ..first
        };
        assert_eq!(checking.text(), "inodes: 3 of 12");
        assert_eq!(checking.position(), (3, Some(12)));
        assert_eq!(checking.json()["step_total"], 12);
        let growing = ProgressState {
            bytes: 1 << 20,
            step: Some(step(0, 0)),
            per_second: None,
            ..checking
        };
        assert_eq!(growing.text(), "inodes, 1 MiB");
        assert_eq!(duration(125), "2 min 5 s");
        assert_eq!(duration(12_000), "3 h 20 min");
    }
}
