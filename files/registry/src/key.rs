//! A key, its subkeys and its values.

use diskfs_block::{Error, ErrorKind, Result};

use crate::bins::{Bins, NOWHERE, corrupt};
use crate::key_node::KeyNode;
use crate::key_value::NamedValue;
use crate::name::Searched;
use crate::subkeys_list::{self, MAX_SUBKEYS};
use crate::value::Value;
use crate::{Filetime, key_security};

/// Windows has at most so many levels (Microsoft, "Registry element size limits").
const MAX_DEPTH: u16 = 512;

/// More than any key has: those with the most (the installer's folders) have some 100,000. Each look-up goes
/// through all of them.
const MAX_VALUES: usize = 1 << 18;

/// A key of a hive.
#[derive(Debug, Clone)]
pub struct Key<'h> {
    bins: &'h Bins,
    node: KeyNode,
    offset: u32,
    root: u32,
    depth: u16,
}

impl<'h> Key<'h> {
    pub(crate) fn root(bins: &'h Bins, offset: u32) -> Result<Self> {
        Ok(Self {
            bins,
            node: KeyNode::read(bins, offset)?,
            offset,
            root: offset,
            depth: 0,
        })
    }

    /// The name. What is no Unicode in it becomes U+FFFD. That of the root is nobody's.
    pub fn name(&self) -> String {
        self.node.name.text()
    }

    /// When it was last written.
    pub fn last_written(&self) -> Filetime {
        self.node.last_written
    }

    /// The key at a path below, in any case: `r"Control\ComputerName"`; itself for an empty one. `None` when
    /// there is none.
    ///
    /// # Errors
    /// `Corrupt`, `Unsupported`.
    pub fn subkey(&self, path: &str) -> Result<Option<Self>> {
        let mut key = self.clone();
        for name in path.split('\\').filter(|name| !name.is_empty()) {
            match key.child(&Searched::new(name))? {
                Some(child) => key = child,
                None => return Ok(None),
            }
        }
        Ok(Some(key))
    }

    fn child(&self, name: &Searched) -> Result<Option<Self>> {
        let offsets = self.offsets(Some(name))?.into_iter();
        found(offsets.map(|offset| self.at(offset)), |key| {
            key.node.name.is(name)
        })
    }

    fn offsets(&self, name: Option<&Searched>) -> Result<Vec<u32>> {
        let list = self.node.subkeys_list_offset;
        if self.node.number_of_subkeys == 0 || list == NOWHERE {
            return Ok(Vec::new());
        }
        subkeys_list::offsets(self.bins, list, name)
    }

    /// The subkey at `offset`. It must name this one as the one above it: so each key is below one, and no
    /// walk goes round.
    fn at(&self, offset: u32) -> Result<Self> {
        let node = KeyNode::read(self.bins, offset)?;
        let depth = self.depth.saturating_add(1);
        if offset == self.root || node.parent != self.offset {
            return Err(corrupt(
                offset,
                "a key is listed below one that it is not below",
            ));
        }
        if depth > MAX_DEPTH {
            return Err(corrupt(offset, "a key lies deeper than any"));
        }
        Ok(Self {
            node,
            offset,
            depth,
            ..*self
        })
    }

