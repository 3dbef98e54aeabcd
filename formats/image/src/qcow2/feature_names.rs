//! The feature name table: specification, section "Feature name table".

/// The header field in which a feature bit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeatureField {
    Incompatible,
    Compatible,
    Autoclear,
}

impl FeatureField {
    const ALL: [Self; 3] = [Self::Incompatible, Self::Compatible, Self::Autoclear];

    /// Returns the number of the field in the table.
    const fn number(self) -> u8 {
        match self {
            Self::Incompatible => 0,
            Self::Compatible => 1,
            Self::Autoclear => 2,
        }
    }
}

const ENTRY_LEN: usize = 48;
/// The largest number of entries: one for each bit of the three fields.
const ENTRIES_MAX: usize = 3 * 64;

/// The names that the image gives to feature bits.
#[derive(Debug, Clone, Default)]
pub(crate) struct FeatureNames(Vec<(u8, u8, String)>);

impl FeatureNames {
    /// Parses the table. A truncated entry at the end is ignored, because names are used only in
    /// messages.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        Self(
            bytes
                .chunks_exact(ENTRY_LEN)
                .take(ENTRIES_MAX)
                .filter_map(|entry| {
                    let (&[field, bit], name) = entry.split_first_chunk()?;
                    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
                    let name = String::from_utf8_lossy(name.get(..end)?);
                    Some((field, bit, name.escape_debug().to_string()))
                })
                .collect(),
        )
    }

    /// Returns the table that QEMU writes, with every bit of the specification.
    pub(crate) fn standard_table() -> Vec<u8> {
        let mut table = Vec::new();
        for field in FeatureField::ALL {
            for bit in 0..u8::MAX {
                let Some(name) = standard_name(field, u32::from(bit)) else {
                    break;
                };
                let end = table.len().saturating_add(ENTRY_LEN);
                table.extend_from_slice(&[field.number(), bit]);
                table.extend_from_slice(name.as_bytes());
                table.resize(end, 0);
            }
        }
        table
    }

    /// Returns the bit's name from the image or the specification, or its number.
    pub(crate) fn describe(&self, field: FeatureField, bit: u32) -> String {
        let field_number = field.number();
        let given = self
            .0
            .iter()
            .find(|(f, b, name)| *f == field_number && u32::from(*b) == bit && !name.is_empty());
        match (given, standard_name(field, bit)) {
            (_, Some(name)) => name.to_owned(),
            (Some((_, _, name)), None) => format!("{name} (bit {bit})"),
            (None, None) => format!("bit {bit}"),
        }
    }
}

/// Returns the names as QEMU writes them.
const fn standard_name(field: FeatureField, bit: u32) -> Option<&'static str> {
    Some(match (field, bit) {
        (FeatureField::Incompatible, 0) => "dirty bit",
        (FeatureField::Incompatible, 1) => "corrupt bit",
        (FeatureField::Incompatible, 2) => "external data file",
        (FeatureField::Incompatible, 3) => "compression type",
        (FeatureField::Incompatible, 4) => "extended L2 entries",
        (FeatureField::Compatible, 0) => "lazy refcounts",
        (FeatureField::Autoclear, 0) => "bitmaps",
        (FeatureField::Autoclear, 1) => "raw external data",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_table() {
        let mut table = vec![0; 48 * 2 + 10];
        table[0..2].copy_from_slice(&[0, 9]);
        table[2..10].copy_from_slice(b"time\ntrv");
        table[48..96].fill(b'x');
        let names = FeatureNames::parse(&table);
        assert_eq!(
            names.describe(FeatureField::Incompatible, 9),
            "time\\ntrv (bit 9)"
        );
        assert_eq!(names.describe(FeatureField::Compatible, 9), "bit 9");
        assert_eq!(names.describe(FeatureField::Incompatible, 0), "dirty bit");
    }
}
