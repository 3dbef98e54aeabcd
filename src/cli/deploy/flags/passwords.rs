//! Password selectors on the command line, in the syntax of virt-customize.

use diskfs::deploy::{Password, PasswordWords, first_line};

/// Parses `password:TEXT`, `file:FILE` (its first line), `hash:HASH`, `random`, `locked`, `unlock`
/// or `disabled`.
pub(super) fn parse(selector: &str) -> Result<Password, String> {
    let mut password = Password::default();
    match PasswordWords::parse(selector) {
        Some(PasswordWords::Text(text)) => password.text = Some(text.to_owned()),
        Some(PasswordWords::File(path)) => {
            password.text = Some(first_line(path).map_err(|error| error.to_string())?);
        }
        Some(PasswordWords::Hash(hash)) => password.hash = Some(hash.to_owned()),
        Some(PasswordWords::Random) => password.random = true,
        Some(PasswordWords::Locked) => password.locked = true,
        Some(PasswordWords::Unlock) => password.unlock = true,
        Some(PasswordWords::Disabled) => password.disabled = true,
        None => {
            let reason =
                "expected password:TEXT, file:FILE, hash:HASH, random, locked, unlock or disabled";
            return Err(reason.to_owned());
        }
    }
    Ok(password)
}
