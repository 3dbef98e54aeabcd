//! LVM2: comparison with its own tools, and metadata that no tool writes.

mod device_mapper;
mod disk;
mod edit_crash;
mod edit_create;
mod edit_random;
mod edit_refused;
mod edit_rig;
mod edit_tools;
mod fixtures;
mod hostile;
mod layouts;
mod new_ids;
mod persistent;
mod tools;
