//! The arithmetic of RAID5 and RAID6: rebuilding pieces of a row from its others.
//!
//! P is the exclusive or of the data. Q is a sum over the field GF(2^8) with the polynomial 0x11d,
//! in which the piece with index n is multiplied by 2^n (H. Peter Anvin, "The mathematics of
//! RAID-6").

/// The pieces of a row in the order of their roles: data, then P, then Q if there is one. `None` is
/// a piece that cannot be read.
pub(crate) type Pieces = Vec<Option<Vec<u8>>>;

/// Rebuilds the piece `wanted` of the data of a row from the others. Returns `None` if too many
/// others are missing.
pub(crate) fn rebuild(pieces: &Pieces, data: usize, wanted: usize) -> Option<Vec<u8>> {
    let all = pieces.get(..data)?;
    let lost =
        |(nth, piece): (usize, &Option<Vec<u8>>)| (nth != wanted && piece.is_none()).then_some(nth);
    let mut lost = all.iter().enumerate().filter_map(lost);
    let p = pieces.get(data).and_then(Option::as_ref);
    let q = pieces.get(data.saturating_add(1)).and_then(Option::as_ref);
    let other = lost.next();
    if lost.next().is_some() {
        return None;
    }
    match (other, p, q) {
        (None, Some(p), _) => Some(with_p(all, wanted, p)),
        (None, None, Some(q)) => Some(with_q(all, wanted, q)),
        (Some(other), Some(p), Some(q)) => Some(with_both(all, wanted, other, p, q)),
        _ => None,
    }
}

/// Adds P to all data except one piece.
fn with_p(all: &[Option<Vec<u8>>], wanted: usize, p: &[u8]) -> Vec<u8> {
    let mut sum = p.to_vec();
    for (_, piece) in others(all, wanted) {
        add(&mut sum, piece);
    }
    sum
}

/// Solves Q for one piece.
fn with_q(all: &[Option<Vec<u8>>], wanted: usize, q: &[u8]) -> Vec<u8> {
    let mut sum = q.to_vec();
    for (nth, piece) in others(all, wanted) {
        add_multiple(&mut sum, piece, power(nth));
    }
    scale(&mut sum, inverse(power(wanted)));
    sum
}

/// Solves P and Q for two pieces, and returns the one that is wanted.
fn with_both(all: &[Option<Vec<u8>>], wanted: usize, other: usize, p: &[u8], q: &[u8]) -> Vec<u8> {
    // x + y = P', g^wanted x + g^other y = Q', so x = (Q' + g^other P') / (g^wanted + g^other).
    let mut sum_p = p.to_vec();
    let mut sum_q = q.to_vec();
    for (nth, piece) in others(all, wanted).filter(|(nth, _)| *nth != other) {
        add(&mut sum_p, piece);
        add_multiple(&mut sum_q, piece, power(nth));
    }
    add_multiple(&mut sum_q, &sum_p, power(other));
    scale(&mut sum_q, inverse(power(wanted) ^ power(other)));
    sum_q
}

fn others(all: &[Option<Vec<u8>>], wanted: usize) -> impl Iterator<Item = (usize, &Vec<u8>)> {
    let present = all
        .iter()
        .enumerate()
        .filter(move |(nth, _)| *nth != wanted);
    present.filter_map(|(nth, piece)| Some((nth, piece.as_ref()?)))
}

fn add(sum: &mut [u8], piece: &[u8]) {
    for (sum, byte) in sum.iter_mut().zip(piece) {
        *sum ^= byte;
    }
}

fn add_multiple(sum: &mut [u8], piece: &[u8], factor: u8) {
    for (sum, byte) in sum.iter_mut().zip(piece) {
        *sum ^= times(*byte, factor);
    }
}

fn scale(bytes: &mut [u8], factor: u8) {
    for byte in bytes {
        *byte = times(*byte, factor);
    }
}

/// Multiplies by 2 in the field.
const fn double(a: u8) -> u8 {
    let carried = if a & 0x80 == 0 { 0 } else { 0x1d };
    a.wrapping_shl(1) ^ carried
}

fn times(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    product
}

/// Returns 2^n in the field; its powers repeat after 255.
fn power(n: usize) -> u8 {
    (0..n % 255).fold(1, |a, _| double(a))
}

/// Returns the inverse of a number that is not zero: its power of 254.
fn inverse(a: u8) -> u8 {
    (0..254).fold(1, |product, _| times(product, a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_two_pieces_are_rebuilt() {
        let data: Vec<Vec<u8>> = (0..5_u8)
            .map(|n| {
                (0..32_u8)
                    .map(|i| n.wrapping_mul(77) ^ i.wrapping_mul(n + 3))
                    .collect()
            })
            .collect();
        let mut p = vec![0; 32];
        let mut q = vec![0; 32];
        for (nth, piece) in data.iter().enumerate() {
            add(&mut p, piece);
            add_multiple(&mut q, piece, power(nth));
        }
        let all: Pieces = data.iter().cloned().chain([p, q]).map(Some).collect();
        for wanted in 0..5 {
            for other in 0..7 {
                let mut pieces = all.clone();
                pieces[wanted] = None;
                pieces[other] = None;
                assert_eq!(rebuild(&pieces, 5, wanted).as_ref(), Some(&data[wanted]));
                pieces[(other + 1) % 7] = None;
                pieces[(other + 2) % 7] = None;
                assert_eq!(rebuild(&pieces, 5, wanted), None);
            }
        }
    }
}