    /// The subkeys, in the order of the hive: by name. One that is broken is an error, and the others follow.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for more than 1,048,576 of them.
    pub fn subkeys(&self) -> Result<Subkeys<'h>> {
        let offsets = self.offsets(None)?;
        Ok(Subkeys {
            key: self.clone(),
            offsets: offsets.into_iter(),
        })
    }

    /// The values, in the order of the hive. One that is broken is an error, and the others follow.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for more than 262,144 of them.
    pub fn values(&self) -> Result<Values<'h>> {
        let offsets = self.value_offsets()?.into_iter();
        Ok(Values {
            bins: self.bins,
            offsets,
        })
    }

    /// How many values it says that it has.
    pub fn value_count(&self) -> u32 {
        self.node.number_of_key_values
    }

    fn value_offsets(&self) -> Result<Vec<u32>> {
        let list = self.node.key_values_list_offset;
        let count = diskfs_block::bytes::index(self.node.number_of_key_values);
        if count == 0 || list == NOWHERE {
            return Ok(Vec::new());
        }
        if count > MAX_VALUES {
            return Err(Error::unsupported(format!("a key of {count} values")));
        }
        self.bins.offsets(list, count)
    }

    /// The value of a name, in any case, with its type and its data's length; the default value for an empty
    /// name.
    ///
    /// # Errors
    /// `Corrupt`, `Unsupported`.
    pub fn named_value(&self, name: &str) -> Result<Option<NamedValue<'h>>> {
        let name = Searched::new(name);
        let offsets = self.value_offsets()?.into_iter();
        let values = offsets.map(|offset| NamedValue::read_named(self.bins, offset, &name));
        found(values, Option::is_some).map(Option::flatten)
    }

    /// What the value of a name says.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for more than 1 MiB of data.
    pub fn value(&self, name: &str) -> Result<Option<Value>> {
        let value = self.named_value(name)?;
        value.map(|value| value.value()).transpose()
    }

    /// The class name, which few keys have.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn class_name(&self) -> Result<Option<String>> {
        let (offset, len) = (self.node.class_name_offset, self.node.class_name_length);
        if offset == NOWHERE || len == 0 {
            return Ok(None);
        }
        let cell = self.bins.cell(offset)?;
        let bytes = self.bins.read(cell, 0, usize::from(len))?;
        Ok(Some(String::from_utf16_lossy(&crate::name::units(&bytes))))
    }

    /// Who may do what with it: a security descriptor in its self-relative form (MS-DTYP 2.4.6). `None` where
    /// there is none.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn security_descriptor(&self) -> Result<Option<Vec<u8>>> {
        match self.node.key_security_offset {
            NOWHERE => Ok(None),
            offset => key_security::descriptor(self.bins, offset).map(Some),
        }
    }
}

/// The subkeys of a key: see [`Key::subkeys`].
#[derive(Debug, Clone)]
pub struct Subkeys<'h> {
    key: Key<'h>,
    offsets: std::vec::IntoIter<u32>,
}

impl<'h> Iterator for Subkeys<'h> {
    type Item = Result<Key<'h>>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.offsets.next()?;
        Some(or_last(self.key.at(offset), &mut self.offsets))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.offsets.size_hint().1)
    }
}

/// The values of a key: see [`Key::values`].
#[derive(Debug, Clone)]
pub struct Values<'h> {
    bins: &'h Bins,
    offsets: std::vec::IntoIter<u32>,
}

impl<'h> Iterator for Values<'h> {
    type Item = Result<NamedValue<'h>>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.offsets.next()?;
        Some(or_last(
            NamedValue::read(self.bins, offset),
            &mut self.offsets,
        ))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.offsets.size_hint().1)
    }
}

/// The one that is looked for. A broken one hides no other; where none is found, it may have been the one.
fn found<T>(
    items: impl Iterator<Item = Result<T>>,
    is_it: impl Fn(&T) -> bool,
) -> Result<Option<T>> {
    let mut broken = None;
    for item in items {
        match item {
            Ok(item) if is_it(&item) => return Ok(Some(item)),
            Ok(_) => {}
            Err(error) => {
                broken.get_or_insert(error);
            }
        }
    }
    broken.map_or(Ok(None), Err)
}

/// Where the device fails, the rest would fail, too.
fn or_last<T>(item: Result<T>, offsets: &mut std::vec::IntoIter<u32>) -> Result<T> {
    if let Err(error) = &item
        && error.kind() == ErrorKind::Io
    {
        *offsets = Vec::new().into_iter();
    }
    item
}

const _: () = assert!(MAX_SUBKEYS == 1_048_576 && MAX_VALUES == 262_144);
