//! Sizes with allocation units: `byte * 2^30`.
//!
//! Specification: DMTF DSP0004, annex C.1 "Programmatic Units"; older envelopes have names.

/// Returns the number of bytes of a unit; `None` for an unknown one.
fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.trim();
    match unit.to_ascii_lowercase().as_str() {
        "byte" | "bytes" => return Some(1),
        "kilobytes" | "kb" => return Some(1 << 10),
        "megabytes" | "mb" => return Some(1 << 20),
        "gigabytes" | "gb" => return Some(1 << 30),
        _ => {}
    }
    let factor = unit.strip_prefix("byte")?.trim().strip_prefix('*')?;
    match factor.split_once('^') {
        Some((base, exponent)) => {
            let base: u64 = base.trim().parse().ok()?;
            base.checked_pow(exponent.trim().parse().ok()?)
        }
        None => factor.trim().parse().ok(),
    }
}

/// Returns a capacity in bytes; `None` if it is not a number (`${name}` stands for a property) or
/// the unit is unknown.
pub(crate) fn capacity_bytes(capacity: &str, unit: Option<&str>) -> Option<u64> {
    let capacity: u64 = capacity.trim().parse().ok()?;
    capacity.checked_mul(unit_bytes(unit.unwrap_or("byte"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_have_units() {
        assert_eq!(capacity_bytes("16", Some("byte * 2^30")), Some(16 << 30));
        assert_eq!(capacity_bytes("16", Some("byte*10^3")), Some(16_000));
        assert_eq!(capacity_bytes("16", Some("byte * 512")), Some(8192));
        assert_eq!(capacity_bytes("16", None), Some(16));
        assert_eq!(capacity_bytes("2", Some("GigaBytes")), Some(2 << 30));
        for (capacity, unit) in [
            ("${disk}", None),
            ("-1", None),
            ("1", Some("byte * 2^64")),
            ("1", Some("byte * 0^99999999999")),
            ("16", Some("byte * 2^63")),
            ("1", Some("furlong")),
        ] {
            assert_eq!(capacity_bytes(capacity, unit), None, "{capacity} {unit:?}");
        }
    }
}
