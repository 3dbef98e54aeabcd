//! The measurement of a repeated operation, by decades: the first hundred, the first thousand, and
//! so on.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::level::Level;
use crate::interrupt;
use crate::samples::to_float;

/// The number of parts of a decade whose median counts, so that other load on the machine for a
/// while doesn't.
const SLICES: u64 = 9;

/// The time that is too short to be compared.
const CLOCK_SECONDS: f64 = 1e-6;

/// The memory that is not yet growth: caches fill up to their limits.
const MEMORY_SLACK_KIB: u64 = 128 << 10;

/// The number of times that the memory may grow beyond that.
const MEMORY_FACTOR: u64 = 2;

/// The number of descriptors and threads that may come after the first decade.
const DESCRIPTOR_SLACK: u64 = 8;

/// The operations up to a power of ten.
#[derive(Debug)]
struct Decade {
    /// The number of operations so far.
    end: u64,
    /// The seconds for each operation: the median of the slices.
    seconds: f64,
    /// The seconds of processor time for each operation, of the measured process.
    processor_seconds: f64,
    level: Level,
}

/// A repeated operation.
#[derive(Debug)]
pub(super) struct Phase {
    decades: Vec<Decade>,
}

/// The limits of the time of the last decade.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slower {
    /// The number of times that an operation may take longer than in the first decade.
    pub(super) factor: f64,
    /// True if other programs make the machine slow, so that only processor time counts.
    pub(super) is_busy: bool,
}

/// The limits for each repetition, for operations that keep something.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    /// The memory in bytes.
    pub(super) memory_bytes: u64,
    /// The number of descriptors.
    pub(super) descriptors: u64,
    /// The number of threads.
    pub(super) threads: u64,
}

impl Phase {
    /// Repeats an operation, and measures it. The first decade has at least `first` operations.
    pub(super) fn measure(
        count: u64,
        first: u64,
        level: impl Fn() -> Result<Level>,
        processor_time: impl Fn() -> Result<Duration>,
        mut operation: impl FnMut(u64) -> Result<()>,
    ) -> Result<Self> {
        let mut phase = Self {
            decades: Vec::new(),
        };
        let mut done = 0;
        for end in ends(count, first) {
            let mut seconds = Vec::new();
            let (start, before) = (done, processor_time()?);
            for slice in 1..=SLICES {
                let to = start + (end - start) * slice / SLICES;
                if to == done {
                    continue;
                }
                interrupt::check()?;
                let clock = Instant::now();
                for number in done..to {
                    operation(number)?;
                }
                seconds.push(clock.elapsed().as_secs_f64() / to_float(to - done));
                done = to;
            }
            let used = processor_time()?.saturating_sub(before);
            seconds.sort_by(f64::total_cmp);
            phase.decades.push(Decade {
                end,
                seconds: seconds.get(seconds.len() / 2).copied().unwrap_or_default(),
                processor_seconds: used.as_secs_f64() / to_float(end - start),
                level: level()?,
            });
        }
        Ok(phase)
    }

    /// Prints a row for each decade.
    pub(super) fn print(&self, case: &str, title: &str, print: &dyn Fn(&str)) {
        for decade in &self.decades {
            let Level {
                memory_kib,
                descriptors,
                threads,
            } = decade.level;
            print(&format!(
                "| {case} | {title} | {} | {:.0} | {:.1} | {:.1} | {} | {descriptors} | {threads} |",
                decade.end,
                1.0 / decade.seconds.max(f64::MIN_POSITIVE),
                decade.seconds * 1e6,
                decade.processor_seconds * 1e6,
                memory_kib >> 10,
            ));
        }
    }

