//! Globs of rules that match no resource of any plugin, for `check`.
//!
//! The listing of a plugin and of each listed directory is walked until each glob that could match there has
//! matched, within [`MAX_LISTED`] resources, [`MAX_LISTINGS`] pages and [`MAX_TIME`]. A glob without
//! wildcards is also looked up, because a resource need not be listed. A glob that could match below the
//! mount of a plugin that was not listed gets no note.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mcp_host_config::{self as config, Config, PlacedGlob, Warning};
use mcp_host_engine::CallOrigin;
use mcp_host_engine::plugin::Plugin;
use mcp_host_model::uri::{Gap, Mount, Path, UriPattern};
use parking_lot::Mutex;

/// The maximum number of a plugin's resources that are compared.
const MAX_LISTED: usize = 10_000;
/// The maximum number of a plugin's listing pages that are requested.
const MAX_LISTINGS: usize = 200;
/// The maximum time for a plugin.
const MAX_TIME: Duration = Duration::from_secs(10);

/// The globs of the rules, and the findings about each.
pub(super) struct UnlistedGlobs(Vec<Mutex<Compared>>);

/// One glob.
struct Compared {
    glob: PlacedGlob,
    /// Whether the glob has matched, or its matches are unknown.
    is_settled: bool,
    /// The number of resources that the glob was compared with.
    listed: usize,
    /// Whether there are more resources.
    is_cut: bool,
    /// Whether the glob's URI was looked up and not found.
    is_looked_up: bool,
    /// A template whose resources the glob could match.
    template: Option<String>,
    /// A listed resource that was probably meant.
    nearest: Option<String>,
}

/// The listed part of a plugin.
#[derive(Default)]
struct Listed {
    uris: Vec<String>,
    templates: Vec<String>,
    is_cut: bool,
}

impl UnlistedGlobs {
    /// The globs of a config, for comparison.
    pub(super) fn new(config: &Config) -> Self {
        let compared = |glob| Compared {
            glob,
            is_settled: false,
            listed: 0,
            is_cut: false,
            is_looked_up: false,
            template: None,
            nearest: None,
        };
        Self(config.globs_below_mounts().into_iter().map(|glob| Mutex::new(compared(glob))).collect())
    }

    /// Records that the matches below this mount are unknown.
    pub(super) fn skip(&self, mount: &Mount) {
        self.open_below(mount).for_each(|compared| compared.lock().is_settled = true);
    }

    /// The globs that could match below this mount and have not matched yet.
    fn open_below(&self, mount: &Mount) -> impl Iterator<Item = &Mutex<Compared>> {
        let below = UriPattern::below(mount);
        self.0.iter().filter(move |compared| {
            let compared = compared.lock();
            !compared.is_settled && compared.glob.glob().reaches(&below)
        })
    }

    /// Compares the globs with what a plugin lists.
    pub(super) async fn compare(&self, plugin: &Plugin, config: &config::Plugin, page_size: u32) {
        let mount = plugin.mount();
        // The host itself has no view of the plugin.
        if config.has_views() {
            return self.skip(mount);
        }
        let open: Vec<_> = self.open_below(mount).collect();
        if open.is_empty() {
            return;
        }
        let began = Instant::now();
        let Ok(listed) = list(plugin, page_size, &open, began).await else { return self.skip(mount) };
        for compared in open {
            let literal = {
                let mut compared = compared.lock();
                if compared.is_settled {
                    continue;
                }
                compared.listed = compared.listed.saturating_add(listed.uris.len());
                compared.is_cut |= listed.is_cut;
                compared.glob.glob().literal_prefix().map(str::to_owned)
            };
            if began.elapsed() >= MAX_TIME {
                return self.skip(mount);
            }
            let path = literal.as_deref().and_then(|uri| mount.compose(uri.strip_prefix(mount.as_str())?).ok());
            let is_found = match &path {
                Some(uri) => plugin.stat(&uri.path).await.is_ok(),
                None => false,
            };
            let mut compared = compared.lock();
            compared.is_settled |= is_found;
            compared.is_looked_up |= path.is_some();
            compared.nearest =
                compared.nearest.take().or_else(|| compared.glob.nearest(listed.uris.iter().map(String::as_str)));
            let reaches = |template: &&String| compared.glob.glob().reaches(&pattern_of(template));
            let template = listed.templates.iter().find(reaches).cloned();
            compared.template = compared.template.take().or(template);
        }
    }

