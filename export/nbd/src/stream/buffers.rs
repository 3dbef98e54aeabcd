//! Buffers that are used again.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of buffers that are kept for a connection.
const MAX_KEPT: usize = 16;

/// The length of the largest buffer that is kept.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// The buffers of a connection that are not in use. Clearing a new buffer would cost as much as
/// reading into it.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Returns a buffer of this length with unspecified contents of this connection.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let kept = self.kept().pop();
        let mut bytes = kept.unwrap_or_default();
        if bytes.capacity() < len {
            // A new zeroed allocation: growing would copy the old contents.
            bytes = vec![0; len];
        }
        bytes.resize(len, 0);
        Buffer {
            bytes,
            home: Some(Arc::clone(self)),
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffers").finish_non_exhaustive()
    }
}

/// A buffer that returns to its connection when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    home: Option<Arc<Buffers>>,
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, home: None }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(home) = self.home.take() else { return };
        let bytes = std::mem::take(&mut self.bytes);
        let mut kept = home.kept();
        if kept.len() < MAX_KEPT && bytes.capacity() <= MAX_KEPT_BYTES {
            kept.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_a_large_one_is_not_kept() {
        let buffers = Arc::new(Buffers::default());
        let mut first = buffers.take(100);
        first.fill(7);
        drop(first);
        assert_eq!(buffers.take(50).len(), 50);
        assert_eq!(buffers.take(200).len(), 200);
        drop(buffers.take(MAX_KEPT_BYTES + 1));
        let kept = buffers.kept();
        assert!(kept.iter().all(|it| it.capacity() <= MAX_KEPT_BYTES));
    }
}
