//! Formatting of names, sizes, times, modes, owners and JSON.

pub(crate) mod bar;
pub(crate) mod json;
pub(crate) mod mode;
pub(crate) mod name;
pub(crate) mod owners;
pub(crate) mod size;
pub(crate) mod table;
pub(crate) mod time;
