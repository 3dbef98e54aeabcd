//! TEMPORARY: stands in for parts of writing that have not landed.
#![allow(unused_variables, clippy::all, clippy::pedantic, missing_docs)]

use crate::error::{ErrorKind, Result};
use crate::inode::Inode;
use crate::writer::{Core, Handle};
use diskfs_vfs::{Fallocate, FileType};

pub(crate) mod xattr {
    pub(crate) use crate::xattr::*;
}
