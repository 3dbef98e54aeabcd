//! The server: its routes, and the requests as a whole.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;

use crate::answer::{self, failure, json_response};
use crate::arguments::{self, Query};
use crate::child::{self, Kept, Output};
use crate::endpoints::{Endpoint, Form, Operand};
use crate::guard::{self, Guard};
use crate::plan::{self, Previews};
use crate::program::Program;
use crate::{assets, openapi};

/// The maximum number of commands that run at once. The others wait.
const MAX_COMMANDS: usize = 8;

/// The maximum size of a plan.
const MAX_PLAN_BYTES: usize = 1 << 20;

/// The name of the server in its documents.
const COMMAND: &str = "browse";

/// The request that applies a plan. Its answer is that of `deploy`.
const DEPLOY: Endpoint = Endpoint {
    name: "deploy",
    about: "Applies a plan to the image, or tries it: in a temporary overlay.",
    words: &["deploy", "--json"],
    operand: Operand::Image,
    parameters: &[],
    form: Form::Json,
};

/// The options of a server.
pub struct Options {
    /// The address; with port 0 the system chooses one.
    pub listen: SocketAddr,
    /// The names of the server that clients may use besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// True if requests may change the images.
    pub writable: bool,
    /// The program whose commands answer the requests.
    pub program: Program,
    /// Returns the JSON Schema of what a command prints.
    pub schema: fn(&str) -> Option<Value>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("listen", &self.listen)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    /// The signals that end the server, which are already caught when the
    /// address is printed.
    signals: [Signal; 2],
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// The state of all requests.
#[derive(Debug)]
struct Shared {
    options: Options,
    guard: Arc<Guard>,
    commands: Arc<Semaphore>,
    previews: Previews,
}

impl Server {
    /// Binds the address and chooses the token.
    ///
    /// # Errors
    /// Fails if the address is in use or not of this host.
    pub fn bind(mut options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen)?;
        listener.set_nonblocking(true)?;
        let names = std::mem::take(&mut options.hosts);
        let shared = Shared {
            guard: Arc::new(Guard::new(names)?),
            commands: Arc::new(Semaphore::new(MAX_COMMANDS)),
            previews: Previews::new()?,
            options,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(2)
            .build()?;
        let signals = {
            let _entered = runtime.enter();
            [SignalKind::interrupt(), SignalKind::terminate()].map(signal)
        };
        let [interrupt, terminate] = signals;
        Ok(Self {
            runtime,
            signals: [interrupt?, terminate?],
            address: listener.local_addr()?,
            listener,
            shared: Arc::new(shared),
        })
    }

    /// Returns the URL of the page, with the token.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.shared.guard.token())
    }

    /// Serves until the process gets SIGINT or SIGTERM. Commands that still run are killed.
    ///
    /// # Errors
    /// Fails if the system does.
    pub fn run(self) -> io::Result<()> {
        let [mut interrupt, mut terminate] = self.signals;
        self.runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            tokio::select! {
                served = axum::serve(listener, router(&self.shared)) => served,
                _ = interrupt.recv() => Ok(()),
                _ = terminate.recv() => Ok(()),
            }
        })
    }
}

fn router(shared: &Arc<Shared>) -> Router {
    let below = |path: &str| format!("/{}/{path}", shared.guard.token());
    Router::new()
        .route(&below(""), get(async || asset("index.html")))
        .route(
            &below("web/{file}"),
            get(async |Path(file): Path<String>| asset(&file)),
        )
        .route(&below("openapi.json"), get(describe))
        .route(&below("api/images"), get(images))
        .route(&below("api/deploy"), post(deploy))
        .route(&below("api/{name}"), get(read))
        .layer(DefaultBodyLimit::max(MAX_PLAN_BYTES))
        .layer(axum::middleware::from_fn_with_state(
            Arc::clone(&shared.guard),
            guard::check,
        ))
        .with_state(Arc::clone(shared))
}

