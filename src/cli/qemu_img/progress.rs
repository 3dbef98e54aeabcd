//! The progress of `-p`: a line on standard output that is overwritten.

use std::io::{Stdout, Write};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// The shortest time between two updates.
const INTERVAL: Duration = Duration::from_millis(100);

/// The progress of an operation; prints nothing unless it was asked for.
#[derive(Debug)]
pub(super) struct Progress {
    /// Standard output, if progress is printed.
    out: Option<Stdout>,
    done_bytes: u64,
    total_bytes: u64,
    printed: Option<Instant>,
}

impl Progress {
    /// Begins with nothing done.
    pub(super) fn new(is_wanted: bool, total_bytes: u64) -> Self {
        let mut progress = Self {
            out: is_wanted.then(std::io::stdout),
            done_bytes: 0,
            total_bytes,
            printed: None,
        };
        progress.print();
        progress
    }

    /// Adds bytes that were done.
    pub(super) fn advance(&mut self, bytes: u64) -> ControlFlow<()> {
        self.done_bytes = self.done_bytes.saturating_add(bytes);
        if self.out.is_some() && self.printed.is_none_or(|at| at.elapsed() >= INTERVAL) {
            self.print();
        }
        ControlFlow::Continue(())
    }

    /// Adds bytes that were done, of this total.
    pub(super) fn advance_of(&mut self, bytes: u64, total_bytes: u64) -> ControlFlow<()> {
        self.total_bytes = total_bytes;
        self.advance(bytes)
    }

    /// Ends the line, after success with 100 percent.
    pub(super) fn finish(mut self, is_success: bool) {
        if is_success {
            (self.done_bytes, self.total_bytes) = (1, 1);
            self.print();
        }
        if let Some(out) = &mut self.out {
            let _ = out.write_all(b"\n"); // Progress is not worth a failure.
        }
    }

    fn print(&mut self) {
        let Some(out) = &mut self.out else {
            return;
        };
        let hundredths = u128::from(self.done_bytes)
            .saturating_mul(10_000)
            .checked_div(u128::from(self.total_bytes))
            .unwrap_or(0)
            .min(10_000);
        let (whole, part) = (hundredths / 100, hundredths % 100);
        // Progress is not worth a failure.
        let _ = write!(out, "    ({whole}.{part:02}/100%)\r");
        let _ = out.flush();
        self.printed = Some(Instant::now());
    }
}
