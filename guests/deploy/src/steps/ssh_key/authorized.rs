//! Lines of `authorized_keys`: options, the kind of key, the key in base64 (RFC 4253, section 6.6), a comment.

use base64ct::{Base64, Encoding};

/// The kinds of keys that OpenSSH knows.
const KINDS: [&str; 8] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-dss",
];

/// A key with its line.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) blob: Vec<u8>,
    pub(super) line: String,
}

/// The key of a line; `None` for one that has none.
pub(super) fn blob_of(line: &str) -> Option<Vec<u8>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    of_kind(line).or_else(|| of_kind(behind_options(line)?))
}

/// The key of a text that begins with its kind.
fn of_kind(text: &str) -> Option<Vec<u8>> {
    let mut words = text.split_whitespace();
    let kind = words.next().filter(|kind| KINDS.contains(kind))?;
    // OpenSSH takes one without its padding, too.
    let encoded = words.next()?.trim_end_matches('=');
    let padding = "=".repeat(encoded.len().wrapping_neg() % 4);
    let blob = Base64::decode_vec(&format!("{encoded}{padding}")).ok()?;
    is_of_kind(&blob, kind).then_some(blob)
}

/// What follows the options, in which blanks are between quotes only.
fn behind_options(line: &str) -> Option<&str> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (at, char) in line.char_indices() {
        match char {
            '"' if !is_escaped => is_quoted = !is_quoted,
            ' ' | '\t' if !is_quoted => return line.get(at..).map(str::trim_start),
            _ => {}
        }
        is_escaped = char == '\\' && !is_escaped;
    }
    None
}

/// Whether a key is whole: texts with their lengths before them, of which the first one is the kind.
fn is_of_kind(blob: &[u8], kind: &str) -> bool {
    let mut rest = blob;
    let mut count = 0_usize;
    while let Some((len, more)) = rest.split_first_chunk::<4>() {
        let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
        let Some((text, more)) = more.split_at_checked(len) else {
            return false;
        };
        if count == 0 && text != kind.as_bytes() {
            return false;
        }
        rest = more;
        count = count.saturating_add(1);
    }
    rest.is_empty() && count >= 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHw5jFmJ8u0oD5nB6wQ1zvO7pV0cY8aJ1mWq2xT3rKfL";

    #[test]
    fn keys_are_found_behind_options() {
        let blob = blob_of(KEY).unwrap();
        for options in [
            "no-pty",
            "command=\"echo \\\"a b\\\"\",no-pty",
            "from=\"10.0.0.0/8 ssh-rsa AAAA\"",
            "  restrict\t",
        ] {
            assert_eq!(
                blob_of(&format!("{options} {KEY} ann@x y")),
                Some(blob.clone())
            );
        }
        assert_eq!(blob_of(&format!("# {KEY}")), None);
        assert_eq!(blob_of(&KEY.replace("ssh-ed25519", "ssh-rsa")), None);
        assert_eq!(blob_of(KEY.get(..60).unwrap()), None);
        assert_eq!(blob_of(&KEY.replace(' ', "")), None);
    }

    proptest! {
        #[test]
        fn any_line(line: String, tail in "[A-Za-z0-9+/=]{0,80}") {
            blob_of(&line);
            blob_of(&format!("ssh-rsa {tail}"));
        }
    }
}
