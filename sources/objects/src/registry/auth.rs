//! The credentials for a registry: a login, or a token that is got with it.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64ct::{Base64, Encoding};
use diskfs_block::{Error, ErrorKind, Result};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde::Deserialize;

use super::challenge::Challenge;
use super::{
    Fetched, RegistryAccess, Shared, bounded, docker_config, is_plain, refusal, violation,
};
use crate::http::answer::failure;
use crate::http::netrc::Login;
use crate::object::FetchError;

/// The longest answer with a token.
const TOKEN_MAX_BYTES: u64 = 1 << 20;

/// The credentials for a repository.
pub(super) struct Auth {
    /// The registry as the user named it.
    host: String,
    /// The permissions that are asked for.
    scope: String,
    state: Mutex<State>,
    /// Held while a token is got, so that there is only one request for it.
    renewing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    authorization: Option<HeaderValue>,
    /// The number of times that credentials were got.
    generation: u64,
    /// All credentials so far, which no message may contain.
    secrets: Vec<String>,
}

/// The answer of the server of tokens. Of old ones it has the second name.
#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

impl Auth {
    pub(super) fn new(host: &str, repository: &str, access: RegistryAccess) -> Self {
        let actions = match access {
            RegistryAccess::Pull => "pull",
            RegistryAccess::Push => "pull,push",
        };
        Self {
            host: host.to_owned(),
            scope: format!("repository:{repository}:{actions}"),
            state: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
        }
    }

    /// Adds the credentials to a request to the registry. Returns their generation.
    pub(super) fn add_to(&self, request: RequestBuilder) -> (RequestBuilder, u64) {
        let state = self.state();
        let request = match &state.authorization {
            Some(value) => request.header(AUTHORIZATION, value),
            None => request,
        };
        (request, state.generation)
    }

    /// Gets the credentials that a registry asks for with status 401, unless another thread has got
    /// newer ones than those of `generation`.
    pub(super) async fn renew(
        &self,
        registry: &Shared,
        headers: &HeaderMap,
        generation: u64,
    ) -> Fetched<()> {
        let _only = self.renewing.lock().await;
        if self.state().generation != generation {
            return Ok(());
        }
        let challenge = Challenge::of(headers).ok_or_else(|| {
            violation("the registry asks for credentials in a way that is not supported")
        })?;
        let login = docker_config::login(&self.host)?;
        match challenge {
            Challenge::Basic => {
                // Without a login, the answer to the next request has the reason.
                if let Some(login) = login {
                    self.set(basic(&login)?, login.password);
                }
            }
            Challenge::Bearer { realm, service } => {
                let url = self.token_url(registry, &realm, service.as_deref())?;
                let token = self.token(registry, url, login).await?;
                self.set(header(&format!("Bearer {token}"))?, token);
            }
        }
        Ok(())
    }

    /// Returns the URL of a token. It must not be less safe than the registry.
    fn token_url(&self, registry: &Shared, realm: &str, service: Option<&str>) -> Fetched<Url> {
        let invalid = |reason: &str| {
            let reason =
                format!("the server of tokens that the registry names is refused: {reason}");
            FetchError::from(Error::new(ErrorKind::Denied, reason))
        };
        let mut url: Url = realm.parse().map_err(|_| invalid("it is not a URL"))?;
        let port = url
            .port()
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        let host = format!("{}{port}", url.host_str().unwrap_or_default());
        let is_allowed = match url.scheme() {
            "https" => true,
            "http" => registry.base.scheme() == "http" && is_plain(&host),
            _ => false,
        };
        if !is_allowed {
            return Err(invalid("it is not one with TLS"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("its URL has a user"));
        }
        let mut query = url.query_pairs_mut();
        if let Some(service) = service {
            query.append_pair("service", service);
        }
        query.append_pair("scope", &self.scope);
        drop(query);
        Ok(url)
    }

    async fn token(&self, registry: &Shared, url: Url, login: Option<Login>) -> Fetched<String> {
        let mut request = registry.request(Method::GET, url, TOKEN_MAX_BYTES);
        if let Some(login) = login {
            request = request.header(AUTHORIZATION, basic(&login)?);
            self.state().secrets.push(login.password);
        }
        let response = request.send().await.map_err(failure)?;
        if response.status() != StatusCode::OK {
            return Err(refusal::of(response, self).await);
        }
        let body = bounded(response, TOKEN_MAX_BYTES, "token").await?;
        // The parser's reason may contain the token.
        let answer: Option<TokenAnswer> = serde_json::from_slice(&body).ok();
        let token = answer.and_then(|answer| answer.token.or(answer.access_token));
        let is_empty = |token: &String| token.is_empty();
        let token = token.filter(|token| !is_empty(token));
        token.ok_or_else(|| violation("the registry's server of tokens sent no token"))
    }

    fn set(&self, authorization: HeaderValue, secret: String) {
        let mut state = self.state();
        state.authorization = Some(authorization);
        state.generation = state.generation.saturating_add(1);
        // Old tokens have expired.
        let old = state.secrets.len().saturating_sub(16);
        state.secrets.drain(..old);
        state.secrets.push(secret);
    }

    /// Returns a text of the registry without the credentials, which it knows.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        let state = self.state();
        let mut text = text.to_owned();
        let header = state.authorization.as_ref();
        let header = header.and_then(|value| value.to_str().ok());
        let encoded = header.and_then(|value| value.split(' ').nth(1));
        let secrets = state.secrets.iter().map(String::as_str).chain(encoded);
        for secret in secrets.filter(|secret| !secret.is_empty()) {
            text = text.replace(secret, "***");
        }
        text
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn basic(login: &Login) -> Result<HeaderValue> {
    let text = format!("{}:{}", login.user, login.password);
    header(&format!("Basic {}", Base64::encode_string(text.as_bytes())))
}

fn header(text: &str) -> Result<HeaderValue> {
    let invalid = |_| Error::invalid("invalid credentials: they contain control characters");
    let mut value = HeaderValue::from_str(text).map_err(invalid)?;
    value.set_sensitive(true);
    Ok(value)
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth")
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}
