//! The `diskfs` program: parses, runs, prints the error once.
mod cli;
fn main() {}