fn asset(name: &str) -> Response {
    let Some((bytes, media_type)) = assets::named(name) else {
        return failure(StatusCode::NOT_FOUND, COMMAND, "not_found", "no such file");
    };
    let mut response = Response::new(Body::from(bytes));
    let media_type = HeaderValue::from_static(media_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    response
}

async fn describe(State(shared): State<Arc<Shared>>) -> Response {
    json_response(StatusCode::OK, &openapi::document(shared.options.schema))
}

async fn images(State(shared): State<Arc<Shared>>) -> Response {
    let names = shared.options.program.images.iter();
    let document = json!({
        "diskfs": { "version": 1, "command": COMMAND },
        "images": names.map(|name| json!({ "name": name.to_string_lossy() })).collect::<Vec<_>>(),
        "writable": shared.options.writable,
        "version": env!("CARGO_PKG_VERSION"),
    });
    json_response(StatusCode::OK, &document)
}

fn invalid(reason: &str) -> Response {
    failure(StatusCode::BAD_REQUEST, COMMAND, "invalid", reason)
}

async fn read(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(endpoint) = Endpoint::named(&name) else {
        return failure(
            StatusCode::NOT_FOUND,
            COMMAND,
            "not_found",
            "no such request",
        );
    };
    let arguments = Query::parse(query.as_deref().unwrap_or_default()).and_then(|query| {
        let preview = |image| shared.previews.of(image);
        arguments::of_request(endpoint, query, &shared.options.program, preview)
    });
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(reason) => return invalid(&reason),
    };
    match shared
        .run(endpoint, &arguments.words, Bytes::new(), Kept::BEGINNING)
        .await
    {
        Ok(output) => answer::of_output(endpoint, output, arguments.saved_as.as_deref()),
        Err(failure) => failure,
    }
}

async fn deploy(
    State(shared): State<Arc<Shared>>,
    RawQuery(query): RawQuery,
    plan: Bytes,
) -> Response {
    let program = &shared.options.program;
    let parsed = Query::parse(query.as_deref().unwrap_or_default()).and_then(|mut query| {
        let is_dry_run = query.take_switch("dry_run")?;
        let (index, image) = query.take_image("image", program)?;
        query.finish()?;
        Ok((is_dry_run, index, image.to_owned()))
    });
    let (is_dry_run, index, image) = match parsed {
        Ok(parsed) => parsed,
        Err(reason) => return invalid(&reason),
    };
    if let Some(reason) = shared.refusal_of_plans(is_dry_run) {
        return failure(StatusCode::FORBIDDEN, COMMAND, "read_only", reason);
    }
    let overlay = is_dry_run.then(|| shared.previews.next());
    let words = plan::words(&program.options, image, overlay.as_ref());
    let output = match shared.run(&DEPLOY, &words, plan, Kept::ALL).await {
        Ok(output) => output,
        Err(failure) => return failure,
    };
    let has_succeeded = matches!(&output, Output::Whole(ended) if ended.exit_code == Some(0));
    if let Some(overlay) = overlay.filter(|_| has_succeeded) {
        shared.previews.keep(index, overlay);
    }
    answer::of_output(&DEPLOY, output, None)
}

impl Shared {
    /// Returns the reason why plans are refused. A plan names files of this host, so that other
    /// hosts may only try plans if they may also change the images.
    fn refusal_of_plans(&self, is_dry_run: bool) -> Option<&'static str> {
        if self.options.writable {
            return None;
        }
        if !is_dry_run {
            return Some("the page is read-only; start it with --write to apply plans");
        }
        let is_local = self.options.listen.ip().is_loopback();
        (!is_local).then_some(
            "plans name files of the server; start it with --write to try them from other hosts",
        )
    }

    /// Runs the command of a request, when one of the commands that may run at once has ended.
    async fn run(
        &self,
        endpoint: &'static Endpoint,
        words: &[OsString],
        input: Bytes,
        kept: Kept,
    ) -> Result<Output, Response> {
        let permit = Arc::clone(&self.commands).acquire_owned().await;
        let permit = permit.map_err(|error| cannot_run(&error))?;
        let succeeds_with = |code| endpoint.succeeds_with(code);
        let program = &self.options.program.path;
        let output = child::run(program, words, input, kept, succeeds_with, permit).await;
        output.map_err(|error| cannot_run(&error))
    }
}

fn cannot_run(error: &dyn fmt::Display) -> Response {
    let reason = format!("cannot run diskfs: {error}");
    failure(StatusCode::INTERNAL_SERVER_ERROR, COMMAND, "io", &reason)
}
