//! Security contexts: `user:role:type` or `user:role:type:range`.

use std::fmt;

/// The maximum length of a context: the kernel cannot store a longer one on a filesystem whose
/// attributes are limited to a block.
const MAX_CONTEXT_BYTES: usize = 4095;

/// A well-formed security context. Its names may be unknown to the guest's policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Context(String);

impl Context {
    /// Parses a context: three names and, optionally, a range. Returns `None` if it is not
    /// well-formed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ':');
        let mut has_name = || parts.next().is_some_and(is_name);
        let has_names = has_name() && has_name() && has_name();
        let has_range = parts.next().is_none_or(is_range);
        let fits = text.len() <= MAX_CONTEXT_BYTES;
        (has_names && has_range && fits).then(|| Self(text.to_owned()))
    }

    /// Returns the whole context.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the user, such as `system_u`.
    pub fn user(&self) -> &str {
        self.part(0)
    }

    /// Returns the role, which is `object_r` for files.
    pub fn role(&self) -> &str {
        self.part(1)
    }

    /// Returns the type, such as `etc_t`.
    pub fn type_name(&self) -> &str {
        self.part(2)
    }

    /// Returns the range, such as `s0` or `s0-s15:c0.c1023`, if the policy has levels.
    pub fn range(&self) -> Option<&str> {
        self.0.splitn(4, ':').nth(3)
    }

    /// Returns the value of the attribute `security.selinux`: the context and a NUL byte.
    pub fn xattr_value(&self) -> Vec<u8> {
        [self.0.as_bytes(), b"\0"].concat()
    }

    fn part(&self, index: usize) -> &str {
        self.0.splitn(4, ':').nth(index).unwrap_or_default()
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    !text.is_empty() && text.bytes().all(is_letter)
}

/// Returns true for one level, or two levels with a hyphen between them.
fn is_range(text: &str) -> bool {
    let mut levels = text.splitn(2, '-');
    levels.all(is_level)
}

/// Returns true for a sensitivity with optional categories: `s0`, `s0:c0.c3,c7`.
fn is_level(text: &str) -> bool {
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let is_span = |text: &str| text.splitn(2, '.').all(is_word);
    match text.split_once(':') {
        None => is_word(text),
        Some((sensitivity, categories)) => {
            is_word(sensitivity) && categories.split(',').all(is_span)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_that_are_well_formed() {
        for text in [
            "system_u:object_r:etc_t",
            "system_u:object_r:etc_t:s0",
            "a.b-c_u:object_r:t:SystemLow-SystemHigh",
            "u:r:t:s0-s15:c0.c1023",
            "u:r:t:s0:c1,c3.c5-s0:c1,c3.c7,c9",
        ] {
            let context = Context::parse(text).expect(text);
            assert_eq!(context.as_str(), text);
        }
        let context = Context::parse("u:r:t:s0-s15:c0.c1023").unwrap();
        let parts = (
            context.user(),
            context.role(),
            context.type_name(),
            context.range(),
        );
        assert_eq!(parts, ("u", "r", "t", Some("s0-s15:c0.c1023")));
        assert_eq!(context.xattr_value(), b"u:r:t:s0-s15:c0.c1023\0");
        assert_eq!(Context::parse("u:r:t").unwrap().range(), None);
    }

    #[test]
    fn contexts_that_are_not() {
        for text in [
            "",
            ":",
            "::",
            ":::",
            "u:r",
            "u:r:",
            "u::t",
            ":r:t",
            "u:r:t:",
            "u:r:t:s0:",
            "u:r:t:s0-",
            "u:r:t:-s0",
            "u:r:t:s0-s1-s2",
            "u:r:t:s0:c1,",
            "u:r:t:s0:c1.",
            "u:r:t:s0:c1:c2",
            "u r:r:t",
            "u:r:t:s 0",
            "u:r:t\0",
            "ü:r:t",
            "<<none>>",
        ] {
            assert_eq!(Context::parse(text), None, "{text:?}");
        }
        assert_eq!(Context::parse(&format!("u:r:{}", "t".repeat(4092))), None);
    }
}
