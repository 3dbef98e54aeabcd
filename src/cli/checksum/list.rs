//! Lists of checksums, as sha256sum(1) and its options `--tag` and `--binary` write them.

use percent_encoding::percent_decode_str;

use super::{Algorithm, Checksum};

/// Returns the name of a file in its URI.
pub(super) fn name_of(uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    percent_decode_str(name).decode_utf8_lossy().into_owned()
}

/// Returns the checksum of the file with this name.
pub(super) fn find(list: &str, name: &str) -> Option<Checksum> {
    list.lines()
        .find_map(|line| coreutils(line, name).or_else(|| tagged(line, name)))
}

/// Parses `DIGEST  NAME` or `DIGEST *NAME`; the name may be one in a directory.
fn coreutils(line: &str, name: &str) -> Option<Checksum> {
    let (digest, rest) = line.split_once(' ')?;
    let found = rest.strip_prefix([' ', '*']).unwrap_or(rest).trim_end();
    let is_named = found == name || found.rsplit('/').next() == Some(name);
    Checksum::parse(digest, None).filter(|_| is_named)
}

/// Parses `SHA256 (NAME) = DIGEST`.
fn tagged(line: &str, name: &str) -> Option<Checksum> {
    let (algorithm, rest) = line.split_once(" (")?;
    let (found, digest) = rest.rsplit_once(") = ")?;
    let algorithm = match algorithm {
        "SHA256" => Algorithm::Sha256,
        "SHA512" => Algorithm::Sha512,
        _ => return None,
    };
    Checksum::parse(digest.trim_end(), Some(algorithm)).filter(|_| found == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_in_both_forms() {
        let digest = "ab".repeat(32);
        let expected = Checksum::parse(&digest, None).unwrap();
        for line in [
            format!("{digest}  a b.img"),
            format!("{digest} *a b.img\r"),
            format!("{digest}  ./sub/a b.img"),
            format!("SHA256 (a b.img) = {digest}"),
        ] {
            let list = format!("# comment\n\n{}  other\n{line}\n", "cd".repeat(32));
            assert_eq!(find(&list, "a b.img"), Some(expected.clone()), "{line}");
            assert_eq!(find(&list, "b.img"), None, "{line}");
        }
        assert_eq!(find(&format!("SHA512 (x) = {digest}"), "x"), None);
        assert_eq!(find("zz  x\nx", "x"), None);
        assert_eq!(name_of("https://h/p/a%20b.img?sig=/x#y"), "a b.img");
    }
}
