//! Registry keys, with their subkeys and values.

use diskfs_block::{Error, ErrorKind, Result};

use crate::bins::{Bins, NO_OFFSET, corrupt};
use crate::key_node::KeyNode;
use crate::key_value::NamedValue;
use crate::name::SearchName;
use crate::subkeys_list::{self, MAX_SUBKEYS};
use crate::value::Value;
use crate::{Filetime, key_security};

/// The maximum depth of a key, as on Windows (Microsoft, "Registry element size limits").
const MAX_DEPTH: u16 = 512;

/// The maximum number of values of a key. The largest keys (those of the installer's folders) have
/// about 100,000. Each lookup reads all of them.
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

    /// Returns the name. Invalid Unicode becomes U+FFFD. The name of the root has no meaning.
    pub fn name(&self) -> String {
        self.node.name.text()
    }

    /// Returns the time of the last write to the key.
    pub fn last_written(&self) -> Filetime {
        self.node.last_written
    }

    /// Returns the key at a relative path such as `r"Control\ComputerName"`, ignoring case; the key
    /// itself for an empty path. Returns `None` if there is no such key.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid; `Unsupported` if it exceeds a limit.
    pub fn subkey(&self, path: &str) -> Result<Option<Self>> {
        let mut key = self.clone();
        for name in path.split('\\').filter(|name| !name.is_empty()) {
            match key.child(&SearchName::new(name))? {
                Some(child) => key = child,
                None => return Ok(None),
            }
        }
        Ok(Some(key))
    }

    fn child(&self, name: &SearchName) -> Result<Option<Self>> {
        let offsets = self.offsets(Some(name))?.into_iter();
        found(offsets.map(|offset| self.at(offset)), |key| {
            key.node.name.is(name)
        })
    }

    fn offsets(&self, name: Option<&SearchName>) -> Result<Vec<u32>> {
        let list = self.node.subkeys_list_offset;
        if self.node.number_of_subkeys == 0 || list == NO_OFFSET {
            return Ok(Vec::new());
        }
        subkeys_list::offsets(self.bins, list, name)
    }

    /// Reads the subkey at `offset`. The subkey must name this key as its parent. So each key has
    /// one parent, and a walk cannot loop.
    fn at(&self, offset: u32) -> Result<Self> {
        let node = KeyNode::read(self.bins, offset)?;
        let depth = self.depth.saturating_add(1);
        if offset == self.root || node.parent != self.offset {
            return Err(corrupt(
                offset,
                "invalid key: it is listed below a key that is not its parent",
            ));
        }
        if depth > MAX_DEPTH {
            return Err(corrupt(
                offset,
                "invalid key: it is more than 512 levels deep",
            ));
        }
        Ok(Self {
            node,
            offset,
            depth,
            ..*self
        })
    }

    /// Returns the subkeys in the order of the hive, which is by name. A broken subkey yields an
    /// error, and the iteration continues.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid; `Unsupported` for more than 1,048,576 of them.
    pub fn subkeys(&self) -> Result<Subkeys<'h>> {
        let offsets = self.offsets(None)?;
        Ok(Subkeys {
            key: self.clone(),
            offsets: offsets.into_iter(),
        })
    }

    /// Returns the values in the order of the hive. A broken value yields an error, and the
    /// iteration continues.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid; `Unsupported` for more than 262,144 of them.
    pub fn values(&self) -> Result<Values<'h>> {
        let offsets = self.value_offsets()?.into_iter();
        Ok(Values {
            bins: self.bins,
            offsets,
        })
    }

    /// Returns the number of values according to the key.
    pub fn value_count(&self) -> u32 {
        self.node.number_of_key_values
    }

    fn value_offsets(&self) -> Result<Vec<u32>> {
        let list = self.node.key_values_list_offset;
        let count = diskfs_block::bytes::index(self.node.number_of_key_values);
        if count == 0 || list == NO_OFFSET {
            return Ok(Vec::new());
        }
        if count > MAX_VALUES {
            return Err(Error::unsupported(format!(
                "key is too large: {count} values, at most {MAX_VALUES}"
            )));
        }
        self.bins.offsets(list, count)
    }

    /// Returns the value of a name, ignoring case, with its type and length, but without its data.
    /// An empty name is the default value.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid; `Unsupported` if it exceeds a limit.
    pub fn named_value(&self, name: &str) -> Result<Option<NamedValue<'h>>> {
        let name = SearchName::new(name);
        let offsets = self.value_offsets()?.into_iter();
        let values = offsets.map(|offset| NamedValue::read_named(self.bins, offset, &name));
        found(values, Option::is_some).map(Option::flatten)
    }

    /// Returns the data of the value of a name.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid; `Unsupported` for more than 1 MiB of data.
    pub fn value(&self, name: &str) -> Result<Option<Value>> {
        let value = self.named_value(name)?;
        value.map(|value| value.value()).transpose()
    }

    /// Returns the class name, which few keys have.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid.
    pub fn class_name(&self) -> Result<Option<String>> {
        let (offset, len) = (self.node.class_name_offset, self.node.class_name_length);
        if offset == NO_OFFSET || len == 0 {
            return Ok(None);
        }
        let cell = self.bins.cell(offset)?;
        let bytes = self.bins.read(cell, 0, usize::from(len))?;
        Ok(Some(String::from_utf16_lossy(&crate::name::units(&bytes))))
    }

    /// Returns the security descriptor in its self-relative form (MS-DTYP 2.4.6); `None` if there
    /// is none.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid.
    pub fn security_descriptor(&self) -> Result<Option<Vec<u8>>> {
        match self.node.key_security_offset {
            NO_OFFSET => Ok(None),
            offset => key_security::descriptor(self.bins, offset).map(Some),
        }
    }
}

/// An iterator over the subkeys of a key: see [`Key::subkeys`].
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

/// An iterator over the values of a key: see [`Key::values`].
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

/// Returns the first matching item. Broken items are skipped, but if no item matches, the first
/// error is returned, because the broken item may have been the right one.
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

/// Ends the iteration if the device has failed: the remaining items would fail, too.
fn or_last<T>(item: Result<T>, offsets: &mut std::vec::IntoIter<u32>) -> Result<T> {
    if let Err(error) = &item
        && error.kind() == ErrorKind::Io
    {
        *offsets = Vec::new().into_iter();
    }
    item
}

const _: () = assert!(MAX_SUBKEYS == 1_048_576 && MAX_VALUES == 262_144);
