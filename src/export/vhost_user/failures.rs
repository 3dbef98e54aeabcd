//! What went wrong with the device below: a guest is only told that something did.

use std::error::Error as _;
use std::sync::{Arc, OnceLock};

use diskfs_block::Error;

/// Keeps the first error, and logs them all.
#[derive(Debug, Default)]
pub(super) struct Failures(OnceLock<Arc<Error>>);

impl Failures {
    pub(super) fn first(&self) -> Option<Arc<Error>> {
        self.0.get().cloned()
    }

    pub(super) fn add(&self, operation: &'static str, error: Error) {
        tracing::error!(operation, "{}", chain(&error));
        let _ = self.0.set(Arc::new(error));
    }
}

/// The error, and the reasons below it.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(reason) = source {
        text.push_str(": ");
        text.push_str(&reason.to_string());
        source = reason.source();
    }
    text
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
        assert_eq!(chain(&first), "one: below");
    }
}
