//! The clients that may read images, and which.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use diskfs_block::{Error, ErrorKind, Result};
use http::HeaderValue;
use subtle::ConstantTimeEq;

use crate::pattern::matches;

/// The longest file of tokens.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The shortest token: shorter ones can be guessed.
const MIN_TOKEN_BYTES: usize = 16;

/// The clients that may read images.
#[derive(Clone)]
pub struct Access {
    /// The tokens with their patterns; `None` lets every client read everything.
    grants: Option<Vec<Grant>>,
}

#[derive(Clone)]
struct Grant {
    token: String,
    pattern: String,
}

/// A client, with the patterns of the images that it may read; `None` if it may read all.
#[derive(Debug)]
pub(crate) struct Client<'a>(Option<Vec<&'a str>>);

impl Access {
    /// Lets every client read all images.
    pub fn everyone() -> Self {
        Self { grants: None }
    }

    /// Reads a file of tokens. Each of its lines has a token, and after a space the pattern of the
    /// names that the token is for; without one it is for all. Empty lines and lines that begin with
    /// `#` are skipped.
    ///
    /// # Errors
    /// `Denied` if others than its owner may read the file; `Invalid` for lines that are not such;
    /// those of reading it.
    pub fn of_file(path: &Path) -> Result<Self> {
        let in_file = |e: std::io::Error| Error::from(e).in_file(path);
        let file = File::open(path).map_err(in_file)?;
        let mode = file.metadata().map_err(in_file)?.permissions().mode();
        if mode & 0o077 != 0 {
            let error = Error::new(ErrorKind::Denied, "other users may read the tokens");
            return Err(error.with_hint("chmod 600 the file").in_file(path));
        }
        let mut text = String::new();
        file.take(MAX_FILE_BYTES)
            .read_to_string(&mut text)
            .map_err(in_file)?;
        Self::parse(&text).map_err(|error| error.in_file(path))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut grants = Vec::new();
        for (line, number) in text.lines().zip(1_u32..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (token, pattern) = line.split_once([' ', '\t']).unwrap_or((line, "*"));
            let is_valid = token.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_valid || token.len() < MIN_TOKEN_BYTES {
                let reason = format!(
                    "invalid token in line {number}: expected at least {MIN_TOKEN_BYTES} printable \
                     ASCII characters"
                );
                return Err(Error::invalid(reason));
            }
            grants.push(Grant {
                token: token.to_owned(),
                pattern: pattern.trim().to_owned(),
            });
        }
        if grants.is_empty() {
            return Err(Error::invalid("the file has no token"));
        }
        Ok(Self {
            grants: Some(grants),
        })
    }

    /// Returns true if clients need a token.
    pub fn needs_token(&self) -> bool {
        self.grants.is_some()
    }

    /// Returns the client of a request with this header `Authorization`, or `None` if it has no
    /// valid token. All tokens are compared, each in constant time.
    pub(crate) fn client(&self, authorization: Option<&HeaderValue>) -> Option<Client<'_>> {
        let Some(grants) = &self.grants else {
            return Some(Client(None));
        };
        let given = bearer(authorization?)?;
        let mut patterns = Vec::new();
        for grant in grants {
            if bool::from(grant.token.as_bytes().ct_eq(given)) {
                patterns.push(grant.pattern.as_str());
            }
        }
        (!patterns.is_empty()).then_some(Client(Some(patterns)))
    }
}

/// Returns the token of `Bearer TOKEN`.
fn bearer(header: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = header.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

impl Client<'_> {
    /// Returns true if the client may read the image with this name.
    pub(crate) fn may_read(&self, name: &str) -> bool {
        let patterns = self.0.as_ref();
        patterns.is_none_or(|patterns| patterns.iter().any(|it| matches(it, name)))
    }
}

/// Shows no token.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.grants.as_ref().map(Vec::len);
        f.debug_struct("Access").field("tokens", &count).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_for_images() {
        let text = "# tokens\n\nfirst-token-0123456\nsecond-token-012345 web-*.raw\n\
                    second-token-012345\tdb?.qcow2\n";
        let access = Access::parse(text).unwrap();
        let client = |header: &'static str| access.client(Some(&HeaderValue::from_static(header)));
        assert!(
            client("Bearer first-token-0123456")
                .unwrap()
                .may_read("any")
        );
        let second = client("bearer second-token-012345").unwrap();
        assert!(second.may_read("web-1.raw") && second.may_read("db1.qcow2"));
        assert!(!second.may_read("db.qcow2") && !second.may_read("other"));
        for wrong in [
            "Bearer first-token-012345",
            "Bearer first-token-01234567",
            "Bearer ",
            "Basic first-token-0123456",
            "first-token-0123456",
        ] {
            assert!(client(wrong).is_none(), "{wrong}");
        }
        assert!(access.client(None).is_none());
        assert!(Access::everyone().client(None).unwrap().may_read("x"));
        assert!(!format!("{access:?}").contains("token-"), "{access:?}");
        for text in ["", "# only\n", "short\n", "t\u{f6}ken-0123456789abcdef\n"] {
            assert!(Access::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        std::fs::write(&path, "first-token-0123456\n").unwrap();
        for (mode, is_accepted) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(Access::of_file(&path).is_ok(), is_accepted, "{mode:o}");
        }
    }
}
