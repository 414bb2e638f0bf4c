//! A provider of the metrics of a Prometheus server.
//!
//! The listing is short: the saved queries of the config, alerts, rules and targets. Everything else is available
//! through templates, completed from the server's names. The `README.md` of this crate is for users; for the code, see
//! `route` for paths, `window` for times and steps, `api` for requests and their bounds, `query` for results, `changes`
//! for subscriptions. HTTP is behind the trait [`Transport`], time behind a function.

mod api;
mod changes;
mod complete;
mod duration;
mod matchers;
mod names;
mod query;
mod redact;
mod route;
mod settings;
mod state;
mod table;
mod window;

pub use api::{Response, Transport, WasiHttp};

use api::Client;
use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, Provider, Result, Template, export,
    keyset, path,
};
use query::Query;
use route::{LABEL, METRIC, QUERY, Route, SERIES, Times};
use settings::{SavedQuery, Settings};
use state::State;
use std::time::SystemTime;

// The administrator chooses the origin, so none is declared here.
mcp_provider::needs! {
    "config": {
        "url": { "type": "string", "required": true, "why": "the address of the server, which `grants.http` has to allow" },
        "queries": { "type": "table", "default": {}, "why": "saved queries by name: PromQL, or a table with query, title, description, range, step" },
        "points": { "type": "integer", "default": 200, "why": "the number of points of a series for which a step is chosen" },
        "range": { "type": "string", "default": "1h", "why": "the range of a series, unless the path has one" },
        "refresh": { "type": "string", "default": "15s", "why": "how long alerts, rules, targets and instant queries are fresh" },
        "timeout": { "type": "string", "default": "4s", "why": "how long one call waits for the server; below the plugin's deadline" },
        "max-series": { "type": "integer", "default": 100, "why": "the largest number of series of a result" },
        "max-points": { "type": "integer", "default": 50000, "why": "the largest number of points of a result" },
        "max-body": { "type": "string", "default": "8MiB", "why": "the largest response that is read" }
    }
}

/// A provider of metrics.
pub struct Prometheus {
    settings: Settings,
    transport: Box<dyn Transport>,
    now: fn() -> SystemTime,
}

impl Prometheus {
    /// Creates a provider with another transport and clock.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`] if the config is invalid.
    pub fn with(config: &Config, transport: Box<dyn Transport>, now: fn() -> SystemTime) -> Result<Self> {
        Ok(Self { settings: Settings::parse(config)?, transport, now })
    }

    fn client(&self) -> Client<'_> {
        Client::new(self.transport.as_ref(), &self.settings)
    }

    fn saved(&self, name: &str) -> Result<&SavedQuery> {
        self.settings.queries.get(name).ok_or(Failure::NotFound)
    }

    fn saved_entry(&self, name: &str, saved: &SavedQuery) -> Entry {
        let description = saved.description.clone().unwrap_or_else(|| format!("The result of `{}`.", saved.query));
        let entry = Entry::new(saved_path(name), name).description(description).mime_type(table::CSV).subscribable();
        match &saved.title {
            Some(title) => entry.title(title),
            None => entry,
        }
    }

    /// Reads the series of a metric.
    fn series(&self, path: &str, metric: &str, matchers: &[matchers::Matcher], times: Times) -> Result<Vec<Contents>> {
        let client = self.client();
        let q = matchers::selector(metric, matchers);
        let times = Times { range: times.range.or(Some(self.settings.range)), ..times };
        let entry = Entry::new(path, metric).title(format!("Series of {metric}"));
        let rendered = Query { q: &q, times }.read(&client, entry, (self.now)())?;
        if rendered.is_empty && !names::metric_exists(&client, metric)? {
            return Err(Failure::NotFound);
        }
        Ok(rendered.contents)
    }
}

