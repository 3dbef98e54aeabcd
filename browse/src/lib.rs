//! The server of `diskfs browse`: a page that shows disk images, and its HTTP API.
//!
//! The server reads no image itself. Each request runs a command of the program as a child process,
//! which confines itself as always, and the answer is what the command prints with `--json`.
//! [`Server::bind`] chooses a random token, which every URL contains.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod answer;
mod arguments;
mod assets;
mod child;
mod endpoints;
mod guard;
mod openapi;
mod plan;
mod program;
mod server;

pub use program::Program;
pub use server::{Options, Server};
