//! Random sizes and fill levels.

use std::fmt::Write;
use std::sync::Arc;

use diskfs_block::{BlockWrite, Memory};
use diskfs_vfs::ErrorKind;

use crate::forms::{FORMS, Form, Random, extend, fill};

fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap()
}

/// Returns the bytes of the image up to the end of its filesystem.
fn upto(memory: &Memory, size_bytes: u64) -> Vec<u8> {
    let mut bytes = memory.to_vec();
    bytes.truncate(usize_of(size_bytes));
    bytes
}

fn sizes(form: Form, smallest: u64, seed: u64) {
    let mut random = Random(seed);
    let start = (smallest + random.below(smallest)) << 10;
    let memory = Arc::new(Memory::new(vec![0; usize_of(start)]));
    form.format(&*memory).unwrap();
    let percent = [5, 30, 60, 90, 99][usize_of(random.below(5))];
    fill(form, memory.clone(), &mut random, percent);
    let expected = form.judge(&memory.to_vec(), "at first");
    let mut bytes = memory.to_vec();
    let mut what = format!("{form:?} {seed} {percent}% {start}");
    for _ in 0..4 {
        let device: Arc<dyn BlockWrite> = Arc::new(Memory::new(bytes.clone()));
        let least = form.minimum_size(&device).unwrap();
        let now = bytes.len() as u64;
        let target = match random.below(3) {
            0 => least + random.below(now.saturating_sub(least).max(1)),
            1 => now + random.below(20_000),
            _ => now + random.below(3 * now),
        };
        write!(what, " {target}").unwrap();
        extend(&mut bytes, target);
        let memory = Arc::new(Memory::new(bytes));
        let device: Arc<dyn BlockWrite> = memory.clone();
        match form.resize(&device, target) {
            Ok(resized) => {
                assert!(resized.new_bytes <= target, "{what}: {resized:?}");
                bytes = upto(&memory, resized.new_bytes);
                let again = form.resize(&device, target).unwrap();
                let sizes = (again.old_bytes, again.new_bytes);
                assert_eq!(sizes, (resized.new_bytes, resized.new_bytes), "{what}");
                assert!(upto(&memory, resized.new_bytes) == bytes, "{what}");
                write!(what, "={}", resized.new_bytes).unwrap();
            }
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                let room = target.saturating_sub(now);
                assert!(
                    target >= now && percent > 50 && room < 1 << 20,
                    "{what}: {e}"
                );
                bytes = upto(&memory, now);
                what += "=full";
            }
            Err(e) => panic!("{what}: {e}"),
        }
        assert_eq!(form.judge(&bytes, &what), expected, "{what}");
    }
}

#[test]
fn random_sizes_and_fill_levels() {
    let rounds = std::env::var("DISKFS_ROUNDS").map(|n| n.parse().unwrap());
    let only = std::env::var("DISKFS_FORM").map(|n| n.parse::<usize>().unwrap());
    for (nth, (form, smallest)) in FORMS.into_iter().enumerate() {
        if only.as_ref().is_ok_and(|only| *only != nth) {
            continue;
        }
        let usual = if smallest > 10_000 { 1 } else { 3 };
        for seed in 1..=*rounds.as_ref().unwrap_or(&usual) {
            sizes(form, smallest, seed * 77 + nth as u64);
        }
    }
}
