//! gRPC services over the disks of a host.
//!
//! [`serve`] offers two services on a Unix socket, and with TLS to other machines:
//! `apis.DeployAgent`, which is that of Cloudpods' host-deployer, and `diskfs.v1.Disks`, diskfs's
//! own. The .proto files are in `proto/`.
//!
//! A request passes four layers, each of which knows only the next one:
//!
//! | layer | what it does |
//! |---|---|
//! | the edge | gRPC: messages, status codes, streams |
//! | conversion | checks a message, and makes a [`job::Job`] of it |
//! | the runner | waits for the image's lock and for a turn, cancels, measures |
//! | an [`executor::Executor`] | carries out the job: on a thread, or in another process |

mod config;
mod convert;
mod edge;
pub mod executor;
pub mod failure;
mod image_locks;
pub mod job;
mod key;
mod metrics;
mod metrics_http;
mod notify;
mod proto;
mod runner;
mod server;
#[cfg(feature = "testing")]
pub mod testing;

pub use config::Config;
pub use server::{SOCKET, ServerOptions, Tls, serve};
