//! A machine that is going to be saved: what it does before, so that those that are made from it have it done.

use std::fs;
use std::hint::black_box;

use crate::modules;

/// What is left to the kernel and its threads.
const RESERVE_BYTES: u64 = 16 << 20;

/// Loads all modules, and leaves zeroes in the memory that nothing uses: what is saved of it is nothing.
pub(super) fn prepare() {
    modules::load_all();
    fs::write("/proc/sys/vm/drop_caches", "3").ok(); // Saves room only, as does what follows.
    clear_free_memory();
}

fn clear_free_memory() {
    let told = rustix::system::sysinfo();
    let free = told.freeram.saturating_mul(told.mem_unit.into());
    let len = usize::try_from(free.saturating_sub(RESERVE_BYTES)).unwrap_or(0);
    let mut memory = Vec::new();
    if memory.try_reserve_exact(len).is_ok() {
        // Zeroes that were only promised (as of `vec![0; len]`) would change nothing.
        black_box(&mut memory).resize(len, 0_u8);
        black_box(&memory);
    }
}
