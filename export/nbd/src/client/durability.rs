//! The writes that no flush has covered yet.

use std::sync::atomic::{AtomicBool, Ordering};

/// The writes that no flush has covered yet. If a connection ends in between, its server may have
/// lost them: then a flush on another connection must not succeed.
#[derive(Debug, Default)]
pub(super) struct Durability {
    has_written: AtomicBool,
    is_lost: AtomicBool,
}

impl Durability {
    /// Records a write, before it is sent and after it was answered.
    pub(super) fn written(&self) {
        self.has_written.store(true, Ordering::SeqCst);
    }

    /// Records that a connection ended.
    pub(super) fn connection_ended(&self) {
        if self.has_written.load(Ordering::SeqCst) {
            self.is_lost.store(true, Ordering::SeqCst);
        }
    }

    /// Begins a flush. Returns false if writes may be lost, which is told once.
    pub(super) fn begin_flush(&self) -> bool {
        self.has_written.store(false, Ordering::SeqCst);
        !self.is_lost.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_fails_the_next_flush_only_after_a_write() {
        let durability = Durability::default();
        durability.connection_ended();
        assert!(durability.begin_flush());
        durability.written();
        assert!(durability.begin_flush());
        durability.connection_ended();
        assert!(durability.begin_flush());
        durability.written();
        durability.connection_ended();
        assert!(!durability.begin_flush());
        assert!(durability.begin_flush());
    }
}
