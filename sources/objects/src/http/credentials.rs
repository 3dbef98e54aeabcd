//! The credentials for a server: from the environment and `.netrc`, never from a command line.

use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

use diskfs_block::{Error, Result};
use reqwest::{RequestBuilder, Url};

use super::netrc::{self, Login};
use crate::secret_file;

/// The environment variable of a token, which is sent to the server of the first URL.
const TOKEN: &str = "DISKFS_HTTP_TOKEN";

/// The server that gets the token: the first one that this process asks. A list of checksums, or
/// another image, may be on a server that must not know it.
static TOKEN_ORIGIN: OnceLock<Origin> = OnceLock::new();

/// A scheme, a host and a port.
type Origin = (String, Option<String>, Option<u16>);

/// The credentials for the server of a URL. Other servers, to which it redirects, don't get them.
pub(super) struct Credentials {
    origin: Origin,
    kind: Kind,
}

enum Kind {
    None,
    Token(String),
    Login(Login),
}

impl Credentials {
    /// Returns the credentials for a URL: the token of the environment, or the entry of
    /// `$NETRC` or `~/.netrc`.
    pub(super) fn of_environment(url: &Url) -> Result<Self> {
        let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        let is_first = |_: &String| *TOKEN_ORIGIN.get_or_init(|| origin(url)) == origin(url);
        let kind = match token.filter(is_first) {
            Some(token) => Kind::Token(token),
            None => match login(url)? {
                Some(login) => Kind::Login(login),
                None => Kind::None,
            },
        };
        Ok(Self {
            origin: origin(url),
            kind,
        })
    }

    /// Adds the credentials to a request for `url`, if it goes to the server that they are for.
    pub(super) fn add_to(&self, request: RequestBuilder, url: &Url) -> RequestBuilder {
        if origin(url) != self.origin {
            return request;
        }
        match &self.kind {
            Kind::None => request,
            Kind::Token(token) => request.bearer_auth(token),
            Kind::Login(login) => request.basic_auth(&login.user, Some(&login.password)),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::None => "none",
            Kind::Token(_) => "token",
            Kind::Login(_) => "login",
        };
        f.debug_tuple("Credentials").field(&kind).finish()
    }
}

/// Refuses a URL with a password: other users of the host see command lines.
pub(super) fn refuse_in_url(url: &Url) -> Result<()> {
    if url.password().is_none() && url.username().is_empty() {
        return Ok(());
    }
    let error = Error::invalid("the URL contains a user or a password, which `ps` shows");
    Err(error.with_hint("add the server to ~/.netrc instead"))
}

fn origin(url: &Url) -> Origin {
    let host = url.host_str().map(Into::into);
    (url.scheme().to_owned(), host, url.port_or_known_default())
}

fn login(url: &Url) -> Result<Option<Login>> {
    let Some(path) = netrc_path() else {
        return Ok(None);
    };
    let Some(bytes) = secret_file::read(&path)? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::invalid("the file is not valid UTF-8").in_file(&path))?;
    Ok(netrc::find(&text, url.host_str().unwrap_or_default()))
}

fn netrc_path() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    match set("NETRC") {
        Some(path) => Some(path.into()),
        None => Some(PathBuf::from(set("HOME")?).join(".netrc")),
    }
}
