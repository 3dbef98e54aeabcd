//! The steps of plans, one question a file.

mod files;
mod hostname;
mod password;
mod ssh_host_keys;
mod ssh_key;
mod sshd;
mod sudoers;
mod user;

pub use files::{Append, CopyIn, Delete, Link, MakeDir, Mode, Owner, Permissions, Upload, Write};
pub use hostname::Hostname;
pub use password::{Password, RootPassword, Selector};
pub use ssh_host_keys::SshHostKeys;
pub use ssh_key::SshKey;
pub use sshd::{Sshd, Value};
pub use sudoers::Sudoers;
pub use user::{Sudo, User};

#[cfg(test)]
pub(super) mod testing;
