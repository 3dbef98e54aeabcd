//! The header `WWW-Authenticate` of registries (RFC 9110, section 11; the token authentication of
//! Docker's registry).

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// The longest challenge that is parsed.
const MAX_BYTES: usize = 8 << 10;

/// The credentials that a registry asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A user and a password.
    Basic,
    /// A token, from the server at `realm`.
    Bearer {
        realm: String,
        service: Option<String>,
    },
}

impl Challenge {
    /// Returns the challenge of an answer; a token is preferred.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        let found: Vec<_> = texts.filter_map(Self::parse).collect();
        let is_bearer = |it: &&Self| matches!(it, Self::Bearer { .. });
        let bearer = found.iter().find(is_bearer);
        bearer.or(found.first()).cloned()
    }

    fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service) = (None, None);
        let mut rest = rest;
        while let Some((name, value, after)) = parameter(rest) {
            match &*name.to_ascii_lowercase() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                _ => {}
            }
            rest = after;
        }
        Some(Self::Bearer {
            realm: realm?,
            service,
        })
    }
}

/// Splits `name="value"` or `name=value` off the beginning of a list.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let text = text.trim_start_matches([' ', ',', '\t']);
    let (name, rest) = text.split_once('=')?;
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find([',', ' ']).unwrap_or(rest.len());
        let (value, after) = rest.split_at_checked(end)?;
        return Some((name.trim(), value.to_owned(), after));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((name.trim(), value, quoted.get(at.saturating_add(1)..)?)),
            '\\' => value.push(chars.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_parsed() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer {
                realm: realm.to_owned(),
                service: service.map(Into::into),
            })
        };
        for (text, expected) in [
            (
                r#"Bearer realm="https://a.org/t?x=1",service="a.org",scope="repository:b:pull""#,
                bearer("https://a.org/t?x=1", Some("a.org")),
            ),
            (
                r#"bearer service=a, realm="b\"c""#,
                bearer("b\"c", Some("a")),
            ),
            (r#"Basic realm="x""#, Some(Challenge::Basic)),
            ("BASIC", Some(Challenge::Basic)),
            ("Bearer service=\"a\"", None),
            ("Bearer realm=\"unfinished", None),
            ("Bearer realm=\"a\\", None),
            ("Negotiate", None),
            ("", None),
        ] {
            assert_eq!(Challenge::parse(text), expected, "{text}");
        }
    }
}
