//! diskfs beside the kernel and its peers, in one run.

fn main() {}
