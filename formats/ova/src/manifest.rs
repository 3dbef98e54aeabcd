//! The manifest: the digests of the files of a package.
//!
//! Specification: DMTF DSP0243 2.1, section 6.

/// The most digests that are kept.
const MAX_DIGESTS: usize = 4096;

/// The digest of a file, as the manifest states it. Nobody has checked it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDigest {
    /// The name of the file.
    pub file_name: String,
    /// The algorithm in upper case: `SHA1`, `SHA256` or `SHA512`.
    pub algorithm: String,
    /// The digest in lower-case hexadecimal.
    pub digest: String,
}

/// Returns the digests of a manifest. Lines of another form are left out.
pub(crate) fn parse(text: &[u8]) -> Vec<FileDigest> {
    let text = String::from_utf8_lossy(text);
    text.lines().filter_map(line).take(MAX_DIGESTS).collect()
}

/// Parses `SHA256(name)= 0123...`.
fn line(line: &str) -> Option<FileDigest> {
    let (algorithm, rest) = line.split_once('(')?;
    let (name, digest) = rest.rsplit_once(')')?;
    let digest = digest.trim_start().strip_prefix('=')?.trim();
    let is_hex = !digest.is_empty() && digest.bytes().all(|it| it.is_ascii_hexdigit());
    is_hex.then(|| FileDigest {
        file_name: name.to_owned(),
        algorithm: algorithm.trim().replace('-', "").to_ascii_uppercase(),
        digest: digest.to_ascii_lowercase(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let digests = parse(b"SHA256(a (1).vmdk)= 00AB\r\nnonsense\nSHA1 (b.ovf) = x\nsha-1(c)=01");
        let name = |it: &FileDigest| format!("{} {} {}", it.algorithm, it.file_name, it.digest);
        let names: Vec<_> = digests.iter().map(name).collect();
        assert_eq!(names, ["SHA256 a (1).vmdk 00ab", "SHA1 c 01"]);
    }
}
