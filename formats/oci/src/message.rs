//! Texts of documents in messages.

/// The most characters of a name or a media type that an error shows.
const SHOWN_CHARS: usize = 200;

/// The limit on the choices that an error lists.
const LISTED: usize = 50;

/// Returns a text from a document for a message.
pub(crate) fn shortened(text: &str) -> String {
    let start: String = text.chars().take(SHOWN_CHARS).collect();
    start.escape_debug().to_string()
}

/// Returns choices as one text.
pub(crate) fn list(choices: &[String]) -> String {
    if choices.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<_> = choices.iter().take(LISTED).map(String::as_str).collect();
    let more = if choices.len() > LISTED { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}
