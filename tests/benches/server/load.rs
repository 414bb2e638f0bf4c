//! Closed-loop load: each client sends its next request when it has the response to the last one.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::bench_request::BenchRequest;
use crate::http::HttpClient;
use crate::stdio_client::StdioClient;

/// A client over either transport.
pub(crate) enum Client {
    Http(HttpClient),
    Stdio(StdioClient),
}

impl Client {
    /// Sends a request and waits for the whole response.
    pub(crate) async fn send(&mut self, question: &BenchRequest) {
        match self {
            Self::Http(client) => client.send(question).await,
            Self::Stdio(client) => client.send(question).await,
        }
    }
}

/// The measurements under load.
#[derive(Default)]
pub(crate) struct Sample {
    /// The latency of each request, sorted once [`Sample::add`] has been called.
    latencies: Vec<Duration>,
    /// The duration of the load.
    elapsed: Duration,
    /// The CPU time of the server meanwhile.
    cpu: Duration,
}

/// Runs the clients for `span`.
pub(crate) async fn apply(clients: &mut Vec<Client>, question: &BenchRequest, span: Duration) -> Sample {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for mut client in clients.drain(..) {
        let question = question.clone();
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while start.elapsed() < span {
                let asked = Instant::now();
                client.send(&question).await;
                latencies.push(asked.elapsed());
            }
            (client, latencies)
        });
    }
    let mut sample = Sample::default();
    while let Some(done) = tasks.join_next().await {
        let (client, latencies) = done.expect("a client gets its answers");
        clients.push(client);
        sample.latencies.extend(latencies);
    }
    sample.elapsed = start.elapsed();
    sample
}

impl Sample {
    /// Returns the same with the server's CPU time.
    pub(crate) fn with_cpu(self, cpu: Duration) -> Self {
        Self { cpu, ..self }
    }

    /// Adds another sample of the same load.
    pub(crate) fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.latencies.sort_unstable();
        self.elapsed += other.elapsed;
        self.cpu += other.cpu;
    }

    /// Requests per second.
    pub(crate) fn requests_per_second(&self) -> f64 {
        self.count() / self.elapsed.as_secs_f64()
    }

    /// Returns a percentile of the latency; 0.99, for example.
    pub(crate) fn percentile(&self, part: f64) -> Duration {
        percentile(&self.latencies, part)
    }

    /// Returns the server's CPU time per request.
    pub(crate) fn cpu_per_request(&self) -> Duration {
        self.cpu.div_f64(self.count())
    }

    #[allow(clippy::cast_precision_loss, reason = "nobody counts that many requests")]
    fn count(&self) -> f64 {
        self.latencies.len().max(1) as f64
    }
}

/// Returns a percentile of sorted values.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
pub(crate) fn percentile(sorted: &[Duration], part: f64) -> Duration {
    let index = (sorted.len() as f64 * part) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}
