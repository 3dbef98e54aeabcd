//! Whole requests on disks whose power fails: at each write, with the writes since the last flush
//! kept, lost, or some of them. The same request then completes the work.
//!
//! Without `DISKFS_CRASHES=N` a sample of the moments is tested; with it all moments, each with `N`
//! fates of the open writes.

mod case;
mod judge;
mod recorder;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use diskfs_block::{BlockWrite, Fate, Fault, Memory};
use diskfs_fixtures::have;
use diskfs_image::Format;

use super::super::options::{ImageSource, Storage};
use super::ResizeReport;
use crate::Result;

use case::{CASES, Case, Change, Table};
use recorder::Recorder;

/// The number of moments that are tested of each case, unless all are.
const SAMPLE: usize = 5;

/// A fate of the writes that were open in a crash, by its number.
fn fate(seed: u64, nth: usize) -> Box<dyn FnMut() -> Fate> {
    let mut state = DefaultHasher::new();
    (seed, nth).hash(&mut state);
    let mut state = state.finish();
    Box::new(move || match seed {
        0 => Fate::Lost,
        1 => Fate::Kept,
        _ => {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            if state >> 63 == 0 {
                Fate::Kept
            } else {
                Fate::Lost
            }
        }
    })
}

fn resize(case: &Case, device: Arc<dyn BlockWrite>) -> Result<ResizeReport> {
    let source = ImageSource::Device("disk".into(), Storage::Writable(device));
    let options = case.options();
    options.resize_source(&source, &case.request(), None, &mut |_| {
        ControlFlow::Continue(())
    })
}

/// Returns true if all moments are tested.
fn is_complete() -> bool {
    std::env::var_os("DISKFS_CRASHES").is_some()
}

/// Returns the moments to test, as indices, each with the fates of the open writes.
fn sample(moments: usize) -> Vec<(usize, std::ops::Range<u64>)> {
    if let Ok(fates) = std::env::var("DISKFS_CRASHES") {
        let fates = fates.parse().unwrap();
        return (0..moments).map(|nth| (nth, 0..fates)).collect();
    }
    let step = moments.div_ceil(SAMPLE);
    let nths = (0..moments).step_by(step);
    let fate = |nth: usize| u64::try_from(nth / step % 4).unwrap();
    nths.map(|nth| (nth, fate(nth)..fate(nth) + 1)).collect()
}

/// The test of one case.
struct Test<'a> {
    case: &'a Case,
    judged: HashSet<u64>,
    completed: usize,
}

