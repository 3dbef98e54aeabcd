//! LVM2: what its own tools write and say, and what none of them would.

mod device_mapper;
mod disk;
mod fixtures;
mod hostile;
mod layouts;
mod new_ids;
mod persistent;
mod tools;
