//! The conditions of a request (RFC 9110, section 13).

use http::HeaderMap;
use http::header::{IF_MATCH, IF_NONE_MATCH, IF_RANGE};

/// The result of the conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The request is carried out.
    Proceed,
    /// The client has this version.
    NotModified,
    /// The file has another version than the client expects.
    Failed,
}

/// Evaluates `If-Match` and `If-None-Match` for a file with this `ETag`.
pub(crate) fn evaluate(headers: &HeaderMap, etag: &str) -> Outcome {
    let lists = |name| -> Vec<&str> {
        let values = headers.get_all(name).iter();
        values.filter_map(|value| value.to_str().ok()).collect()
    };
    let expected = lists(IF_MATCH);
    if !expected.is_empty() && !expected.iter().any(|list| names(list, etag)) {
        return Outcome::Failed;
    }
    // Compared as weak validators are.
    let known = lists(IF_NONE_MATCH);
    let is_known = known
        .iter()
        .any(|list| names(&list.replace("W/", ""), etag));
    if is_known {
        Outcome::NotModified
    } else {
        Outcome::Proceed
    }
}

/// Returns true if `If-Range` allows an answer of ranges: it is missing, or names this version.
pub(crate) fn allows_ranges(headers: &HeaderMap, etag: &str) -> bool {
    headers
        .get(IF_RANGE)
        .is_none_or(|value| value.as_bytes() == etag.as_bytes())
}

/// Returns true if a list of `ETag`s contains this one. Ours contain no comma.
fn names(list: &str, etag: &str) -> bool {
    list.split(',')
        .map(str::trim)
        .any(|found| found == "*" || found == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_the_specification() {
        let outcome = |name, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            evaluate(&headers, "\"1\"")
        };
        for (value, matches) in [
            ("\"1\"", Outcome::Proceed),
            ("\"0\", \"1\"", Outcome::Proceed),
            ("*", Outcome::Proceed),
            ("\"2\"", Outcome::Failed),
            ("W/\"1\"", Outcome::Failed),
        ] {
            assert_eq!(outcome(IF_MATCH, value), matches, "{value}");
        }
        for (value, expected) in [
            ("\"1\"", Outcome::NotModified),
            ("W/\"1\"", Outcome::NotModified),
            ("\"2\"", Outcome::Proceed),
        ] {
            assert_eq!(outcome(IF_NONE_MATCH, value), expected, "{value}");
        }
        let mut headers = HeaderMap::new();
        assert!(allows_ranges(&headers, "\"1\""));
        headers.insert(IF_RANGE, "\"1\"".parse().unwrap());
        assert!(allows_ranges(&headers, "\"1\"") && !allows_ranges(&headers, "\"2\""));
    }
}
