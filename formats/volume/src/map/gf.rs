//! Arithmetic in the field of RAID6: 256 elements, modulo x^8 + x^4 + x^3 + x^2 + 1.

/// Doubles an element.
const fn double(x: u8) -> u8 {
    (x << 1) ^ (if x & 0x80 != 0 { 0x1d } else { 0 })
}

/// Multiplies two elements.
fn multiply(a: u8, b: u8) -> u8 {
    let (mut sum, mut a, mut b) = (0, a, b);
    while b != 0 {
        if b & 1 != 0 {
            sum ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    sum
}

/// Returns the generator to the `n`th power.
pub(super) fn power(n: usize) -> u8 {
    // The powers repeat after 255.
    (0..n.checked_rem(255).unwrap_or(0)).fold(1, |x, _| double(x))
}

/// Returns the multiplicative inverse of `x`; zero for zero, which has none.
pub(super) fn inverse(x: u8) -> u8 {
    // The 254th power, by Fermat.
    (0..254).fold(1, |product, _| multiply(product, x))
}

/// Multiplies each byte by `factor`.
pub(super) fn scale(bytes: &mut [u8], factor: u8) {
    if factor == 1 {
        return;
    }
    let mut table = [0; 256];
    for (x, product) in (0..=u8::MAX).zip(&mut table) {
        *product = multiply(x, factor);
    }
    for byte in bytes {
        *byte = table.get(usize::from(*byte)).copied().unwrap_or(0);
    }
}

/// Adds `bytes` to `to`, byte by byte.
pub(super) fn add(to: &mut [u8], bytes: &[u8]) {
    for (to, byte) in to.iter_mut().zip(bytes) {
        *to ^= byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_field() {
        for x in 1..=255 {
            assert_eq!(multiply(x, inverse(x)), 1, "{x}");
        }
        assert_eq!((power(0), power(8), power(255)), (1, 0x1d, 1));
        assert_eq!(multiply(0x53, 0xca), 0x8f); // Not 1: that is AES's field.
        let mut bytes = [1, 2, 0x80];
        scale(&mut bytes, 2);
        assert_eq!(bytes, [2, 4, 0x1d]);
    }
}
