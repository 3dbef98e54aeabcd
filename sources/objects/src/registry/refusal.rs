//! The errors of registries (OCI distribution specification, "Error Codes").

use diskfs_block::{Error, ErrorKind};
use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};
use serde::Deserialize;

use super::auth::Auth;
use super::bounded;
use crate::http::answer::passing;
use crate::object::FetchError;

/// The longest answer whose errors are shown.
const ANSWER_MAX_BYTES: u64 = 64 << 10;
/// The number of errors of one answer that are shown, and the length of each.
const SHOWN: usize = 3;
const SHOWN_CHARS: usize = 300;

/// The hint for a registry that wants another login.
const LOGIN_HINT: &str =
    "log in with `docker login`, which stores the login in Docker's config.json";

#[derive(Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<Reason>,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// Returns the failure of an answer that is an error, with the registry's reasons.
pub(super) async fn of(response: Response, auth: &Auth) -> FetchError {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = bounded(response, ANSWER_MAX_BYTES, "error").await;
    let reasons = body.map(|body| reasons(&body, auth)).unwrap_or_default();
    failure(status, &headers, &reasons)
}

fn failure(status: StatusCode, headers: &HeaderMap, reasons: &[String]) -> FetchError {
    let mut reason = format!("the registry answered {status}");
    if !reasons.is_empty() {
        reason = format!("{reason}: {}", reasons.join(", "));
    }
    let kind = match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => ErrorKind::NotFound,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let error = Error::new(ErrorKind::Denied, reason);
            return error.with_hint(LOGIN_HINT).into();
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => ErrorKind::Denied,
        _ if status.is_redirection() => {
            let reason = "the registry's redirection is refused: it leads to something else than \
                          HTTP";
            return Error::new(ErrorKind::Denied, reason).into();
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            return passing(reason, headers);
        }
        _ if status.is_server_error() => return passing(reason, headers),
        _ => ErrorKind::Io,
    };
    Error::new(kind, reason).into()
}

/// Returns the reasons in an answer, as they may be shown: printable, short and without secrets.
fn reasons(body: &[u8], auth: &Auth) -> Vec<String> {
    let Ok(Errors { errors }) = serde_json::from_slice(body) else {
        return Vec::new();
    };
    let shown = errors.into_iter().take(SHOWN).map(|reason| {
        let text = match (&*reason.code, &*reason.message) {
            (code, "") => code.to_owned(),
            ("", message) => message.to_owned(),
            (code, message) => format!("{code} ({message})"),
        };
        let text = auth.without_secrets(&text);
        let text: String = text.chars().take(SHOWN_CHARS).collect();
        text.escape_debug().to_string()
    });
    shown.filter(|text| !text.is_empty()).collect()
}
