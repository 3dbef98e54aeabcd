//! The writes of an edited table, in an order that a crash survives.

use diskfs_block::{BlockWrite, Result};

/// Writes in steps: everything of a step is durable before the next one begins.
#[derive(Debug, Default)]
pub(super) struct Plan {
    steps: Vec<Vec<PlannedWrite>>,
}

/// A write to the disk.
#[derive(Debug)]
pub(super) struct PlannedWrite {
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

impl Plan {
    /// Adds a step after the others.
    pub(super) fn step(&mut self, writes: impl IntoIterator<Item = PlannedWrite>) {
        self.steps.push(writes.into_iter().collect());
    }

    /// Executes the plan. Bytes that the disk has already are not written. Returns true if anything
    /// was written.
    ///
    /// # Errors
    /// Errors of the device.
    pub(super) fn execute(&self, device: &dyn BlockWrite) -> Result<bool> {
        let mut has_written = false;
        for step in &self.steps {
            let mut needs_flush = false;
            for write in step {
                if !write.is_there(device)? {
                    device.write_at(write.offset, &write.bytes)?;
                    needs_flush = true;
                }
            }
            if needs_flush {
                device.flush()?;
                has_written = true;
            }
        }
        Ok(has_written)
    }
}

impl PlannedWrite {
    /// Returns true if the disk has these bytes already.
    fn is_there(&self, device: &dyn BlockWrite) -> Result<bool> {
        let mut stored = vec![0; self.bytes.len()];
        device.read_at(self.offset, &mut stored)?;
        Ok(stored == self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_block::{Event, Faulty, Memory};
    use std::sync::Arc;

    fn write(offset: u64, bytes: &[u8]) -> PlannedWrite {
        PlannedWrite {
            offset,
            bytes: bytes.to_vec(),
        }
    }

    #[test]
    fn only_what_differs_is_written_and_each_step_is_flushed() {
        let device = Faulty::new(Arc::new(Memory::new(vec![0; 100])), []);
        let mut plan = Plan::default();
        plan.step([write(0, &[1]), write(10, &[0, 0])]);
        plan.step([write(20, &[0])]);
        plan.step([write(30, &[2])]);
        assert!(plan.execute(&device).unwrap());
        let kinds: Vec<u64> = device.log().events().iter().map(Event::len_bytes).collect();
        assert_eq!(kinds, [1, 0, 1, 0]);
        assert!(!plan.execute(&device).unwrap());
        assert_eq!(device.logged(), 4);
    }
}