    /// Returns the notes about globs that match nothing, unless one of these warnings is about the glob.
    pub(super) fn into_notes(self, warnings: &[Warning]) -> Vec<String> {
        let all = self.0.into_iter().map(Mutex::into_inner);
        let open = all.filter(|compared| !compared.is_settled && !warnings.iter().any(|one| compared.glob.is_of(one)));
        open.filter(|compared| compared.glob.names_place() || compared.nearest.is_some()).map(Compared::note).collect()
    }
}

impl Compared {
    fn note(self) -> String {
        let Self { glob, listed, is_cut, is_looked_up, template, nearest, .. } = self;
        let listed = match (listed, is_cut) {
            (0, _) => ", where nothing is listed".to_owned(),
            (1, false) => ": not the one resource that is listed".to_owned(),
            (listed, false) => format!(": none of the {listed} resources that are listed"),
            (listed, true) => format!(": none of the first {listed} resources that are listed"),
        };
        let mut note = format!("{glob}, which matches nothing that is known{listed}");
        if is_looked_up {
            note += ", and no resource has its URI";
        }
        if let Some(template) = template {
            note += &format!("; it could match what a client reads by the template `{template}`");
        }
        match nearest {
            Some(nearest) => note += &format!("; did you mean `{nearest}`?"),
            None => note += "; keep it if that is to come",
        }
        note
    }
}

/// Lists a plugin until all of these globs have matched.
async fn list(plugin: &Plugin, page_size: u32, open: &[&Mutex<Compared>], began: Instant) -> Result<Listed, ()> {
    let mut listed = Listed::default();
    let (mut cursor, mut pages) = (None, 0_usize);
    while let Ok(page) = plugin.templates(CallOrigin::Client, cursor.as_deref(), |_| true).await {
        listed.templates.extend(page.items.iter().map(|template| template.uri_template.as_str().to_owned()));
        cursor = page.next_cursor;
        pages = pages.saturating_add(1);
        let is_cut = listed.templates.len().max(pages) >= MAX_LISTINGS || began.elapsed() >= MAX_TIME;
        if cursor.is_none() || is_cut {
            break;
        }
    }
    let mut pending = VecDeque::from([(None::<Path>, None::<String>)]);
    let mut requests = 0_usize;
    while let Some((parent, cursor)) = pending.pop_front() {
        if open.iter().all(|compared| compared.lock().is_settled) {
            break;
        }
        if requests >= MAX_LISTINGS || listed.uris.len() >= MAX_LISTED || began.elapsed() >= MAX_TIME {
            listed.is_cut = true;
            break;
        }
        requests = requests.saturating_add(1);
        let page = plugin.list(CallOrigin::Client, parent.as_ref(), cursor.as_deref(), page_size, Some).await;
        let page = match page {
            Ok(page) => page,
            Err(_) if parent.is_none() => return Err(()),
            // The directory may be listable at another time.
            Err(_) => {
                listed.is_cut = true;
                continue;
            }
        };
        for entry in page.items {
            let uri = entry.uri.as_str();
            let plain = uri.split('?').next().unwrap_or(uri);
            for compared in open {
                let mut compared = compared.lock();
                compared.is_settled = compared.is_settled || compared.glob.glob().matches(plain);
            }
            let path = uri.strip_prefix(plugin.mount().as_str()).and_then(|path| plugin.mount().compose(path).ok());
            if let Some(named) = path.filter(|named| entry.listable && parent.as_ref() != Some(&named.path)) {
                pending.push_back((Some(named.path), None));
            }
            listed.uris.push(uri.to_owned());
        }
        if let Some(next) = page.next_cursor {
            pending.push_front((parent, Some(next)));
        }
    }
    Ok(listed)
}

/// Returns the pattern of a template's URIs: an expression matches any text.
fn pattern_of(template: &str) -> UriPattern {
    let mut pattern = UriPattern::default();
    let mut rest = template;
    while let Some((text, (_, behind))) =
        rest.split_once('{').and_then(|(text, rest)| Some((text, rest.split_once('}')?)))
    {
        pattern = pattern.and_text(text).gap(Gap::Any);
        rest = behind;
    }
    pattern.and_text(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_of_a_template_is_any_text() {
        let reaches = |glob: &str| {
            let glob: config::UriGlob = glob.parse().unwrap();
            glob.reaches(&pattern_of("git://r/blob/{rev}/{+path}{?a}"))
        };
        assert!(reaches("git://r/blob/main/**") && reaches("git://r/blob/x/y/z.md") && reaches("**/.env"));
        assert!(!reaches("git://r/tree/**"));
    }
}
