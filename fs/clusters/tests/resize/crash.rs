//! Tests of a crash at any moment: the filesystem has its old or its new size, or every driver
//! refuses it and the same call completes the work.

use std::collections::HashSet;
use std::sync::Arc;

use diskfs_block::{BlockWrite, Event, Fault, Faulty, Memory, WriteLog};
use diskfs_vfs::ErrorKind;

use crate::common::{Tree, tree};
use crate::forms::{FORMS, Form, Random, extend, fill};

/// A change of the size, and the image before it.
struct Case {
    form: Form,
    before: Vec<u8>,
    tree: Tree,
    target: u64,
    what: String,
}

impl Case {
    /// Returns a growth that moves the clusters if `factor` is large, or a shrink for 0.
    fn new(form: Form, smallest: u64, factor: u64, seed: u64) -> Self {
        let mut random = Random(seed);
        let size = smallest << 10;
        let memory = Arc::new(Memory::new(vec![0; usize::try_from(size).unwrap()]));
        form.format(&*memory).unwrap();
        fill(
            form,
            memory.clone(),
            &mut random,
            if factor == 0 { 30 } else { 70 },
        );
        let device: Arc<dyn BlockWrite> = memory.clone();
        let target = match factor {
            0 => form.minimum_size(&device).unwrap(),
            factor => size * factor,
        };
        let mut before = memory.to_vec();
        let tree = form.judge(&before, "before");
        extend(&mut before, target);
        Self {
            form,
            before,
            tree,
            target,
            what: format!("{form:?}, {size} to {target}, seed {seed}"),
        }
    }

    fn log(&self) -> (WriteLog, u64) {
        let memory = Arc::new(Memory::new(self.before.clone()));
        let device = Arc::new(Faulty::new(Arc::clone(&memory), []));
        let below: Arc<dyn BlockWrite> = device.clone();
        let resized = self.form.resize(&below, self.target).unwrap();
        self.judge(&memory.to_vec(), resized.new_bytes, "undisturbed");
        (device.log(), resized.new_bytes)
    }

    fn judge(&self, bytes: &[u8], size_bytes: u64, when: &str) {
        let what = format!("{}, {when}", self.what);
        let bytes = &bytes[..usize::try_from(size_bytes).unwrap()];
        assert!(self.form.judge(bytes, &what) == self.tree, "{what}");
    }

    /// Asks for the smallest size and repeats the call, as a caller does who plans first; checks the
    /// result.
    fn complete(&self, bytes: Vec<u8>, new_bytes: u64, when: &str) -> Vec<u8> {
        let memory = Arc::new(Memory::new(bytes));
        let device: Arc<dyn BlockWrite> = memory.clone();
        let minimum = self.form.minimum_size(&device);
        minimum.unwrap_or_else(|e| panic!("{}, {when}, smallest size: {e}", self.what));
        let resized = self.form.resize(&device, self.target);
        let resized = resized.unwrap_or_else(|e| panic!("{}, {when}: {e}", self.what));
        assert_eq!(resized.new_bytes, new_bytes, "{}, {when}", self.what);
        memory.to_vec()
    }

    /// Checks the states that a crash can leave; returns how many had to be completed from the
    /// record.
    fn crashes(&self) -> usize {
        let (log, new_bytes) = self.log();
        let mut seen = HashSet::new();
        let mut completed = 0;
        for state in log.states(1) {
            let left = Memory::new(self.before.clone());
            state.replay(&left).unwrap();
            let bytes = left.to_vec();
            if !seen.insert(crc32c_of(&bytes)) {
                continue;
            }
            let when = state.to_string();
            match self.form.open(bytes.clone()) {
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corrupt, "{}, {when}: {e}", self.what);
                    assert!(e.to_string().contains("interrupted"), "{e}");
                    completed += 1;
                }
                Ok(fs) => assert!(tree(&*fs) == self.tree, "{}, {when}", self.what),
            }
            let bytes = self.complete(bytes, new_bytes, &when);
            if seen.insert(crc32c_of(&bytes)) {
                self.judge(&bytes, new_bytes, &when);
            }
        }
        completed
    }

    /// Lets each write fail, and repeats the call.
    fn failures(&self) {
        let (log, new_bytes) = self.log();
        let writes = log
            .events()
            .iter()
            .filter(|event| **event != Event::Flush)
            .count();
        for nth in 0..writes as u64 {
            let memory = Arc::new(Memory::new(self.before.clone()));
            let device: Arc<dyn BlockWrite> =
                Arc::new(Faulty::new(Arc::clone(&memory), [Fault::FailWrite { nth }]));
            let when = format!("write {nth} failed");
            // A failed discard is no error.
            let _ = self.form.resize(&device, self.target);
            let bytes = self.complete(memory.to_vec(), new_bytes, &when);
            if nth.is_multiple_of(7) {
                self.judge(&bytes, new_bytes, &when);
            }
        }
    }
}

fn crc32c_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

#[test]
fn a_crash_at_every_moment() {
    for (nth, (form, smallest)) in FORMS.into_iter().enumerate() {
        if smallest > 3000 {
            continue;
        }
        for factor in [0, 3] {
            let case = Case::new(form, smallest, factor, 100 + nth as u64);
            assert!(case.crashes() > 0, "{}", case.what);
        }
    }
}

#[test]
fn every_write_fails_once() {
    for (form, smallest) in [FORMS[0], FORMS[6], FORMS[8]] {
        for factor in [0, 3] {
            Case::new(form, smallest, factor, 7).failures();
        }
    }
}
