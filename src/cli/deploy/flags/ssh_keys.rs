//! SSH key selectors on the command line, in the syntax of virt-customize.

use std::path::Path;

use diskfs::deploy::SshKey;

/// The names of the files that `ssh-keygen` creates, in order of preference.
const OWN: [&str; 3] = ["id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub"];

/// Parses `USER`, `USER:file:FILE` or `USER:string:KEY`.
pub(super) fn parse(value: &str) -> Result<SshKey, String> {
    let (user, selector) = value.split_once(':').unwrap_or((value, ""));
    let text = match selector.split_once(':') {
        Some(("file", path)) => read(Path::new(path))?,
        Some(("string", key)) => key.to_owned(),
        None if selector.is_empty() => read_own_key()?,
        _ => return Err("expected USER, USER:file:FILE or USER:string:KEY".to_owned()),
    };
    let lines = text.lines().map(str::trim);
    let keys = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(SshKey {
        user: user.to_owned(),
        keys: keys.map(str::to_owned).collect(),
        remove: Vec::new(),
        remove_comments: Vec::new(),
        exclusive: false,
    })
}

/// Reads the public key of the user who runs this program.
fn read_own_key() -> Result<String, String> {
    let home = std::env::var_os("HOME")
        .ok_or("no key is given, and $HOME is not set; give a key as file:FILE")?;
    let dir = Path::new(&home).join(".ssh");
    let mut paths = OWN.iter().map(|name| dir.join(name));
    let path = paths.find(|path| path.is_file());
    let none = || {
        format!(
            "no key is given, and none was found in {}; give a key as file:FILE",
            dir.display()
        )
    };
    read(&path.ok_or_else(none)?)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
