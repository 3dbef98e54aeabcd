//! LVM2: what its own tools write and say, and what none of them would.

mod disk;
mod fixtures;
mod hostile;
mod layouts;
mod tools;
