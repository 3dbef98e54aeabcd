//! Changes of single values in a text that keep every other byte.

use std::borrow::Cow;

use super::Text;
use super::lexer::{Lexer, Token};

/// A function that returns the new text of a value, or `None` to keep it. It gets the names of the
/// enclosing sections, the value's name, and the value as it is written in the text.
pub(crate) type Edit<'e> = dyn FnMut(&[Cow<'_, str>], &str, &str) -> Option<String> + 'e;

/// Returns the text with the values that `edit` changes. Lists are kept.
///
/// # Errors
/// A syntax error in the text.
pub(crate) fn edited(text: &str, edit: &mut Edit<'_>) -> Result<String, String> {
    let mut lexer = Lexer::new(text);
    let mut sections: Vec<Cow<'_, str>> = Vec::new();
    let mut edited = String::with_capacity(text.len());
    let mut copied = 0;
    while let Some(token) = lexer.next()? {
        let name = match token {
            Token::Word(name) | Token::Quoted(name) => name,
            Token::Mark(_) => {
                sections.pop();
                continue;
            }
        };
        if lexer.next()? == Some(Token::Mark('{')) {
            sections.push(Text(name).plain());
            continue;
        }
        let (old, closing) = match lexer.next()? {
            Some(Token::Word(old)) => (old, 0),
            Some(Token::Quoted(old)) => (old, 1),
            Some(Token::Mark(_)) => {
                skip_list(&mut lexer)?;
                continue;
            }
            None => break,
        };
        if let Some(new) = edit(&sections, name, old) {
            let end = text.len().saturating_sub(lexer.rest().len());
            let end = end.saturating_sub(closing);
            let start = end.saturating_sub(old.len());
            edited.push_str(text.get(copied..start).unwrap_or_default());
            edited.push_str(&new);
            copied = end;
        }
    }
    edited.push_str(text.get(copied..).unwrap_or_default());
    Ok(edited)
}

fn skip_list(lexer: &mut Lexer<'_>) -> Result<(), String> {
    while let Some(token) = lexer.next()? {
        if token == Token::Mark(']') {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_values_is_kept() {
        let text = "# id = \"no\"\nvg {\n\tid = \"old\" # id\n seqno=9\n list = [\"id\", 1]\n a { id = \"x\\\"y\" }\n}\nid = 1";
        let new = edited(text, &mut |sections, name, old| match (sections, name) {
            ([vg], "id") => Some(format!("<{vg} {old}>")),
            ([_], "seqno") => Some("10".to_owned()),
            ([_, a], "id") if a == "a" => Some(old.to_uppercase()),
            _ => None,
        });
        let wanted = text.replace("\"old\"", "\"<vg old>\"");
        let wanted = wanted.replace("seqno=9", "seqno=10");
        assert_eq!(new.unwrap(), wanted.replace("x\\\"y", "X\\\"Y"));
        assert!(edited("a = \"b", &mut |_, _, _| None).is_err());
    }
}
