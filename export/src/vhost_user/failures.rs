//! Errors of the backing: the guest gets only an error status.

use std::sync::{Arc, OnceLock};

use diskfs_block::{Error, with_reasons};

/// The first error. All errors are logged.
#[derive(Debug, Default)]
pub(super) struct Failures(OnceLock<Arc<Error>>);

impl Failures {
    pub(super) fn first(&self) -> Option<Arc<Error>> {
        self.0.get().cloned()
    }

    pub(super) fn add(&self, operation: &'static str, error: Error) {
        tracing::error!(operation, "{}", with_reasons(&error));
        let _ = self.0.set(Arc::new(error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_stays() {
        let failures = Failures::default();
        assert!(failures.first().is_none());
        failures.add(
            "read",
            Error::corrupt("one").with_source(Error::invalid("below")),
        );
        failures.add("read", Error::corrupt("two"));
        let first = failures.first().unwrap();
        assert_eq!(first.reason(), "one");
        assert_eq!(with_reasons(first.as_ref()), "one: below");
    }
}
