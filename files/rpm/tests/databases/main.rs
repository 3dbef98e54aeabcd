//! Tests with databases of rpm, SQLite and Berkeley DB, compared with rpm's output, and with broken
//! ones.

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
