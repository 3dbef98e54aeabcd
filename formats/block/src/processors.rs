//! The number of processors.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::thread::available_parallelism;

/// Returns the number of processors that this process may use; 1 if it is unknown.
///
/// It is looked up once, because that opens files of cgroups, which takes longer than opening an
/// image does.
pub fn processors() -> NonZeroUsize {
    static PROCESSORS: OnceLock<NonZeroUsize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| available_parallelism().unwrap_or(NonZeroUsize::MIN))
}
