//! The paths that other replicas want to be polled, as the holder knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::message::Want;
use crate::record::{Covers, MAX_REPLICAS};
use crate::replica::ReplicaId;

use super::{MAX_PATHS, Time};

/// The maximum number of paths of all replicas together, equal ones counted each time.
const MAX_TOTAL: usize = 32 * MAX_PATHS;
/// The maximum length of a path in bytes. No URI is longer.
const MAX_PATH_BYTES: usize = 8 * 1024;

/// What each replica wants.
#[derive(Debug, Default)]
pub(super) struct Wants {
    by_replica: BTreeMap<ReplicaId, Wanted>,
    /// What a round would poll now, and whom it would cover: computed when something has changed.
    union: Option<(Arc<BTreeSet<Arc<str>>>, Covers)>,
}

#[derive(Debug)]
struct Wanted {
    /// None while no version is complete.
    version: Option<u64>,
    paths: BTreeSet<Arc<str>>,
    heard: Time,
    /// A version of which the last part has not come.
    partial: Option<Want>,
}

/// What came of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing is new, or more parts must come.
    Nothing,
    /// There is a new version.
    New,
    /// The version that it builds on is not known.
    Unknown,
}

impl Wants {
    /// Handles what a replica wants.
    pub(super) fn hear(&mut self, now: Time, want: Want) -> Heard {
        let has_long_path = want.add.iter().any(|path| path.len() > MAX_PATH_BYTES);
        let is_full = self.by_replica.len() >= MAX_REPLICAS && !self.by_replica.contains_key(&want.replica);
        if has_long_path || is_full {
            return Heard::Nothing;
        }
        let total = self.total();
        let wanted = self.by_replica.entry(want.replica).or_insert_with(|| Wanted {
            version: None,
            paths: BTreeSet::new(),
            heard: now,
            partial: None,
        });
        wanted.heard = now;
        if wanted.version.is_some_and(|version| version >= want.version) {
            // Said before, or too late. A replica that repeats everything is not sure that it was heard.
            return if want.base.is_none() && want.is_last { Heard::New } else { Heard::Nothing };
        }
        if want.base.is_some() && want.base != wanted.version {
            wanted.partial = None;
            return Heard::Unknown;
        }
        let Some(want) = wanted.add_part(want) else { return Heard::Nothing };
        let Some(want) = want else { return Heard::Unknown };
        if want.base.is_none() {
            wanted.paths.clear();
        }
        want.remove.iter().for_each(|path| {
            wanted.paths.remove(path);
        });
        wanted.paths.extend(want.add);
        wanted.version = Some(want.version);
        self.union = None;
        if wanted.paths.len() > MAX_PATHS || total.saturating_add(wanted.paths.len()) > MAX_TOTAL {
            self.by_replica.remove(&want.replica);
            return Heard::Nothing;
        }
        Heard::New
    }

    /// A replica wants nothing any more.
    pub(super) fn forget(&mut self, replica: ReplicaId) {
        if self.by_replica.remove(&replica).is_some() {
            self.union = None;
        }
    }

    /// Forgets replicas that were not heard since a time.
    pub(super) fn forget_silent(&mut self, since: Time) {
        let before = self.by_replica.len();
        self.by_replica.retain(|_, wanted| wanted.heard >= since);
        if self.by_replica.len() != before {
            self.union = None;
        }
    }

    /// Something that this replica wants has changed.
    pub(super) fn own_changed(&mut self) {
        self.union = None;
    }

    /// Whether it is known what each of the replicas wants.
    pub(super) fn knows_all(&self, replicas: impl IntoIterator<Item = ReplicaId>) -> bool {
        replicas.into_iter().all(|replica| self.knows(replica))
    }

    /// Whether it is known what the replica wants.
    pub(super) fn knows(&self, replica: ReplicaId) -> bool {
        self.by_replica.get(&replica).is_some_and(|wanted| wanted.version.is_some())
    }

    /// The paths of a round, and whom it covers: this replica first, then all others whose paths fit.
    pub(super) fn union(
        &mut self,
        me: ReplicaId,
        version: u64,
        own: &BTreeSet<Arc<str>>,
    ) -> (Arc<BTreeSet<Arc<str>>>, Covers) {
        let by_replica = &self.by_replica;
        let (paths, covers) = self.union.get_or_insert_with(|| {
            let mut paths = own.clone();
            let mut covers = Covers::new();
            for (replica, wanted) in by_replica {
                let Some(version) = wanted.version else { continue };
                let new: Vec<_> = wanted.paths.difference(&paths).cloned().collect();
                if covers.len().saturating_add(1) < MAX_REPLICAS && paths.len().saturating_add(new.len()) <= MAX_PATHS {
                    paths.extend(new);
                    covers.insert(*replica, version);
                }
            }
            (Arc::new(paths), covers)
        });
        let mut covers = covers.clone();
        covers.insert(me, version);
        (paths.clone(), covers)
    }

