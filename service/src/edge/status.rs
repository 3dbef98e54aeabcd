//! The gRPC status of failures.

use tonic::{Code, Status};

use crate::failure::{Failure, FailureKind};

/// Returns the status of a failure, with its message.
pub(super) fn status(failure: Failure) -> Status {
    Status::new(code(failure.kind), failure.message)
}

fn code(kind: FailureKind) -> Code {
    match kind {
        FailureKind::Io | FailureKind::Internal => Code::Internal,
        FailureKind::Corrupt => Code::DataLoss,
        FailureKind::Unsupported => Code::Unimplemented,
        FailureKind::NotFound => Code::NotFound,
        FailureKind::Exists => Code::AlreadyExists,
        FailureKind::NoSpace => Code::ResourceExhausted,
        // The caller must change something before it tries again.
        FailureKind::Locked | FailureKind::ReadOnly => Code::FailedPrecondition,
        FailureKind::Denied => Code::PermissionDenied,
        FailureKind::Invalid => Code::InvalidArgument,
        FailureKind::Cancelled => Code::Cancelled,
        FailureKind::DeadlineExceeded => Code::DeadlineExceeded,
        FailureKind::Unavailable => Code::Unavailable,
    }
}

/// Returns the status of an answer that no job of the request has.
pub(super) fn unexpected() -> Status {
    Status::internal("internal error: the job has another answer than its request")
}
