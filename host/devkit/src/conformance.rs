//! Conformance tests of a provider: does it keep the contract?
//!
//! [`run`] loads a component as a plugin, with its grants and under its limits, and calls it like a host and like a
//! careless host: it lists, resumes listings, reads, completes, polls for changes, and passes cursors, paths and tokens
//! that the provider never issued. Each [`Check`] passes, fails or is skipped; its messages have the finding and the
//! remedy.
//!
//! | module | checks |
//! |---|---|
//! | `description` | [`Describe`](Check::Describe), [`Imports`](Check::Imports) |
//! | `preparation` | [`Prepare`](Check::Prepare) |
//! | `listing` | [`ListingEnds`](Check::ListingEnds), [`ListingStable`](Check::ListingStable), [`ListingUnique`](Check::ListingUnique), [`CursorResume`](Check::CursorResume), [`BadCursor`](Check::BadCursor), [`Children`](Check::Children) |
//! | `entries` | [`Readable`](Check::Readable), [`StatAgrees`](Check::StatAgrees), [`NotFound`](Check::NotFound) |
//! | `values` | [`Paths`](Check::Paths), [`Hints`](Check::Hints), [`Utf8`](Check::Utf8), [`Sizes`](Check::Sizes) |
//! | `templates` | [`Templates`](Check::Templates), [`Completion`](Check::Completion) |
//! | `changes` | [`ChangesQuiet`](Check::ChangesQuiet), [`ChangesReported`](Check::ChangesReported), [`Token`](Check::Token), [`BadToken`](Check::BadToken) |
//! | `reuse` | [`Stateless`](Check::Stateless) |
//!
//! [`Limits`](Check::Limits) fails when any call exceeds a limit; the check that made the call does not report it.
//!
//! If the provider exports `prepare` and the plugin has `limits.prepare`, its data are prepared first, to the end.
//! Without that limit, checks that need prepared data are skipped.
//!
//! A run is bounded: at most [`MAX_READ`] entries are read, at most [`MAX_PAGES`] pages of a listing are requested, and
//! calls run under the plugin's own limits. Key-value buckets are temporary and initially empty; a granted directory is
//! the real one.

mod advice;
mod changes;
mod check;
mod description;
mod entries;
mod listing;
mod preparation;
mod report;
mod reuse;
mod session;
mod templates;
mod values;

use std::fmt;
use std::io;

use futures::future::BoxFuture;

pub use self::check::Check;
pub use self::report::{CheckResult, Outcome, Problem, Report};

use mcp_host_config as config;
use mcp_host_config::instances::InstanceReuse;
use mcp_resource_host::host::{HostBuilder, InspectError};

use self::session::Session;

/// The maximum number of entries that are read. A longer listing is sampled.
pub const MAX_READ: usize = 200;
/// The maximum number of requested pages of one listing.
pub const MAX_PAGES: usize = 1000;

/// An edit of the provider's data, or its error.
pub type Edit<'e> = Box<dyn FnOnce() -> BoxFuture<'e, Result<(), String>> + Send + 'e>;

/// The actions of a test in addition to calls of the provider.
#[derive(Default)]
pub struct Options<'e> {
    edit: Option<Edit<'e>>,
}

impl<'e> Options<'e> {
    /// Options without an edit: reporting of real changes is not tested.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the edit of the data behind the provider, which its `changes` must report. It is called once, near the end.
    #[must_use]
    pub fn edit(mut self, edit: Edit<'e>) -> Self {
        self.edit = Some(edit);
        self
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("edit", &self.edit.is_some()).finish()
    }
}

/// Why a provider cannot be tested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// The engine does not start, or the file is not a component that this host can compile.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// No directory for the key-value buckets of the test can be created.
    #[error(
        "cannot create a directory for the key-value buckets of the test: {0}; set `TMPDIR` to a writable directory"
    )]
    Buckets(#[source] io::Error),
}

/// Tests the provider of a plugin. The plugin need not be in the builder's config.
///
/// ```no_run
/// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_host_devkit::conformance;
/// use mcp_resource_host::Host;
/// use mcp_resource_host::config::{Config, Plugin};
///
/// let plugin = Plugin::new("notes".parse()?, "notes.wasm", "notes:///".parse()?);
/// let report = conformance::run(Host::builder(Config::new()), &plugin, conformance::Options::new()).await?;
/// assert!(report.passed(), "{report:?}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The engine does not start, or the file is not a component that this host can compile. If the component is not a
/// provider, that is part of the report.
pub async fn run(builder: HostBuilder, plugin: &config::Plugin, options: Options<'_>) -> Result<Report, TestError> {
    let mut runtime = builder.runtime().map_err(InspectError::from)?;
    let mut report = Report::new();
    runtime.keep_last_errors();
    // A test has temporary buckets, also in place of those that replicas share.
    let mut plugin = plugin.clone();
    plugin.grants.keyvalue.values_mut().for_each(|bucket| bucket.shared = false);
    let plugin = &plugin;
    let inspection = runtime.inspect(plugin).await.map_err(InspectError::from)?;
    report.set_provider(&inspection, plugin);
    // Without it, the provider would change the buckets of the plugin.
    let buckets = tempfile::tempdir().map_err(TestError::Buckets)?;
    runtime.set_bucket_dir(buckets.path().to_owned());
    let reusing = config::Plugin { instances: Some(InstanceReuse::default()), ..plugin.clone() };
    let (fresh, reused) = match (runtime.load(plugin).await, runtime.load(&reusing).await) {
        (Ok(fresh), Ok(reused)) => (fresh, reused),
        (Err(error), _) | (_, Err(error)) => {
            report.problem_with(Check::Describe, format!("it does not load: {error}"), advice::LOAD);
            report.skip_rest("it does not load");
            return Ok(report);
        }
    };
    let mut session = Session::new(&fresh, report);
    description::check(&mut session, &inspection).await;
    preparation::check(&mut session).await;
    let entries = listing::check(&mut session).await;
    let sample = entries::check(&mut session, &entries).await;
    templates::check(&mut session).await;
    reuse::check(&mut session, &reused, &sample).await;
    changes::check(&mut session, &entries, options.edit).await;
    description::check_imports(&mut session);
    let report = session.into_report();
    fresh.close().await;
    reused.close().await;
    Ok(report)
}
