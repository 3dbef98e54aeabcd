//! The logins in Docker's `config.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding};
use diskfs_block::{Error, ErrorKind, Result};
use serde::Deserialize;

use crate::http::netrc::Login;
use crate::secret_file;

/// The hint for logins that only other programs can get.
const HELPER_HINT: &str =
    "log in with DOCKER_CONFIG set to a new directory, and use it for diskfs, too";

/// The part of the file with logins.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    #[serde(default)]
    creds_store: String,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    identitytoken: String,
}

/// Returns the login for a registry, if the file has one.
///
/// # Errors
/// `Unsupported` if only another program can get it; `Invalid` for an invalid file. No error shows
/// the contents of the file.
pub(super) fn login(host: &str) -> Result<Option<Login>> {
    let Some(path) = config_path() else {
        return Ok(None);
    };
    let Some(text) = secret_file::read(&path)? else {
        return Ok(None);
    };
    find(&text, host).map_err(|e| e.in_file(Path::new(&path)))
}

fn find(text: &[u8], host: &str) -> Result<Option<Login>> {
    // The parser's reason may contain secrets.
    let config: Config = serde_json::from_slice(text).map_err(|e| {
        let reason = format!("invalid JSON at line {} column {}", e.line(), e.column());
        Error::invalid(reason)
    })?;
    if let Some((_, helper)) = config
        .cred_helpers
        .iter()
        .find(|(key, _)| is_for(key, host))
    {
        return Err(by_helper(host, helper));
    }
    let Some((_, entry)) = config.auths.iter().find(|(key, _)| is_for(key, host)) else {
        return Ok(None);
    };
    if !entry.identitytoken.is_empty() {
        let reason = format!("the login for {host} is an identity token, which is not supported");
        return Err(Error::unsupported(reason).with_hint("log in with a user and an access token"));
    }
    if entry.auth.is_empty() {
        return match &*config.creds_store {
            "" => Ok(None),
            helper => Err(by_helper(host, helper)),
        };
    }
    let invalid = || {
        Error::invalid(format!(
            "invalid login for {host}: not base64 of USER:PASSWORD"
        ))
    };
    let decoded = Base64::decode_vec(entry.auth.trim()).map_err(|_| invalid())?;
    let decoded = String::from_utf8(decoded).map_err(|_| invalid())?;
    let (user, password) = decoded.split_once(':').ok_or_else(invalid)?;
    Ok(Some(Login {
        user: user.to_owned(),
        // Docker once padded them.
        password: password.trim_end_matches('\0').to_owned(),
    }))
}

fn by_helper(host: &str, helper: &str) -> Error {
    let helper: String = helper.chars().take(100).collect();
    let reason = format!(
        "the login for {host} is in the credential helper `{}`, which diskfs does not run",
        helper.escape_debug()
    );
    Error::new(ErrorKind::Unsupported, reason).with_hint(HELPER_HINT)
}

/// Returns true for the entry of a registry: its host, or a URL with it.
fn is_for(key: &str, host: &str) -> bool {
    let named = key.split_once("://").map_or(key, |(_, rest)| rest);
    let named = named.split('/').next().unwrap_or_default();
    let is_docker =
        |host: &str| ["docker.io", "index.docker.io", "registry-1.docker.io"].contains(&host);
    named == host || is_docker(named) && is_docker(host)
}

fn config_path() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let directory = match set("DOCKER_CONFIG") {
        Some(directory) => PathBuf::from(directory),
        None => PathBuf::from(set("HOME")?).join(".docker"),
    };
    Some(directory.join("config.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_of_the_registry_counts() {
        let text = br#"{"auths": {
            "https://index.docker.io/v1/": {"auth": "dTpw"},
            "localhost:5000": {"auth": "bWU6czpjcmV0"},
            "helped.org": {},
            "token.org": {"identitytoken": "x"},
            "bad.org": {"auth": "secret!"}
        }, "credHelpers": {"gcr.io": "gcloud"}, "credsStore": "desktop", "HttpHeaders": {}}"#;
        let found = |host: &str| find(text, host);
        let login = |host: &str| {
            let login = found(host).unwrap().unwrap();
            (login.user, login.password)
        };
        assert_eq!(login("docker.io"), ("u".into(), "p".into()));
        assert_eq!(login("localhost:5000"), ("me".into(), "s:cret".into()));
        assert!(found("localhost:5001").unwrap().is_none());
        for (host, reason) in [
            ("helped.org", "credential helper `desktop`"),
            ("gcr.io", "credential helper `gcloud`"),
            ("token.org", "identity token"),
            ("bad.org", "not base64"),
        ] {
            let Err(error) = found(host) else {
                panic!("{host}");
            };
            assert!(error.to_string().contains(reason), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let Err(error) = find(br#"{"auths": "secret"}"#, "a") else {
            panic!("invalid JSON");
        };
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