impl Provider for Prometheus {
    fn describe() -> Info {
        Info::new("prometheus", env!("CARGO_PKG_VERSION"))
            .title("Metrics of a Prometheus server")
            .description(
                "Saved queries, `alerts`, `rules` and `targets` are listed. `metric/{name}` and `label/{name}` say what \
                 there is, `series/{metric}` has the series of a metric, `query?q=` the result of any PromQL. Results are \
                 CSV and JSON; with `range=1h` a time series of about 200 points, without a range the current values.",
            )
            .watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        Self::with(config, Box::new(WasiHttp), SystemTime::now)
    }

    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        if parent.is_some() {
            return Err(Failure::invalid("expected no parent; nothing of this provider is listable"));
        }
        let saved = self.settings.queries.iter().map(|(name, saved)| self.saved_entry(name, saved));
        let mut entries: Vec<Entry> = State::ALL.into_iter().map(State::entry).chain(saved).collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(keyset::page(entries, cursor, limit, |entry| entry.path.as_str())?.map(|entry| entry))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let now = (self.now)();
        match Route::parse(path)? {
            Route::Alerts => State::Alerts.read(&self.client()),
            Route::Rules => State::Rules.read(&self.client()),
            Route::Targets => State::Targets.read(&self.client()),
            Route::Saved(name) => {
                let saved = self.saved(&name)?;
                Ok(Query::saved(saved).read(&self.client(), self.saved_entry(&name, saved), now)?.contents)
            }
            Route::Metric(name) => names::read_metric(&self.client(), path, &name, now),
            Route::Label(name) => names::read_label(&self.client(), path, &name),
            Route::Series { metric, matchers, times } => self.series(path, &metric, &matchers, times),
            Route::Query { q, times } => {
                let entry = Entry::new(path, "query").title(q.as_str());
                Ok(Query { q: &q, times }.read(&self.client(), entry, now)?.contents)
            }
        }
    }

    /// The entry of a listed resource needs no request.
    fn stat(&self, path: &str) -> Result<Entry> {
        let client = self.client();
        match Route::parse(path)? {
            Route::Alerts => Ok(State::Alerts.entry().ttl(self.settings.refresh)),
            Route::Rules => Ok(State::Rules.entry().ttl(self.settings.refresh)),
            Route::Targets => Ok(State::Targets.entry().ttl(self.settings.refresh)),
            Route::Saved(name) => {
                let saved = self.saved(&name)?;
                let freshness = Query::saved(saved).freshness(&client, (self.now)())?;
                Ok(self.saved_entry(&name, saved).ttl(freshness))
            }
            _ => self.read(path)?.into_iter().next().map(|contents| contents.entry).ok_or(Failure::NotFound),
        }
    }

    fn templates(&self) -> Vec<Template> {
        const TIMES: &str = "`range` (`1h`), `step` (chosen without it) and `end` (`-1h`, a timestamp; now without it) are \
                             its times.";
        vec![
            Template::new(METRIC, "metric")
                .title("A metric")
                .description("Its type, its help text and its labels, with the number of their values."),
            Template::new(SERIES, "series")
                .title("The series of a metric")
                .description(format!("`match` selects by labels: `job=\"api\",code=~\"5..\"`. {TIMES}")),
            Template::new(QUERY, "query")
                .title("A query in PromQL")
                .description(format!("`q` is the query; without `range` its result is the current values. {TIMES}")),
            Template::new(LABEL, "label")
                .title("The values of a label")
                .description("`name` is the name of the label."),
        ]
    }

    fn complete(&self, template: &str, argument: &Argument, known: &[Argument]) -> Result<Completion> {
        let client = self.client();
        let typed = argument.value.as_str();
        let metric = known.iter().find(|known| known.name == "metric").map(|known| known.value.as_str());
        match (template, argument.name.as_str()) {
            (METRIC, _) | (SERIES, "metric") => complete::metric(&client, typed),
            (LABEL, _) => complete::label(&client, None, typed),
            (SERIES, "match") => complete::matchers(&client, metric, typed),
            (QUERY, "q") => complete::query(&client, typed),
            (_, time) => Ok(complete::time(time, typed)),
        }
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        Ok(changes::changes(&self.client(), watched, since, (self.now)()))
    }
}

fn saved_path(name: &str) -> String {
    format!("saved/{}", path::encode_segment(name))
}

export!(Prometheus);
