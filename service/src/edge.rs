//! The gRPC services: each method converts its message, has the job carried out, and converts the
//! answer.

mod deploy_agent;
mod disks;
mod idempotency;
mod status;

pub(crate) use deploy_agent::Agent;
pub(crate) use disks::DisksService;
