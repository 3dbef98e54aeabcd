//! Confinement of processes that parse hostile images.
//!
//! * A [`Profile`] is what a process may do from some moment on: files (Landlock), system calls
//!   (seccomp), memory, processor time. A process applies it to itself.
//! * A [`Broker`] opens files for a process that can open none: the images that it was
//!   [granted](Grants), and the files that these images name, as far as the gate allows them.
//! * A [`Pool`] keeps confined processes ready, and runs one job in each of them. A job that panics,
//!   loops, allocates too much or is killed harms no other job.
//!
//! ```no_run
//! use diskfs_sandbox::{Grants, JobControl, Pool, PoolOptions, worker};
//!
//! // In the hidden command that the pool starts, before anything else:
//! fn worker_main() -> std::process::ExitCode {
//!     worker::serve(|job, context| {
//!         let options = diskfs_image::OpenOptions {
//!             files: context.opener(),
//!             ..Default::default()
//!         };
//!         let path = std::path::Path::new(std::str::from_utf8(job).unwrap());
//!         let image = diskfs_image::Image::open(path, &options).unwrap();
//!         image.description().virtual_size_bytes.to_le_bytes().to_vec()
//!     })
//! }
//!
//! // In the program that has the jobs:
//! let pool = Pool::start(PoolOptions::of_this_program(["worker"]))?;
//! let grants = Grants::default().reading("/srv/disk.qcow2");
//! let answer = pool.run(b"/srv/disk.qcow2", &grants, &mut JobControl::default())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Trust
//!
//! The process that confines itself is trusted until then, and hostile afterwards. Its parent
//! checks the length of each message before it reads it, ends a process that breaks the protocol,
//! and decides by facts that it has gathered itself.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod broker;
mod broker_process;
mod client;
mod limits;
mod link;
mod message;
#[cfg(feature = "testing")]
pub mod planted;
mod pool;
mod profile;
mod ruleset;
mod seccomp;
mod sys;
mod wire;
pub mod worker;
mod zygote;

pub use broker::{Broker, Grants};
pub use broker_process::{AnswerOther, BrokerClient, OtherAnswer, serve_broker};
pub use limits::Limits;
pub use message::Level;
pub use pool::{Cancellation, Event, JobControl, JobError, Pool, PoolOptions};
pub use profile::{Confined, Profile, Strictness};
pub use ruleset::{FileRules, HostFiles, Network, RulesError};
pub use seccomp::Calls;

/// In builds for tests, lets the compromised parser act if its variable is
/// set. Otherwise does nothing.
pub fn act_if_planted() {
    #[cfg(feature = "testing")]
    planted::act();
}
