//! LVM2: comparison with its own tools, and metadata that no tool writes.

mod device_mapper;
mod disk;
mod fixtures;
mod hostile;
mod layouts;
mod new_ids;
mod persistent;
mod tools;
