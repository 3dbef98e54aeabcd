//! Memory for a hash that needs much of it.
#![expect(
    unsafe_code,
    reason = "rustix cannot say that this advice is safe and others are not"
)]

use rustix::mm::{Advice, madvise};

/// The usual size of a huge page, and a multiple of all sizes of other pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Returns zeroed memory in huge pages, if the host has any.
///
/// yescrypt touches 16 MiB once or twice: with pages of 4 KiB, a third of its time is page faults.
pub(super) fn zeroed(words: usize) -> Vec<u32> {
    // Large allocations are mapped: no page exists yet.
    let mut memory = vec![0_u32; words];
    advise_huge_pages(&mut memory);
    memory
}

fn advise_huge_pages(memory: &mut [u32]) {
    let bytes = size_of_val(memory);
    let start = memory.as_mut_ptr().cast::<u8>();
    // The real size of a page is not used: finding it out opens a file, which a confined process
    // cannot.
    let skipped = start.align_offset(HUGE_PAGE_BYTES);
    let rest = bytes.saturating_sub(skipped);
    let whole = rest.saturating_sub(rest.checked_rem(HUGE_PAGE_BYTES).unwrap_or(rest));
    if whole == 0 {
        return;
    }
    // SAFETY: the range is within `memory`, and the advice changes no contents.
    let advised = unsafe {
        madvise(
            start.wrapping_add(skipped).cast(),
            whole,
            Advice::LinuxHugepage,
        )
    };
    // It fails on kernels without huge pages, where the memory is as good as before.
    let _ = advised;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_every_size_is_zeroed() {
        let huge_words = HUGE_PAGE_BYTES / 4;
        for words in [0, 1, 1024, huge_words, 2 * huge_words + 1, 4 << 20] {
            let memory = zeroed(words);
            assert_eq!(memory.len(), words);
            assert!(memory.iter().all(|word| *word == 0));
        }
    }
}
