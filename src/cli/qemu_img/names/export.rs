//! The names of exports of NBD, which become URIs.

/// An export of NBD.
#[derive(Debug, Default)]
pub(super) struct Export {
    /// The path of a Unix socket, or a host with its port.
    pub(super) unix: Option<String>,
    pub(super) host: Option<String>,
    port: Option<String>,
    name: String,
}

impl Export {
    /// Parses `HOST:PORT` or `unix:PATH`, and `:exportname=NAME`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, name) = text.split_once(":exportname=").unwrap_or((text, ""));
        let mut export = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        if let Some(path) = address.strip_prefix("unix:") {
            export.unix = Some(path.to_owned());
        } else {
            let (host, port) = address.rsplit_once(':')?;
            let host = host.strip_prefix('[').unwrap_or(host);
            export.host = Some(host.strip_suffix(']').unwrap_or(host).to_owned());
            export.port = Some(port.to_owned());
        }
        Some(export)
    }

    /// Takes an option of the driver `nbd`.
    pub(super) fn take(&mut self, name: &str, value: &str) -> std::result::Result<(), String> {
        match name {
            "path" | "server.path" => self.unix = Some(value.to_owned()),
            "host" | "server.host" => self.host = Some(value.to_owned()),
            "port" | "server.port" => self.port = Some(value.to_owned()),
            "export" => value.clone_into(&mut self.name),
            "server.type" if matches!(value, "unix" | "inet") => {}
            "reconnect-delay" => {}
            _ => return Err(format!("Invalid parameter '{name}'")),
        }
        Ok(())
    }

    /// Returns the URI, as QEMU spells it.
    pub(super) fn uri(&self) -> String {
        let name = encoded(&self.name);
        if let Some(path) = &self.unix {
            let name = if name.is_empty() {
                name
            } else {
                format!("/{name}")
            };
            return format!("nbd+unix://{name}?socket={}", encoded(path));
        }
        let host = self.host.as_deref().unwrap_or_default();
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            encoded(host)
        };
        let port = self.port.as_deref().unwrap_or("10809");
        let name = if name.is_empty() {
            name
        } else {
            format!("/{name}")
        };
        format!("nbd://{host}:{}{name}", encoded(port))
    }
}

/// Encodes the characters of a part of a URI that would end it.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'%' | b'?' | b'#' | b'&' | 0..=b' ' | 0x7f.. => format!("%{byte:02X}"),
        _ => char::from(byte).to_string(),
    };
    text.bytes().map(encode).collect()
}
