//! Who is interested in what, of all plugins.
//!
//! Interests are in URIs, not in plugins: a reload that replaces a plugin, takes it away or brings it back leaves them as
//! they are. A plugin's part of them is what lies below its mount.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use super::mailbox::Mailbox;
use crate::access::Principal;
use crate::uri::{Mount, Path, Uri};

/// Who is interested in what.
#[derive(Debug, Default)]
pub(super) struct Interests {
    resources: BTreeMap<Uri, Watched>,
    listing: BTreeMap<u64, Arc<Mailbox>>,
}

#[derive(Debug)]
struct Watched {
    /// What the provider calls it that was asked for it last.
    path: Path,
    by: BTreeMap<u64, Arc<Mailbox>>,
}

impl Interests {
    /// Whether anyone is interested in something of the plugin at that mount.
    pub(super) fn any_below(&self, mount: &Mount) -> bool {
        !self.listing.is_empty() || self.below(mount, None).next().is_some()
    }

    /// How many resources anyone is interested in.
    pub(super) fn resources(&self) -> usize {
        self.resources.len()
    }

    /// What the provider at that mount is asked about, in order: so many at most of those behind that URI.
    pub(super) fn paths(&self, mount: &Mount, behind: Option<&Uri>, most: usize) -> Vec<(Uri, Path)> {
        let watched = self.below(mount, behind).take(most);
        watched.map(|(uri, watched)| (uri.clone(), watched.path.clone())).collect()
    }

    /// Resources below that mount, in order: so many at most of those behind that URI.
    pub(super) fn uris(&self, mount: Option<&Mount>, behind: Option<&Uri>, most: usize) -> Vec<Uri> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        match mount {
            Some(mount) => self.below(mount, behind).take(most).map(|(uri, _)| uri.clone()).collect(),
            None => {
                let watched = self.resources.range::<Uri, _>((from, Bound::Unbounded));
                watched.take(most).map(|(uri, _)| uri.clone()).collect()
            }
        }
    }

    pub(super) fn watch(&mut self, uri: &Uri, path: &Path, mailbox: &Arc<Mailbox>) {
        let by = match self.resources.get_mut(uri) {
            Some(watched) => &mut watched.by,
            None => {
                let watched = Watched { path: path.clone(), by: BTreeMap::new() };
                &mut self.resources.entry(uri.clone()).or_insert(watched).by
            }
        };
        by.insert(mailbox.id, mailbox.clone());
    }

    pub(super) fn watch_listing(&mut self, mailbox: &Arc<Mailbox>) {
        self.listing.insert(mailbox.id, mailbox.clone());
    }

    pub(super) fn unwatch(&mut self, uri: &Uri, id: u64) {
        if let Some(watched) = self.resources.get_mut(uri) {
            watched.by.remove(&id);
            if watched.by.is_empty() {
                self.resources.remove(uri);
            }
        }
    }

    pub(super) fn unwatch_listing(&mut self, id: u64) {
        self.listing.remove(&id);
    }

    /// Calls what is below that mount by the paths that it has there: the mounts of before were others.
    pub(super) fn relocate(&mut self, mount: &Mount) {
        for (uri, watched) in self.resources.range_mut::<str, _>(from(mount)) {
            let Some(path) = uri.as_str().strip_prefix(mount.as_str()) else { break };
            if let Ok(located) = mount.compose(path) {
                watched.path = located.path;
            }
        }
    }

    /// Notifies subscribers of that resource of whom it holds, from that id on: as many as the piece allows. Gives the id to
    /// go on from, if there are more.
    pub(super) fn notify(
        &self,
        uri: &Uri,
        from: u64,
        piece: &mut usize,
        concerns: impl Fn(&Principal) -> bool,
    ) -> Option<u64> {
        let (uri, watched) = self.resources.get_key_value(uri)?;
        for (id, mailbox) in watched.by.range(from..) {
            if *piece == 0 {
                return Some(*id);
            }
            *piece = piece.saturating_sub(1);
            if concerns(&mailbox.who) {
                mailbox.put_resource(uri);
            }
        }
        None
    }

    /// The principals of those who are interested in what is listed.
    pub(super) fn listing_principals(&self) -> HashSet<Principal> {
        self.listing.values().map(|mailbox| mailbox.who.clone()).collect()
    }

    /// Tells the subscribers of those principals that what is listed changed.
    pub(super) fn tell_listing(&self, principals: &HashSet<Principal>) {
        let concerned = self.listing.values().filter(|mailbox| principals.contains(&mailbox.who));
        concerned.for_each(|mailbox| mailbox.put_listing());
    }

    fn below(&self, mount: &Mount, behind: Option<&Uri>) -> impl Iterator<Item = (&Uri, &Watched)> {
        let text = mount.as_str();
        let from = behind.map_or(Bound::Included(text), |uri| Bound::Excluded(uri.as_str()));
        let watched = self.resources.range::<str, _>((from, Bound::Unbounded));
        watched.take_while(move |(uri, _)| uri.as_str().starts_with(text))
    }
}

fn from(mount: &Mount) -> (Bound<&str>, Bound<&str>) {
    (Bound::Included(mount.as_str()), Bound::Unbounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugins_part_is_what_lies_below_its_mount() {
        let mount = |text: &str| text.parse::<Mount>().unwrap();
        let mailbox = Arc::new(Mailbox::new(1, Principal::LOCAL));
        let mut interests = Interests::default();
        for (of, path) in [("a://x/", "1"), ("a://x/", "2?q"), ("a://y/", "1"), ("b:///", "")] {
            let located = mount(of).compose(path).unwrap();
            interests.watch(&located.uri, &located.path, &mailbox);
        }
        let paths = |interests: &Interests, of| {
            let paths = interests.paths(&mount(of), None, 10);
            paths.iter().map(|(_, path)| path.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(paths(&interests, "a://x/"), ["1", "2?q"]);
        assert_eq!(paths(&interests, "b:///"), [""]);
        assert_eq!(paths(&interests, "a://x/1/"), [""; 0]);
        assert!(!interests.any_below(&mount("c:///")));
        interests.relocate(&mount("a://"));
        assert_eq!(paths(&interests, "a://"), ["x/1", "x/2?q", "y/1"]);
        interests.unwatch(&mount("b:///").compose("").unwrap().uri, 1);
        assert!(!interests.any_below(&mount("b:///")));
    }
}
