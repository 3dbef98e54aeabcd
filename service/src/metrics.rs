//! Metrics of the service, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The upper bounds of the histograms' buckets, in milliseconds.
const BUCKETS_MS: [u32; 13] = [
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000, 300_000,
];

/// The metrics of the service.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Values>);

#[derive(Debug, Default)]
struct Values {
    /// Completed requests, by method and result.
    requests: BTreeMap<(&'static str, &'static str), u64>,
    /// Durations of requests, by method.
    durations: BTreeMap<&'static str, Histogram>,
    /// Durations of the phases of jobs, by method and phase.
    phases: BTreeMap<(&'static str, &'static str), Histogram>,
    /// Bytes of contents that jobs have written into guests, by method.
    written_bytes: BTreeMap<&'static str, u64>,
    running: u64,
    waiting: u64,
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [u64; BUCKETS_MS.len()],
    count: u64,
    sum: Duration,
}

impl Histogram {
    fn add(&mut self, duration: Duration) {
        self.count += 1;
        self.sum += duration;
        for (bound, count) in BUCKETS_MS.iter().zip(&mut self.buckets) {
            if duration <= Duration::from_millis((*bound).into()) {
                *count += 1;
            }
        }
    }

    fn write(&self, text: &mut String, name: &str, labels: &str) {
        for (bound, count) in BUCKETS_MS.iter().zip(self.buckets) {
            let bound = Duration::from_millis((*bound).into()).as_secs_f64();
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", self.count);
        let _ = writeln!(text, "{name}_sum{{{labels}}} {}", self.sum.as_secs_f64());
        let _ = writeln!(text, "{name}_count{{{labels}}} {}", self.count);
    }
}

impl Metrics {
    fn change(&self, change: impl FnOnce(&mut Values)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Counts a completed request. `result` is `ok`, or the name of the failure's kind.
    pub(crate) fn request(&self, method: &'static str, result: &'static str, duration: Duration) {
        self.change(|values| {
            *values.requests.entry((method, result)).or_default() += 1;
            values.durations.entry(method).or_default().add(duration);
        });
    }

    /// Counts a completed phase of a job.
    pub(crate) fn phase(&self, method: &'static str, phase: &'static str, duration: Duration) {
        self.change(|values| {
            let histogram = values.phases.entry((method, phase)).or_default();
            histogram.add(duration);
        });
    }

    /// Counts bytes of contents that a job has written.
    pub(crate) fn written(&self, method: &'static str, bytes: u64) {
        self.change(|values| *values.written_bytes.entry(method).or_default() += bytes);
    }

    /// Counts a request that waits for its turn.
    pub(crate) fn waits(&self) -> Gauge<'_> {
        self.change(|values| values.waiting += 1);
        Gauge(self, |values| values.waiting -= 1)
    }

    /// Counts a job that is carried out.
    pub(crate) fn runs(&self) -> Gauge<'_> {
        self.change(|values| values.running += 1);
        Gauge(self, |values| values.running -= 1)
    }

    /// Returns all metrics as text.
    pub(crate) fn text(&self) -> String {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        let head = |text: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        let name = "diskfs_requests_total";
        head(
            &mut text,
            name,
            "counter",
            "Completed requests by method and result.",
        );
        for ((method, result), count) in &values.requests {
            let labels = format!("method=\"{method}\",result=\"{result}\"");
            let _ = writeln!(text, "{name}{{{labels}}} {count}");
        }
        let name = "diskfs_request_duration_seconds";
        head(
            &mut text,
            name,
            "histogram",
            "Durations of requests, with waiting.",
        );
        for (method, histogram) in &values.durations {
            histogram.write(&mut text, name, &format!("method=\"{method}\""));
        }
        let name = "diskfs_phase_duration_seconds";
        head(
            &mut text,
            name,
            "histogram",
            "Durations of the phases of jobs.",
        );
        for ((method, phase), histogram) in &values.phases {
            let labels = format!("method=\"{method}\",phase=\"{phase}\"");
            histogram.write(&mut text, name, &labels);
        }
        let name = "diskfs_written_bytes_total";
        head(&mut text, name, "counter", "Bytes that jobs have written.");
        for (method, bytes) in &values.written_bytes {
            let _ = writeln!(text, "{name}{{method=\"{method}\"}} {bytes}");
        }
        for (name, help, value) in [
            (
                "diskfs_jobs_running",
                "Jobs that are carried out.",
                values.running,
            ),
            (
                "diskfs_jobs_waiting",
                "Requests that wait for their turn.",
                values.waiting,
            ),
        ] {
            head(&mut text, name, "gauge", help);
            let _ = writeln!(text, "{name} {value}");
        }
        text
    }
}

/// A gauge that is one higher until this is dropped.
pub(crate) struct Gauge<'m>(&'m Metrics, fn(&mut Values));

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        self.0.change(self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_text() {
        let metrics = Metrics::default();
        metrics.request("ProbeImageInfo", "ok", Duration::from_millis(3));
        metrics.phase("ProbeImageInfo", "open", Duration::from_millis(1));
        metrics.written("DeployGuestFs", 7);
        let running = metrics.runs();
        let text = metrics.text();
        drop(running);
        for line in [
            "diskfs_requests_total{method=\"ProbeImageInfo\",result=\"ok\"} 1",
            "diskfs_request_duration_seconds_bucket{method=\"ProbeImageInfo\",le=\"0.002\"} 0",
            "diskfs_request_duration_seconds_bucket{method=\"ProbeImageInfo\",le=\"0.005\"} 1",
            "diskfs_request_duration_seconds_count{method=\"ProbeImageInfo\"} 1",
            "diskfs_written_bytes_total{method=\"DeployGuestFs\"} 7",
            "diskfs_jobs_running 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        assert!(metrics.text().contains("diskfs_jobs_running 0"));
    }
}
