//! Violations of the protocol.

/// A message of the peer that violates the protocol, with the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Violation(pub(crate) &'static str);

/// The reason of a message that ends before its last field.
pub(super) const TRUNCATED: Violation = Violation("truncated message");
