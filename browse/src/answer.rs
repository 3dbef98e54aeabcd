//! Answers: the output of a command as a response of HTTP.

use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};
use tokio_stream::wrappers::ReceiverStream;

use crate::child::{Ended, Output};
use crate::endpoints::{Endpoint, Form};

/// The header with the errors and warnings of a command that has printed a document.
const MESSAGES: HeaderName = HeaderName::from_static("diskfs-messages");

/// The maximum size of that header: clients limit all headers to 16 KiB or more.
const MAX_HEADER_BYTES: usize = 8 << 10;

/// The characters that RFC 8187 allows in names besides letters and digits.
const IN_NAMES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns the answer for the output of a command.
pub(crate) fn of_output(endpoint: &Endpoint, output: Output, saved_as: Option<&[u8]>) -> Response {
    let response = match output {
        Output::Streamed(receiver) => {
            Response::new(Body::from_stream(ReceiverStream::new(receiver)))
        }
        Output::Whole(ended) if has_failed(endpoint, &ended) => {
            return of_failure(endpoint.command(), ended);
        }
        Output::Whole(ended) => whole(ended),
    };
    with_form(response, endpoint.form, saved_as)
}

/// Returns true if a command has failed and has not even printed a part of its document.
fn has_failed(endpoint: &Endpoint, ended: &Ended) -> bool {
    let has_succeeded = ended
        .exit_code
        .is_some_and(|code| endpoint.succeeds_with(code));
    let is_partial = || endpoint.form == Form::Json && has_entries(&ended.stdout);
    !(has_succeeded || is_partial())
}

/// Returns what a command has printed, with its errors and warnings in a header.
fn whole(ended: Ended) -> Response {
    let messages = header(&ended.messages);
    let mut response = Response::new(Body::from(ended.stdout));
    if let Some(messages) = messages {
        response.headers_mut().insert(MESSAGES, messages);
    }
    response
}

/// Returns true if a failed command has printed a document with at least one entry.
fn has_entries(stdout: &[u8]) -> bool {
    let document: Option<Value> = serde_json::from_slice(stdout).ok();
    let members = document.as_ref().and_then(Value::as_object);
    let is_filled = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    members.is_some_and(|members| members.values().any(is_filled))
}

fn header(messages: &[Value]) -> Option<HeaderValue> {
    let mut kept = messages;
    while let [rest @ .., _] = kept {
        let text = json!(kept).to_string();
        let encoded = percent_encode(text.as_bytes(), NON_ALPHANUMERIC).to_string();
        if encoded.len() <= MAX_HEADER_BYTES {
            return HeaderValue::from_str(&encoded).ok();
        }
        kept = rest;
    }
    None
}

/// Returns the response for a command that has failed: its error document.
fn of_failure(command: &str, ended: Ended) -> Response {
    let is_error = |message: &Value| message.get("error").is_some();
    let first = ended.messages.into_iter().find(is_error);
    let kind = first
        .as_ref()
        .and_then(|message| message.pointer("/error/kind")?.as_str());
    let status = match (ended.exit_code, kind) {
        (Some(2), _) | (_, Some("is_a_directory" | "not_a_directory")) => StatusCode::BAD_REQUEST,
        (Some(3), _) => StatusCode::NOT_FOUND,
        (Some(4), _) => StatusCode::NOT_IMPLEMENTED,
        (Some(5), _) => StatusCode::UNPROCESSABLE_ENTITY,
        (Some(6), _) => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    match first {
        Some(document) => json_response(status, &document),
        None => failure(
            status,
            command,
            "other",
            "the command ended without a message",
        ),
    }
}

/// Returns a failure of the server itself, in the form of the commands' errors.
pub(crate) fn failure(status: StatusCode, command: &str, kind: &str, message: &str) -> Response {
    let exit_code = match kind {
        "invalid" => 2,
        "not_found" => 3,
        _ => 1,
    };
    let error = json!({
        "diskfs": { "version": 1, "command": command },
        "error": { "kind": kind, "message": message, "exit_code": exit_code },
    });
    json_response(status, &error)
}

/// Returns a document of the server itself.
pub(crate) fn json_response(status: StatusCode, document: &Value) -> Response {
    let mut response = Response::new(Body::from(format!("{document}\n")));
    *response.status_mut() = status;
    with_form(response, Form::Json, None)
}

fn with_form(mut response: Response, form: Form, saved_as: Option<&[u8]>) -> Response {
    let media_type = match form {
        Form::JsonLines => "application/jsonl",
        Form::Bytes => "application/octet-stream",
        Form::Attachment(".tar") => "application/x-tar",
        Form::Json | Form::Attachment(_) => "application/json",
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Some(name) = saved_as {
        let suffix = match form {
            Form::Attachment(suffix) => suffix,
            _ => "",
        };
        let name = percent_encode(name, IN_NAMES);
        let value = format!("attachment; filename*=UTF-8''{name}{suffix}");
        headers.extend(
            HeaderValue::from_str(&value)
                .ok()
                .map(|it| (CONTENT_DISPOSITION, it)),
        );
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(name: &str, stdout: &'static str, exit_code: i32) -> Response {
        let ended = Ended {
            stdout: stdout.into(),
            messages: vec![json!({"error": {"kind": "not_found", "message": "no such file"}})],
            exit_code: Some(exit_code),
        };
        of_output(Endpoint::named(name).unwrap(), Output::Whole(ended), None)
    }

    #[test]
    fn exit_codes_become_statuses() {
        let codes = [
            (0, 200),
            (1, 500),
            (2, 400),
            (3, 404),
            (4, 501),
            (5, 422),
            (6, 409),
        ];
        for (exit_code, status) in codes {
            assert_eq!(answer("ls", "", exit_code).status(), status);
        }
        assert_eq!(answer("diff", "{}", 1).status(), 200);
    }

    #[test]
    fn documents_with_entries_are_answers_although_the_command_failed() {
        let partial = answer("du", r#"{"diskfs":{},"entries":[{}]}"#, 5);
        assert_eq!(partial.status(), 200);
        let messages = partial.headers()[&MESSAGES].to_str().unwrap();
        assert!(messages.contains("no%20such%20file"), "{messages}");
        assert_eq!(
            answer("ls", r#"{"diskfs":{},"entries":[]}"#, 3).status(),
            404
        );
    }

    #[test]
    fn long_messages_are_cut_at_a_whole_one() {
        let messages = vec![json!({ "warning": { "message": "x".repeat(3000) } }); 5];
        let header = header(&messages).unwrap();
        let text = header.to_str().unwrap().replace("%22", "\"");
        assert_eq!(text.matches("warning").count(), 2);
        assert!(super::header(&[json!("x".repeat(9000))]).is_none());
    }
}
