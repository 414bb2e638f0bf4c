//! The queue between the threads on which spans end and the thread that sends them.

use std::fmt;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{BATCH_DELAY, MAX_BATCH, MAX_QUEUED, SpanCounts};

/// The interval at which an incomplete batch is checked.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Puts ended spans into the queue. If it is full, the span is dropped and counted.
#[derive(Clone)]
pub(super) struct QueueProcessor {
    spans: mpsc::Sender<SpanData>,
    counts: SpanCounts,
}

/// The queued spans.
pub(super) struct SpanQueue {
    spans: mpsc::Receiver<SpanData>,
    closing: CancellationToken,
}

impl QueueProcessor {
    /// Creates a processor and its queue, which is closed when `closing` fires.
    pub(super) fn new(counts: SpanCounts, closing: CancellationToken) -> (Self, SpanQueue) {
        let (sender, spans) = mpsc::channel(MAX_QUEUED);
        (Self { spans: sender, counts }, SpanQueue { spans, closing })
    }

    /// Returns whether the queue has room for spans of a new request. If not, counts one span as dropped.
    pub(super) fn admits_request(&self) -> bool {
        let has_room = self.spans.capacity() > 0;
        if !has_room {
            self.counts.0.dropped.increment();
        }
        has_room
    }
}

impl fmt::Debug for QueueProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueProcessor").finish_non_exhaustive()
    }
}

impl SpanProcessor for QueueProcessor {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.counts.0.dropped.increment();
        }
    }

    /// Not needed: the sending thread ends by itself.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl SpanQueue {
    /// Waits for a first span, and then briefly for more. None when the queue is closed and empty.
    ///
    /// Only the first span wakes the thread: a wake-up for each would cost requests more than creating the
    /// span.
    pub(super) async fn next_batch(&mut self) -> Option<Vec<SpanData>> {
        let mut batch = Vec::new();
        tokio::select! {
            _ = self.spans.recv_many(&mut batch, MAX_BATCH) => {}
            () = self.closing.cancelled() => {}
        }
        let end = Instant::now().checked_add(BATCH_DELAY).unwrap_or_else(Instant::now);
        while batch.len().saturating_add(self.spans.len()) < MAX_BATCH
            && Instant::now() < end
            && self.closing.run_until_cancelled(sleep(LOOK_INTERVAL)).await.is_some()
        {}
        if self.closing.is_cancelled() {
            self.spans.close();
        }
        while batch.len() < MAX_BATCH
            && let Ok(span) = self.spans.try_recv()
        {
            batch.push(span);
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// Waits for this time, or until the queue is closed.
    pub(super) async fn pause(&self, duration: Duration) {
        let _ = self.closing.run_until_cancelled(sleep(duration)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use opentelemetry::InstrumentationScope;
    use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status};

    use super::*;

    fn span() -> SpanData {
        SpanData {
            span_context: SpanContext::NONE,
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: "guest".into(),
            start_time: SystemTime::UNIX_EPOCH,
            end_time: SystemTime::UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn spans_beyond_the_queue_are_dropped_and_counted_and_the_rest_is_sent_in_batches() {
        let (counts, closing) = (SpanCounts::default(), CancellationToken::new());
        let (processor, mut queue) = QueueProcessor::new(counts.clone(), closing.clone());
        for _ in 0..MAX_QUEUED + 7 {
            processor.on_end(span());
        }
        assert_eq!(counts.0.dropped.get(), 7);
        assert!(!processor.admits_request());
        assert_eq!(counts.0.dropped.get(), 8);
        let mut sizes = Vec::new();
        for _ in 0..MAX_QUEUED / MAX_BATCH {
            sizes.push(queue.next_batch().await.unwrap().len());
        }
        assert!(processor.admits_request());
        assert_eq!(sizes, [MAX_BATCH; MAX_QUEUED / MAX_BATCH]);
        processor.on_end(span());
        let began = Instant::now();
        assert_eq!(queue.next_batch().await.unwrap().len(), 1);
        assert!(began.elapsed() >= BATCH_DELAY);
        processor.on_end(span());
        closing.cancel();
        let began = Instant::now();
        assert_eq!(queue.next_batch().await.unwrap().len(), 1);
        assert!(queue.next_batch().await.is_none() && began.elapsed() < BATCH_DELAY);
        processor.on_end(span());
        assert_eq!(counts.0.dropped.get(), 9, "it is closed");
    }
}
