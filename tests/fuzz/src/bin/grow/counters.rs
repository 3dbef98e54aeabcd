//! The counters of an instrumented program: how often each region of its code has run.
#![expect(
    unsafe_code,
    reason = "the counters are in a section that only the profiling runtime knows"
)]

unsafe extern "C" {
    /// Returns the start of the counters, in LLVM's `InstrProfiling.h`.
    fn __llvm_profile_begin_counters() -> *mut u64;
    /// Returns their end.
    fn __llvm_profile_end_counters() -> *mut u64;
}

/// Returns the number of counters.
fn count() -> usize {
    // SAFETY: both functions return a constant address of the same section.
    unsafe { __llvm_profile_end_counters().offset_from_unsigned(__llvm_profile_begin_counters()) }
}

/// Sets all counters to zero. Threads that run meanwhile may add to them.
pub(crate) fn reset() {
    // SAFETY: the runtime's section has this many counters, and is writable.
    unsafe { __llvm_profile_begin_counters().write_bytes(0, count()) };
}

/// Calls `visit` with the index of each counter that is not zero.
pub(crate) fn visit_nonzero(mut visit: impl FnMut(usize)) {
    for index in 0..count() {
        // SAFETY: the index is in the section. Instrumented code of other threads increments without
        // synchronisation, so the read is volatile; a value that is a moment old does no harm.
        if unsafe { __llvm_profile_begin_counters().add(index).read_volatile() } != 0 {
            visit(index);
        }
    }
}
