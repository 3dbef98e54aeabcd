//! The process that runs the cases and reports each.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diskfs_block::BlockRead;
use diskfs_fuzz::Target;
use rustix::time::{ClockId, clock_gettime};

use crate::{Arguments, Run, allocator};

/// The time limit of a case. It is processor time, so that a busy machine causes no findings.
const MAX_TIME: Duration = Duration::from_secs(1);

/// The maximum memory of a case in addition to the image.
const MAX_MEMORY_BYTES: usize = 64 << 20;

/// The resources that a case used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    time: Duration,
    memory_bytes: usize,
}

impl Cost {
    fn max(self, other: Self) -> Self {
        Self {
            time: self.time.max(other.time),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }
}

/// Prints the number of each case, runs it, and prints its finding, until the time is over. The
/// parent reads this output.
pub(crate) fn run(run: &Run, arguments: &Arguments) {
    let panics = keep_panics();
    let end = Instant::now().checked_add(Duration::from_secs(arguments.seconds.min(1 << 30)));
    let mut out = std::io::stdout().lock();
    let mut most = Cost::default();
    let last = if arguments.only_seeds {
        run.seeds.len() as u64
    } else {
        arguments.first.saturating_add(arguments.cases)
    };
    for number in arguments.first..last {
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        // The parent is gone: nothing is left to do.
        if writeln!(out, "case {number}").is_err() {
            return;
        }
        let case = run.case(number);
        let device: Arc<dyn BlockRead> = Arc::new(case.image);
        let printed = match check(case.target, &panics, || case.target.run(&device)) {
            Ok(cost) => {
                most = most.max(cost);
                Ok(())
            }
            Err(finding) => writeln!(out, "finding {number} {finding}"),
        };
        if printed.is_err() {
            return;
        }
    }
    let Cost { time, memory_bytes } = most;
    let _ = writeln!(
        out,
        "done slowest {time:.1?}, most memory {} KiB",
        memory_bytes >> 10
    );
}

/// Runs the case of a saved image.
pub(crate) fn replay(target: Target, data: &[u8]) -> ExitCode {
    let started = Instant::now();
    let panics = keep_panics();
    let device = diskfs_fuzz::device(data);
    let result = check(target, &panics, || target.run(&device));
    let mut out = std::io::stdout().lock();
    let time = started.elapsed();
    match result {
        Ok(cost) => {
            let _ = writeln!(out, "nothing wrong: {cost:?} ({time:?})");
            ExitCode::SUCCESS
        }
        Err(finding) => {
            let _ = writeln!(out, "{finding} ({time:?})");
            ExitCode::FAILURE
        }
    }
}

fn check(target: Target, panics: &Mutex<String>, run: impl FnOnce()) -> Result<Cost, String> {
    let before = allocator::begin();
    let started = cpu_time();
    let outcome = catch_unwind(AssertUnwindSafe(run));
    let time = cpu_time().saturating_sub(started);
    let memory = allocator::peak().saturating_sub(before);
    // The panics of all threads, including those that are only joined.
    let message = std::mem::take(&mut *panics.lock().unwrap_or_else(PoisonError::into_inner));
    if outcome.is_err() || !message.is_empty() {
        return Err(format!("{}: panic: {message}", target.name()));
    }
    if time > MAX_TIME {
        return Err(format!(
            "{}: slow: {time:?} of processor time",
            target.name()
        ));
    }
    if memory > MAX_MEMORY_BYTES {
        return Err(format!("{}: memory: {} MiB", target.name(), memory >> 20));
    }
    Ok(Cost {
        time,
        memory_bytes: memory,
    })
}

/// Returns the processor time of all threads of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Collects panic messages instead of printing them: the parent reports each once.
fn keep_panics() -> Arc<Mutex<String>> {
    let kept = Arc::new(Mutex::new(String::new()));
    let keep = Arc::clone(&kept);
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.to_string().replace('\n', " ");
        *keep.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test for all three, because time and memory are those of the whole process.
    #[test]
    fn notices_panics_time_and_memory() {
        let panics = keep_panics();
        let check = |run: fn()| check(Target::Probe, &panics, run);
        assert!(check(|| {}).is_ok());
        let finding = check(|| panic!("on {}", "purpose")).unwrap_err();
        assert!(
            finding.starts_with("probe: panic: panicked at tests/fuzz/src/bin/smoke/child.rs:")
        );
        assert!(finding.ends_with("on purpose"), "{finding}");
        let elsewhere = || drop(std::thread::spawn(|| panic!("elsewhere")).join());
        assert!(check(elsewhere).unwrap_err().ends_with("elsewhere"));
        let flood = || drop(std::hint::black_box(vec![1_u8; MAX_MEMORY_BYTES + 4096]));
        assert_eq!(check(flood).unwrap_err(), "probe: memory: 64 MiB");
        let spin = || {
            let end = cpu_time() + MAX_TIME + Duration::from_millis(10);
            while cpu_time() < end {}
        };
        assert!(check(spin).unwrap_err().starts_with("probe: slow: 1."));
        let _ = std::panic::take_hook();
    }
}
