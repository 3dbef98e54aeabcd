//! Passwords on the command line, in the words of virt-customize.

use diskfs::deploy::Password;

/// That of `password:TEXT`, `file:FILE` (its first line), `hash:HASH`, `random`, `locked`, `unlock` or `disabled`.
pub(super) fn parse(selector: &str) -> Result<Password, String> {
    let mut password = Password::default();
    match selector.split_once(':') {
        Some(("password", text)) => password.text = Some(text.to_owned()),
        Some(("file", path)) => password.text = Some(first_line(path)?),
        Some(("hash", hash)) => password.hash = Some(hash.to_owned()),
        None if selector == "random" => password.random = true,
        None if selector == "locked" => password.locked = true,
        None if selector == "unlock" => password.unlock = true,
        None if selector == "disabled" => password.disabled = true,
        _ => {
            let reason =
                "write password:TEXT, file:FILE, hash:HASH, random, locked, unlock or disabled";
            return Err(reason.to_owned());
        }
    }
    Ok(password)
}

fn first_line(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().next().filter(|line| !line.is_empty());
    line.map(str::to_owned)
        .ok_or_else(|| format!("{path} has no password in its first line"))
}
