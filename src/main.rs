//! The `diskfs` program.

fn main() {}
