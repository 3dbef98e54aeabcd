//! The microVM: a kernel that runs beside diskfs and opens the filesystems that diskfs has no driver
//! for.

#[allow(dead_code, reason = "the machine that talks through it comes next")]
mod console;
