//! Preparations of a machine whose state will be saved, so that restored machines need not do them.

use std::fs;
use std::hint::black_box;

use crate::modules;

/// The memory that is left to the kernel and its threads.
const RESERVE_BYTES: u64 = 16 << 20;

/// Loads all modules and fills the free memory with zeroes, which take no space in the saved state.
pub(super) fn prepare() {
    modules::load_all();
    // This only saves space, like the rest of this function.
    fs::write("/proc/sys/vm/drop_caches", "3").ok();
    clear_free_memory();
}

fn clear_free_memory() {
    let memory = rustix::system::sysinfo();
    let free = memory.freeram.saturating_mul(memory.mem_unit.into());
    let len = usize::try_from(free.saturating_sub(RESERVE_BYTES)).unwrap_or(0);
    let mut memory = Vec::new();
    if memory.try_reserve_exact(len).is_ok() {
        // The memory must really be written: zeroes that are only promised (as by `vec![0; len]`)
        // have no effect.
        black_box(&mut memory).resize(len, 0_u8);
        black_box(&memory);
    }
}
