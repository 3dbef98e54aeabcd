//! NBD, the network block device, both ways: [`server`] serves block devices to the clients of NBD,
//! and [`client`] is a block device that an NBD server exports.
//!
//! Both speak the protocol that `doc/proto.md` of the project NBD describes: fixed newstyle, with
//! structured replies or extended headers, metadata contexts and TLS.
//!
//! # Limits
//!
//! `DESIGN.md` has all limits: what is supported and what is refused.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

pub mod client;
mod failure;
mod protocol;
pub mod server;
mod stream;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;

pub use stream::Connection;
