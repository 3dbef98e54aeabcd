//! Databases that rpm, SQLite and Berkeley DB made, beside what rpm says of them; and broken ones.

#![allow(
    clippy::cast_possible_truncation,
    reason = "small numbers that the tests made themselves"
)]

mod bdb;
mod facts;
mod guest;
mod hostile;
mod ndb;
mod sqlite;
