//! Construction of hives and their logs for tests.
//!
//! [`HiveBuilder`] builds a hive from keys and values or from the text of a `.reg` file. [`logs`]
//! builds the transaction logs that turn one hive into another. Both follow the specification.
//! Other programs check the hives (`tests/judges.rs`), but no other program reads the logs.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "only tests use it, and a test fails by a panic"
)]

mod cells;
pub mod logs;
mod reg_text;

use std::collections::BTreeMap;

use crate::upcase::upcase;
use crate::{DataType, Filetime};
use cells::Cells;
pub use reg_text::RegTextError;

/// The type of leaf for lists of subkeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf {
    /// An index leaf, `li`.
    Index,
    /// A fast leaf, `lf`.
    Fast,
    /// A hash leaf, `lh`.
    Hash,
}

/// A key to be written into a hive.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) class: Option<String>,
    pub(crate) subkeys: BTreeMap<Vec<u16>, Node>,
    pub(crate) values: Vec<(String, DataType, Vec<u8>)>,
}

/// A builder of hives.
#[derive(Debug)]
pub struct HiveBuilder {
    root: Node,
    /// The type of the leaves.
    pub leaf: Leaf,
    /// The maximum number of subkeys in a leaf. A key with more subkeys gets an index root.
    pub leaf_len: usize,
    /// The minor version of the format, 3 to 6. Big data is written from 4 on.
    pub minor_version: u32,
    /// The timestamp of the hive and of all its keys.
    pub last_written: Filetime,
    /// The value of both sequence numbers.
    pub sequence_number: u32,
}

impl Default for HiveBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl HiveBuilder {
    /// Returns a hive that has only a root key.
    pub fn new() -> Self {
        Self {
            root: Node {
                name: String::from("ROOT"),
                ..Node::default()
            },
            leaf: Leaf::Hash,
            leaf_len: 500,
            minor_version: 5,
            last_written: Filetime(133_540_704_000_000_000),
            sequence_number: 1,
        }
    }

    /// Adds a key and its missing ancestors.
    pub fn key(&mut self, path: &str) -> &mut Self {
        self.node(path);
        self
    }

    /// Sets the class name of a key.
    pub fn class(&mut self, path: &str, class: &str) -> &mut Self {
        self.node(path).class = Some(class.to_owned());
        self
    }

    /// Sets a value of any type.
    pub fn value(&mut self, path: &str, name: &str, data_type: DataType, data: &[u8]) -> &mut Self {
        let values = &mut self.node(path).values;
        values.retain(|(other, ..)| upper(other) != upper(name));
        values.push((name.to_owned(), data_type, data.to_vec()));
        self
    }

    /// Sets a `REG_SZ`.
    pub fn string(&mut self, path: &str, name: &str, text: &str) -> &mut Self {
        self.value(path, name, DataType::STRING, &wide(text))
    }

    /// Sets a `REG_DWORD`.
    pub fn dword(&mut self, path: &str, name: &str, number: u32) -> &mut Self {
        self.value(path, name, DataType::DWORD, &number.to_le_bytes())
    }

    /// Adds the keys and values of a `.reg` file (`Windows Registry Editor Version 5.00`), after
    /// removing `prefix` from the names of keys.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn reg_text(&mut self, text: &str, prefix: &str) -> Result<&mut Self, RegTextError> {
        reg_text::read(self, text, prefix)?;
        Ok(self)
    }

    /// Returns the bytes of the hive.
    pub fn build(&self) -> Vec<u8> {
        Cells::hive(self, &self.root)
    }

    fn node(&mut self, path: &str) -> &mut Node {
        let mut node = &mut self.root;
        for name in path.split('\\').filter(|name| !name.is_empty()) {
            node = node.subkeys.entry(upper(name)).or_insert_with(|| Node {
                name: name.to_owned(),
                ..Node::default()
            });
        }
        node
    }
}

fn upper(name: &str) -> Vec<u16> {
    name.encode_utf16().map(upcase).collect()
}

/// Encodes text as UTF-16LE with a NUL at its end.
fn wide(text: &str) -> Vec<u8> {
    let units = text.encode_utf16().chain([0]);
    units.flat_map(u16::to_le_bytes).collect()
}
