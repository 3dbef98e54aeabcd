//! The error type of jobs.

use std::fmt;
use std::time::Duration;

/// The reason why a job has no answer. The pool goes on with other jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobError {
    /// The job panicked.
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// A signal killed the process.
    Killed {
        /// The number of the signal.
        signal: i32,
        /// The last line that the process printed.
        last_words: Option<String>,
    },
    /// The process allocated more memory than its limit.
    OutOfMemory,
    /// The job took longer than its deadline.
    OutOfTime {
        /// The deadline.
        deadline: Duration,
    },
    /// The job used more processor time than its limit.
    OutOfProcessorTime,
    /// The caller cancelled the job.
    Cancelled,
    /// The process exited without an answer.
    Exited {
        /// The exit code.
        code: i32,
        /// The last line that the process printed.
        last_words: Option<String>,
    },
    /// The process broke the protocol and was killed.
    Protocol {
        /// The violation.
        reason: String,
    },
    /// No process could be started or confined.
    Start {
        /// The step that failed, and why.
        reason: String,
    },
}

impl JobError {
    pub(super) fn protocol(reason: impl fmt::Display) -> Self {
        Self::Protocol {
            reason: printable(&reason.to_string()),
        }
    }

    pub(super) fn start(reason: impl fmt::Display) -> Self {
        Self::Start {
            reason: printable(&reason.to_string()),
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |f: &mut fmt::Formatter<'_>, words: &Option<String>| match words {
            Some(words) => write!(f, "; its last words: `{words}`"),
            None => Ok(()),
        };
        match self {
            Self::Panicked { message } => write!(f, "the worker process panicked: {message}"),
            Self::Killed { signal, last_words } => {
                write!(f, "the worker process was killed by signal {signal}")?;
                words(f, last_words)
            }
            Self::OutOfMemory => f.write_str("the worker process ran out of its memory limit"),
            Self::OutOfTime { deadline } => {
                let seconds = deadline.as_secs_f32();
                write!(f, "the worker process did not answer within {seconds} s")
            }
            Self::OutOfProcessorTime => {
                f.write_str("the worker process used up its processor time")
            }
            Self::Cancelled => f.write_str("cancelled"),
            Self::Exited { code, last_words } => {
                write!(f, "the worker process exited with code {code}")?;
                words(f, last_words)
            }
            Self::Protocol { reason } => {
                write!(f, "the worker process broke the protocol: {reason}")
            }
            Self::Start { reason } => write!(f, "cannot start a worker process: {reason}"),
        }
    }
}

impl std::error::Error for JobError {}

/// The longest text of a worker that is shown.
const TEXT_MAX_CHARS: usize = 2000;

/// Returns a text of a worker for people: bounded, and without control characters.
pub(super) fn printable(text: &str) -> String {
    let shown = text.chars().take(TEXT_MAX_CHARS);
    shown
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect()
}

/// Returns a text of a worker that may not be UTF-8.
pub(super) fn printable_bytes(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes))
}
