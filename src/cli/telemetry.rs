//! The traces of a service, sent to a collector of OpenTelemetry.

use std::time::Duration;

use diskfs::{Error, ErrorKind, Result};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::{Layer, Registry};

use super::Command;
use super::logging::Logged;

/// The variables that name a collector (OpenTelemetry specification, "OpenTelemetry Protocol
/// Exporter").
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// The time that the last traces may take.
const LAST_TRACES: Duration = Duration::from_secs(2);

/// The sender of traces. Dropping it sends those that are left.
#[derive(Debug)]
pub(super) struct Telemetry {
    provider: SdkTracerProvider,
    /// Runs the connection to the collector.
    _runtime: Runtime,
}

/// Starts sending the traces of a command, if it is a service and the environment names a
/// collector.
///
/// # Errors
/// As for [`Telemetry::start`].
pub(super) fn start_for(command: &Command) -> Result<Option<Telemetry>> {
    match command.logged() {
        Logged::AsText | Logged::AsJson => Telemetry::start(),
        Logged::OfDisk { .. } | Logged::Nothing => Ok(None),
    }
}

impl Telemetry {
    /// Starts sending, if the environment names a collector. The SDK reads the rest of the
    /// `OTEL_` variables: the name of the service, attributes, headers, the share of the requests.
    ///
    /// # Errors
    /// `Invalid` for an endpoint that is not one; `Io` if the host starts no thread.
    fn start() -> Result<Option<Self>> {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if !ENDPOINTS.into_iter().any(is_set) {
            return Ok(None);
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("traces")
            .enable_all()
            .build()?;
        // The connection belongs to the runtime in which it is made.
        let entered = runtime.enter();
        let exporter = SpanExporter::builder().with_tonic().build();
        drop(entered);
        let exporter = exporter.map_err(|error| {
            let reason = format!("traces cannot be sent: {error}");
            let hint = "set OTEL_EXPORTER_OTLP_ENDPOINT to the address of a collector for gRPC, \
                        such as http://127.0.0.1:4317";
            Error::new(ErrorKind::Invalid, reason).with_hint(hint)
        })?;
        let mut resource = Resource::builder();
        if !is_set("OTEL_SERVICE_NAME") {
            resource = resource.with_service_name("diskfs");
        }
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Some(Self {
            provider,
            _runtime: runtime,
        }))
    }

    /// Returns the layer that makes spans of traces from those of the log.
    pub(super) fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        let tracer = self.provider.tracer("diskfs");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        layer.with_filter(LevelFilter::INFO)
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        // A collector that does not answer has lost its traces.
        let _ = self.provider.shutdown_with_timeout(LAST_TRACES);
    }
}
