//! Memory for a hash that needs much of it.
#![expect(
    unsafe_code,
    reason = "rustix cannot say that this advice is safe and others are not"
)]

use rustix::mm::{Advice, madvise};

/// The usual size of a huge page, and a multiple of all sizes of other pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Zeroed memory in huge pages, if the host has any.
///
/// yescrypt touches 16 MiB once or twice: with pages of 4 KiB, a third of its time is page faults.
pub(super) struct HugeMemory {
    words: Vec<u32>,
    /// The first word that is used: at the beginning of a huge page.
    start: usize,
}

impl HugeMemory {
    pub(super) fn zeroed(len: usize) -> Self {
        let huge_page_words = HUGE_PAGE_BYTES / size_of::<u32>();
        // Large allocations are mapped: no page exists yet. What is not used is never touched.
        let mut words = vec![0; len.saturating_add(huge_page_words)];
        let start = words.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // The distance is not always known; any start is correct.
        let start = start.min(huge_page_words);
        if let Some(used) = words.get_mut(start..start.saturating_add(len)) {
            advise_huge_pages(used);
        }
        Self { words, start }
    }

    /// Returns the memory, at least as long as it was asked for.
    pub(super) fn as_mut_slice(&mut self) -> &mut [u32] {
        self.words.get_mut(self.start..).unwrap_or_default()
    }
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
    fn memory_of_every_size_is_zeroed_and_begins_at_a_huge_page() {
        let huge_words = HUGE_PAGE_BYTES / 4;
        for len in [0, 1, 1024, huge_words, 2 * huge_words + 1, 4 << 20] {
            let mut memory = HugeMemory::zeroed(len);
            let memory = memory.as_mut_slice();
            assert!(memory.len() >= len);
            assert_eq!(memory.as_ptr().align_offset(HUGE_PAGE_BYTES), 0);
            assert!(memory.iter().all(|word| *word == 0));
        }
    }
}
