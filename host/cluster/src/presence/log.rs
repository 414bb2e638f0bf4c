//! Log lines about replicas that differ from this one. Each line except the first comes at least
//! [`LOG_INTERVAL`] after the last warning, or reports afterwards that no replica differs.

use std::collections::BTreeSet;

use mcp_host_base::log_target;
use mcp_host_base::throttle::Throttle;

use super::LOG_INTERVAL;
use crate::replica::ReplicaId;
use crate::roster::{About, ReplicaView, RosterView};

/// The log about one kind of difference.
#[derive(Debug)]
pub(super) struct DifferenceLog {
    /// Returns whether a replica differs.
    differs: fn(&ReplicaView) -> bool,
    /// The live replicas that differ and that the last warning has counted.
    counted: BTreeSet<ReplicaId>,
    throttle: Throttle,
}

/// The next log line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DifferenceLine<'a> {
    Nothing,
    /// `count` replicas differ, and `one` is a replica that no warning has counted.
    Differ {
        count: usize,
        one: &'a ReplicaView,
    },
    /// No replica differs any more.
    AllSame,
}

impl DifferenceLog {
    pub(super) fn new(differs: fn(&ReplicaView) -> bool) -> Self {
        Self { differs, counted: BTreeSet::new(), throttle: Throttle::new(LOG_INTERVAL) }
    }

    /// Returns the next line. None while nothing is received.
    pub(super) fn next<'a>(&mut self, view: &'a RosterView) -> DifferenceLine<'a> {
        if !view.hears {
            return DifferenceLine::Nothing;
        }
        let differing = || view.replicas.iter().filter(|replica| replica.is_alive && (self.differs)(replica));
        let ids: BTreeSet<_> = differing().map(|replica| replica.replica).collect();
        let has_warned = !self.counted.is_empty();
        let is_new = |replica: &&ReplicaView| !self.counted.contains(&replica.replica);
        match differing().find(is_new) {
            Some(one) if self.throttle.record().is_some() => {
                let count = ids.len();
                self.counted = ids;
                DifferenceLine::Differ { count, one }
            }
            new => {
                self.counted.retain(|replica| ids.contains(replica));
                if new.is_none() && ids.is_empty() && has_warned {
                    DifferenceLine::AllSame
                } else {
                    DifferenceLine::Nothing
                }
            }
        }
    }
}

/// Logs changes in the replicas with another config.
pub(super) fn log_configs(log: &mut DifferenceLog, view: &RosterView) {
    match log.next(view) {
        DifferenceLine::Nothing => {}
        DifferenceLine::Differ { count, one } => {
            let ReplicaView { replica, about: About { config, machine, process, .. }, .. } = one;
            let here = view.replicas.iter().find(|replica| replica.is_me).map_or("", |me| &me.about.config);
            tracing::warn!(
                target: log_target::CLUSTER, %replica, machine, process, count,
                "a replica of the cluster has another config than this one: its digest is {config:?}, and here {here:?}. \
                 `mcp-host status` shows all of them"
            );
        }
        DifferenceLine::AllSame => {
            tracing::info!(target: log_target::CLUSTER, "all live replicas of the cluster have the same config");
        }
    }
}

/// Logs changes in the replicas with another `server.cursor-key`.
pub(super) fn log_cursor_keys(log: &mut DifferenceLog, view: &RosterView) {
    match log.next(view) {
        DifferenceLine::Nothing => {}
        DifferenceLine::Differ { count, one } => {
            let ReplicaView { replica, about: About { machine, process, .. }, .. } = one;
            tracing::warn!(
                target: log_target::CLUSTER, %replica, machine, process, count,
                "a replica of the cluster has another `server.cursor-key` than this one: a client that continues a listing at the \
                 other replica gets an error. Give all replicas the same keys; while one is replaced, all of them need both"
            );
        }
        DifferenceLine::AllSame => {
            tracing::info!(target: log_target::CLUSTER, "all live replicas of the cluster have the same `server.cursor-key`");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;

    fn replica(number: u128, differs: bool) -> ReplicaView {
        ReplicaView {
            replica: ReplicaId::new(number),
            is_me: number == 0,
            silent: Duration::ZERO,
            is_alive: true,
            has_other_config: differs,
            has_other_cursor_key: false,
            about: About::default(),
        }
    }

    fn view(replicas: &[ReplicaView]) -> RosterView {
        let replicas = [&[replica(0, false)], replicas].concat();
        RosterView { hears: true, live: NonZeroU32::MIN, differing: 0, differing_cursor_keys: 0, replicas }
    }

    #[test]
    fn however_many_replicas_differ_the_log_has_one_warning_in_its_interval() {
        let mut log = DifferenceLog::new(|replica| replica.has_other_config);
        assert_eq!(log.next(&view(&[replica(1, false)])), DifferenceLine::Nothing);
        let three = view(&[replica(1, false), replica(2, true), replica(3, true)]);
        assert_eq!(log.next(&three), DifferenceLine::Differ { count: 2, one: &three.replicas[2] });
        for number in 4..2000 {
            assert_eq!(log.next(&view(&[replica(2, true), replica(number, true)])), DifferenceLine::Nothing);
        }
        assert_eq!(log.next(&view(&[replica(2, false)])), DifferenceLine::AllSame);
        for number in 4..2000 {
            assert_eq!(log.next(&view(&[replica(number, true)])), DifferenceLine::Nothing);
            assert_eq!(log.next(&view(&[])), DifferenceLine::Nothing);
        }
        // After the interval, replicas that no warning has counted are logged.
        log.throttle = Throttle::new(Duration::ZERO);
        let one = view(&[replica(5, true)]);
        assert_eq!(log.next(&one), DifferenceLine::Differ { count: 1, one: &one.replicas[1] });
        assert_eq!(log.next(&one), DifferenceLine::Nothing);
    }

    #[test]
    fn a_replica_that_hears_nothing_does_not_say_that_all_have_the_same() {
        let mut log = DifferenceLog::new(|replica| replica.has_other_config);
        let one = view(&[replica(1, true)]);
        assert!(matches!(log.next(&one), DifferenceLine::Differ { .. }));
        let dead = ReplicaView { is_alive: false, ..replica(1, true) };
        let unheard = RosterView { hears: false, ..view(&[dead]) };
        assert_eq!(log.next(&unheard), DifferenceLine::Nothing);
        assert_eq!(log.next(&one), DifferenceLine::Nothing, "it was warned of");
        assert_eq!(log.next(&view(&[])), DifferenceLine::AllSame);
    }
}