impl Test<'_> {
    /// Makes the request on a disk, and returns the record.
    fn request(&mut self, bytes: Vec<u8>, what: &str) -> Recorder {
        let device = Arc::new(Recorder::new(bytes));
        let report = resize(self.case, device.clone());
        let report = report.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(
            report.warnings.is_empty() || !what.ends_with("undisturbed"),
            "{what}: {report:?}"
        );
        Arc::into_inner(device).unwrap()
    }

    /// Judges a disk after the request, and that the request has nothing more to do.
    fn judge(&mut self, bytes: &[u8], what: &str) {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        if !self.judged.insert(hasher.finish()) {
            return;
        }
        let judged = self.judged.len();
        // Most results are the same except for times.
        if is_complete() || judged % 3 == 1 {
            judge::judge(self.case, bytes, judged % 9 == 1, what);
        }
        let memory = Arc::new(Memory::new(bytes.to_vec()));
        let again = resize(self.case, memory.clone()).unwrap_or_else(|e| panic!("{what}: {e}"));
        judge::judge_report(self.case, &again, what);
        assert!(
            again.is_changed() || memory.to_vec() == bytes,
            "{what}: written again"
        );
    }

    /// Completes the request on what a crash left. Returns the record.
    fn complete(&mut self, left: Vec<u8>, what: &str) -> Recorder {
        judge::judge_left(self.case, &left, what);
        let record = self.request(left, what);
        self.judge(&record.bytes(), what);
        self.completed += 1;
        record
    }

    /// Tests the moments of the request, and of some requests that complete it.
    fn run(&mut self) {
        let name = format!("{:?}", self.case);
        let before = self.case.build();
        let record = self.request(before.clone(), &format!("{name}, undisturbed"));
        self.judge(&record.bytes(), &name);
        let moments = record.moments();
        let mut last = before.clone();
        for (nth, fates) in sample(moments.len()) {
            let moment = &moments[nth];
            for seed in fates {
                let left = record.left(&before, moment, &mut fate(seed, nth));
                if left == last {
                    continue;
                }
                last.clone_from(&left);
                let what = format!("{name}, {moment:?}, fate {seed}");
                let second = self.complete(left.clone(), &what);
                if is_complete() || self.completed % 4 == 1 {
                    self.crash_again(&left, &second, &what);
                }
            }
        }
        self.fail(&before, moments.len(), &name);
        assert!(self.completed > 3, "{name}: {}", self.completed);
    }

    /// Tests requests of which one write or flush fails.
    fn fail(&mut self, before: &[u8], moments: usize, name: &str) {
        for (nth, _) in sample(moments) {
            let nth = u64::try_from(nth).unwrap();
            let faults = [Fault::FailWrite { nth }, Fault::FailFlush { nth }];
            // A sample has one of them at each moment.
            let skipped = usize::from(!is_complete() && nth % 2 == 0);
            for fault in faults.into_iter().skip(skipped) {
                let device = Arc::new(Recorder::with_fault(before.to_vec(), Some(fault)));
                let what = format!("{name}, {fault:?}");
                if resize(self.case, device.clone()).is_err() {
                    self.complete(device.bytes(), &what);
                }
            }
        }
    }

    /// Tests a crash in the middle of the request that completes another one.
    fn crash_again(&mut self, before: &[u8], second: &Recorder, what: &str) {
        let moments = second.moments();
        let Some(moment) = moments.get(moments.len() / 2) else {
            return;
        };
        let left = second.left(before, moment, &mut fate(2, moments.len()));
        self.complete(left, &format!("{what}; again {moment:?}"));
    }
}

/// Tests the cases of a change, without `DISKFS_CRASHES` every second one from `first` on.
fn run(change: Change, first: usize) {
    if !have(&["e2fsck", "fsck.fat", "fsck.exfat", "sgdisk", "qemu-img"]) {
        return;
    }
    let (first, step) = if is_complete() { (0, 1) } else { (first, 2) };
    let cases = CASES.iter().filter(|case| case.change == change);
    for case in cases.skip(first).step_by(step) {
        Test {
            case,
            judged: HashSet::new(),
            completed: 0,
        }
        .run();
    }
}

/// A crash between the two writes of the primary GPT, after the backup was written.
#[test]
fn a_half_written_primary_is_completed() {
    for case in CASES {
        if case.table != Table::Gpt || case.format != Format::Raw {
            continue;
        }
        let undisturbed = Recorder::new(case.build());
        let device = Arc::new(undisturbed);
        resize(case, device.clone()).unwrap();
        let mut bytes = device.bytes();
        // The entries begin at LBA 2.
        bytes[2 * 512 + 40] ^= 1;
        let memory = Arc::new(Memory::new(bytes));
        resize(case, memory.clone()).unwrap_or_else(|e| panic!("{case:?}: {e}"));
        let disk = case.reading().open_device("disk", memory).unwrap();
        assert_eq!(disk.warnings(), [""; 0], "{case:?}");
    }
}

#[test]
fn a_crash_while_growing_is_completed() {
    run(Change::Grow, 0);
}

#[test]
fn a_crash_while_shrinking_is_completed() {
    run(Change::Shrink, 1);
}

#[test]
fn a_crash_while_shrinking_to_the_minimum_is_completed() {
    run(Change::ShrinkToMinimum, 1);
}