    /// Fails if the last decade needs more than the first: more time than `slower` allows, or more
    /// memory, descriptors or threads than caches and the limits of each repetition explain.
    pub(super) fn check(
        &self,
        title: &str,
        before: Level,
        limits: Limits,
        slower: Slower,
    ) -> Result<()> {
        let (Some(first), Some(last)) = (self.decades.first(), self.decades.last()) else {
            return Ok(());
        };
        let processor = (first.processor_seconds, last.processor_seconds);
        let wall = (first.seconds, last.seconds);
        let both = [(processor, "processor time"), (wall, "time")];
        let counted = if slower.is_busy { &both[..1] } else { &both };
        for ((first_seconds, last_seconds), what) in counted {
            ensure!(
                *last_seconds <= first_seconds * slower.factor + CLOCK_SECONDS,
                "{title}: {:.1} us of {what} each at {}, and {:.1} us each at {}",
                first_seconds * 1e6,
                first.end,
                last_seconds * 1e6,
                last.end
            );
        }
        let count = last.end;
        let memory_kib = before.memory_kib.max(first.level.memory_kib) * MEMORY_FACTOR;
        let allowed = [
            memory_kib.max(before.memory_kib + MEMORY_SLACK_KIB)
                + ((limits.memory_bytes * count) >> 10),
            before.descriptors.max(first.level.descriptors)
                + DESCRIPTOR_SLACK
                + limits.descriptors * count,
            before.threads.max(first.level.threads) + DESCRIPTOR_SLACK + limits.threads * count,
        ];
        let used = [
            last.level.memory_kib,
            last.level.descriptors,
            last.level.threads,
        ];
        let names = ["KiB of memory", "descriptors", "threads"];
        for ((used, allowed), name) in used.into_iter().zip(allowed).zip(names) {
            ensure!(
                used <= allowed,
                "{title}: {used} {name} after {count} operations, at most {allowed} expected"
            );
        }
        Ok(())
    }
}

/// Returns the ends of the decades: the last is `count`.
fn ends(count: u64, first: u64) -> Vec<u64> {
    let mut ends = vec![count];
    let mut end = count / 10;
    while end >= first.max(1) {
        ends.push(end);
        end /= 10;
    }
    ends.reverse();
    ends
}

/// Returns the head of the table.
pub(super) fn head() -> String {
    "| case | operation | number | operations/s | us each | processor us | memory (MiB) | descriptors | threads \
     |\n|---|---|---|---|---|---|---|---|---|"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;

    const NOTHING: Level = Level {
        memory_kib: 1000,
        descriptors: 3,
        threads: 1,
    };

    const SLOWER: Slower = Slower {
        factor: 4.0,
        is_busy: false,
    };

    fn check(phase: &Phase, limits: Limits) -> String {
        let checked = phase.check("test", NOTHING, limits, SLOWER);
        checked.map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn decades_end_at_the_count() {
        assert_eq!(ends(2000, 20), [20, 200, 2000]);
        assert_eq!(ends(5, 20), [5]);
    }

    #[test]
    fn an_operation_that_gets_slower_is_found() {
        let sleep = |number: u64| {
            std::thread::sleep(Duration::from_micros(50 + number * 20));
            Ok(())
        };
        let phase = Phase::measure(1000, 20, || Ok(NOTHING), || Ok(Duration::ZERO), sleep).unwrap();
        let error = check(&phase, Limits::default());
        assert!(error.contains("us of time each"), "{error}");
    }

    #[test]
    fn a_descriptor_that_stays_open_is_found() {
        let open = Cell::new(0);
        let level = || {
            Ok(Level {
                descriptors: open.get(),
                ..NOTHING
            })
        };
        let operation = |_| {
            open.set(open.get() + 1);
            std::thread::sleep(Duration::from_micros(100));
            Ok(())
        };
        let phase = Phase::measure(1000, 20, level, || Ok(Duration::ZERO), operation).unwrap();
        let error = check(&phase, Limits::default());
        assert!(error.contains("1000 descriptors"), "{error}");
        let limits = Limits {
            descriptors: 1,
            ..Limits::default()
        };
        assert_eq!(check(&phase, limits), "");
    }
}