    fn total(&self) -> usize {
        self.by_replica.values().fold(0, |sum: usize, wanted| sum.saturating_add(wanted.paths.len()))
    }
}

impl Wanted {
    /// Adds a part of a version. Returns none if more must come, and `Some(None)` if one is missing.
    fn add_part(&mut self, want: Want) -> Option<Option<Want>> {
        let want = match self.partial.take() {
            _ if want.part == 0 => want,
            Some(mut partial)
                if (partial.base, partial.version) == (want.base, want.version)
                    && partial.part.checked_add(1) == Some(want.part)
                    && partial.add.len() <= MAX_PATHS =>
            {
                partial.add.extend(want.add);
                Want { part: want.part, is_last: want.is_last, ..partial }
            }
            _ => return Some(None),
        };
        if want.is_last {
            return Some(Some(want));
        }
        self.partial = Some(want);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: ReplicaId = ReplicaId::new(9);

    fn want(replica: u128, base: Option<u64>, version: u64, add: &[&str], remove: &[&str]) -> Want {
        let paths = |texts: &[&str]| texts.iter().map(|text| Arc::from(*text)).collect();
        Want {
            replica: ReplicaId::new(replica),
            base,
            version,
            waits: true,
            part: 0,
            is_last: true,
            add: paths(add),
            remove: paths(remove),
        }
    }

    fn union(wants: &mut Wants) -> (Vec<String>, Vec<u64>) {
        let (paths, covers) = wants.union(ME, 1, &BTreeSet::from(["own".into()]));
        (paths.iter().map(|path| path.to_string()).collect(), covers.into_values().collect())
    }

    #[test]
    fn differences_apply_to_the_version_that_they_build_on_only() {
        let (mut wants, now) = (Wants::default(), Time::ZERO);
        assert_eq!(wants.hear(now, want(1, Some(1), 2, &["b"], &[])), Heard::Unknown);
        assert!(!wants.knows(ReplicaId::new(1)));
        assert_eq!(wants.hear(now, want(1, None, 2, &["a", "b"], &[])), Heard::New);
        assert_eq!(wants.hear(now, want(1, Some(2), 3, &["c"], &["a"])), Heard::New);
        assert_eq!(wants.hear(now, want(1, Some(2), 3, &["c"], &["a"])), Heard::Nothing);
        assert_eq!(wants.hear(now, want(1, Some(7), 8, &["x"], &[])), Heard::Unknown);
        assert_eq!(union(&mut wants), (vec!["b".into(), "c".into(), "own".into()], vec![3, 1]));
        wants.forget(ReplicaId::new(1));
        assert_eq!(union(&mut wants), (vec!["own".into()], vec![1]));
    }

    #[test]
    fn a_version_counts_when_its_last_part_has_come_and_none_was_missed() {
        let (mut wants, now) = (Wants::default(), Time::ZERO);
        let part = |number, is_last, add| Want { part: number, is_last, ..want(1, None, 5, &[add], &[]) };
        assert_eq!(wants.hear(now, part(0, false, "a")), Heard::Nothing);
        assert!(!wants.knows(ReplicaId::new(1)));
        assert_eq!(wants.hear(now, part(2, true, "c")), Heard::Unknown);
        assert_eq!(wants.hear(now, part(0, false, "a")), Heard::Nothing);
        assert_eq!(wants.hear(now, part(1, true, "b")), Heard::New);
        assert_eq!(union(&mut wants).0, ["a", "b", "own"]);
    }

    #[test]
    fn replicas_whose_paths_do_not_fit_are_not_covered() {
        let (mut wants, now) = (Wants::default(), Time::ZERO);
        let many = |prefix: &str, count: usize| {
            let add = (0..count).map(|number| format!("{prefix}{number}").into()).collect();
            Want { add, ..want(u128::from(prefix.as_bytes()[0]), None, 1, &[], &[]) }
        };
        assert_eq!(wants.hear(now, many("a", MAX_PATHS - 1)), Heard::New);
        assert_eq!(wants.hear(now, many("b", 1)), Heard::New);
        assert_eq!(wants.hear(now, many("c", MAX_PATHS + 1)), Heard::Nothing);
        let (paths, covers) = wants.union(ME, 1, &BTreeSet::from(["own".into()]));
        assert_eq!((paths.len(), covers.len()), (MAX_PATHS, 2));
        assert!(!covers.contains_key(&ReplicaId::new(u128::from(b'b'))));
        wants.forget_silent(Duration::from_secs(1));
        assert_eq!(wants.union(ME, 1, &BTreeSet::new()).1.len(), 1);
    }

    use std::time::Duration;
}
