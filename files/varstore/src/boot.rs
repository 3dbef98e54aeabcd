//! The variables of the boot manager. UEFI 3.1 and 3.3.

mod devices;

use std::collections::{BTreeMap, BTreeSet};

use diskfs_block::{Error, ErrorKind, Result};

pub use devices::{BootDevice, DeviceBootOrder, DeviceKind, DeviceLocation};

use crate::{Attributes, Edit, Guid, LoadOption, Variable, VariableStore};

const VENDOR: Guid = Guid::EFI_GLOBAL_VARIABLE;

/// The position of a new entry in the boot order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootPosition {
    /// Before all other entries.
    First,
    /// After all other entries.
    Last,
}

/// A boot entry, the variable `Boot####`.
#[derive(Debug)]
pub struct BootEntry {
    /// The number of the entry.
    pub number: u16,
    /// The load option, or the error of parsing it. A broken entry does not hide others.
    pub option: Result<LoadOption>,
}

/// Returns the name of the entry's variable, such as `Boot001F`.
fn name(number: u16) -> String {
    format!("Boot{number:04X}")
}

/// Returns the number in the name of an entry's variable, which has four upper-case hexadecimal
/// digits.
fn number(name: &str) -> Option<u16> {
    let digits = name.strip_prefix("Boot")?;
    let is_digit = |c: char| matches!(c, '0'..='9' | 'A'..='F');
    let is_number = digits.len() == 4 && digits.chars().all(is_digit);
    is_number.then(|| u16::from_str_radix(digits, 16).ok())?
}

/// Parses a list of entry numbers.
fn numbers(name: &str, data: &[u8]) -> Result<Vec<u16>> {
    let (numbers, rest) = data.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Error::corrupt(format!(
            "invalid {name}: odd number of bytes"
        )));
    }
    Ok(numbers
        .iter()
        .map(|bytes| u16::from_le_bytes(*bytes))
        .collect())
}

/// Removes repeated numbers; the first of each is kept.
fn once_each(numbers: impl Iterator<Item = u16>) -> Vec<u16> {
    let mut seen = BTreeSet::new();
    numbers.filter(|&number| seen.insert(number)).collect()
}

fn no_entry(number: u16) -> Error {
    Error::invalid(format!("no such boot entry: {}", name(number)))
}

impl VariableStore {
    /// Returns all boot entries (`Boot####`) by number.
    pub fn boot_entries(&self) -> Vec<BootEntry> {
        let entries = self.entries().into_iter();
        entries
            .map(|(number, variable)| BootEntry {
                number,
                option: LoadOption::parse(variable.data),
            })
            .collect()
    }

    fn entries(&self) -> BTreeMap<u16, Variable<'_>> {
        let variables = self
            .variables()
            .into_iter()
            .filter(|variable| variable.vendor == VENDOR);
        variables
            .filter_map(|variable| Some((number(&variable.name)?, variable)))
            .collect()
    }

    /// Returns `BootOrder`: the numbers of the entries in the order in which they are tried. Empty
    /// if the variable does not exist.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid.
    pub fn boot_order(&self) -> Result<Vec<u16>> {
        self.variable("BootOrder", VENDOR)
            .map_or_else(|| Ok(Vec::new()), |order| numbers("BootOrder", order.data))
    }

    /// Returns `BootNext`: the entry to try first at the next boot only.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid.
    pub fn boot_next(&self) -> Result<Option<u16>> {
        let Some(next) = self.variable("BootNext", VENDOR) else {
            return Ok(None);
        };
        match *numbers("BootNext", next.data)? {
            [number] => Ok(Some(number)),
            _ => Err(Error::corrupt(
                "invalid BootNext: expected one entry number",
            )),
        }
    }

    /// Sets `BootOrder`, the order of the boot entries.
    ///
    /// # Errors
    /// `Invalid` if the list is empty, and if an entry is repeated, or neither exists nor is in the
    /// current order; those of [`set`](Self::set).
    pub fn set_boot_order(&mut self, entries: &[u16]) -> Result<Edit> {
        let mut known: BTreeSet<u16> = self.entries().into_keys().collect();
        known.extend(self.boot_order().unwrap_or_default());
        let mut seen = BTreeSet::new();
        for &number in entries {
            if !known.contains(&number) {
                return Err(no_entry(number));
            }
            if !seen.insert(number) {
                return Err(Error::invalid(format!(
                    "invalid boot order: {} is repeated",
                    name(number)
                )));
            }
        }
        let data: Vec<u8> = entries
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        self.set_boot_variable("BootOrder", &data)
    }

    /// Sets `BootNext`, or deletes it.
    ///
    /// # Errors
    /// `Invalid` if there is no such entry; those of [`set`](Self::set).
    pub fn set_boot_next(&mut self, entry: Option<u16>) -> Result<Edit> {
        match entry {
            Some(number) => {
                let entry = self.variable(&name(number), VENDOR);
                entry.ok_or_else(|| no_entry(number))?;
                self.set_boot_variable("BootNext", &number.to_le_bytes())
            }
            None if self.variable("BootNext", VENDOR).is_none() => Ok(Edit::default()),
            None => self.delete("BootNext", VENDOR),
        }
    }

    /// Adds an entry with the lowest free number, and inserts it into the boot order.
    ///
    /// # Errors
    /// `NoSpace` if all numbers are used; those of [`set`](Self::set). After an error, nothing has
    /// changed.
    pub fn add_boot_entry(
        &mut self,
        option: &LoadOption,
        position: BootPosition,
    ) -> Result<(u16, Edit)> {
        let before = self.clone();
        let added = self.add_entry(option, position);
        if added.is_err() {
            *self = before;
        }
        added
    }

    fn add_entry(&mut self, option: &LoadOption, position: BootPosition) -> Result<(u16, Edit)> {
        let number = self.free_number()?;
        // A stale number in the order would start the new entry twice.
        let order = self.boot_order()?.into_iter();
        let mut order = once_each(order.filter(|&other| other != number));
        match position {
            BootPosition::First => order.insert(0, number),
            BootPosition::Last => order.push(number),
        }
        let entry = self.set_boot_variable(&name(number), &option.to_bytes()?)?;
        Ok((number, entry.then(self.set_boot_order(&order)?)))
    }

    fn free_number(&self) -> Result<u16> {
        let taken = self.entries();
        let full = || {
            Error::new(
                ErrorKind::NoSpace,
                "no space left: all 65,536 boot entries are in use",
            )
        };
        (0..=u16::MAX)
            .find(|number| !taken.contains_key(number))
            .ok_or_else(full)
    }

    /// Sets a variable of the boot manager. An existing one keeps its attributes.
    fn set_boot_variable(&mut self, name: &str, data: &[u8]) -> Result<Edit> {
        let old = self.variable(name, VENDOR);
        let attributes = old.map_or(Attributes::DEFAULT, |old| old.attributes);
        self.set(name, VENDOR, attributes, data)
    }
}
