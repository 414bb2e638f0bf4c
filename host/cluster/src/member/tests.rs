//! One member: its outputs in response to messages that anyone can send.

use super::*;
use crate::record::{Covers, Round};
use crate::simulation::plant_max_paths;

const ME: ReplicaId = ReplicaId::new(1);
const LEASE: Duration = Duration::from_secs(10);

fn ms(milliseconds: u64) -> Time {
    Duration::from_millis(milliseconds)
}

/// A replica that watches some paths.
fn member() -> Member {
    let mut member = Member::new(ME, LEASE, 0);
    member.watch(ms(0), ["a", "b"].map(Arc::from).into(), 1);
    outputs(&mut member);
    member
}

fn outputs(member: &mut Member) -> Vec<Output> {
    std::iter::from_fn(|| member.next_output()).collect()
}

/// Returns how often it withdraws its wants, and how often it publishes all of them.
fn said(member: &mut Member) -> (usize, usize) {
    let (mut leaves, mut wants) = (0, 0);
    for output in outputs(member) {
        match output {
            Output::Publish(Message::Leave { .. }) => leaves += 1,
            Output::Publish(Message::Want(want)) if want.base.is_none() => {
                assert_eq!(want.add, ["a", "b"].map(Arc::from));
                wants += 1;
            }
            _ => {}
        }
    }
    (leaves, wants)
}

fn counted(seq: u64, covered: u64) -> Message {
    let round = Round { epoch: 1, seq, parts: 0 };
    Message::Counted { history: 1, epoch: 1, revision: seq, round, covers: Covers::from([(ME, covered)]), shards: 1 }
}

#[test]
fn however_often_it_is_asked_a_replica_answers_at_once_and_then_twenty_times_in_a_lease() {
    let (mut member, mut answers) = (member(), Vec::new());
    for now in 1000..2000 {
        for replica in [None, Some(ME), Some(ReplicaId::new(2))] {
            member.receive(ms(now), &Message::Ask { epoch: 1, replica });
        }
        member.wake(ms(now));
        answers.extend((0..said(&mut member).1).map(|_| now));
    }
    assert_eq!(answers, [1000, 1500]);
    // The last request is answered, too, and no other one.
    assert_eq!(member.deadline(), Some(ms(2000)));
    member.wake(ms(2000));
    assert_eq!(said(&mut member), (0, 1));
    member.wake(ms(3000));
    assert_eq!(said(&mut member), (0, 0));
    member.receive(ms(3001), &Message::Ask { epoch: 2, replica: None });
    assert_eq!(said(&mut member), (0, 1));
}

#[test]
fn versions_that_a_replica_has_not_made_are_withdrawn_as_seldom() {
    let (mut member, mut withdrawn) = (member(), Vec::new());
    for now in 1000..2000 {
        member.receive(ms(now), &counted(now, 99));
        member.wake(ms(now));
        let (leaves, wants) = said(&mut member);
        assert_eq!(leaves, wants, "what is withdrawn is said again");
        withdrawn.extend((0..leaves).map(|_| now));
    }
    assert_eq!(withdrawn, [1000, 1500]);
    member.wake(ms(2000));
    assert_eq!(said(&mut member), (1, 1));
}

#[test]
fn who_has_left_answers_nothing() {
    let mut member = member();
    for _ in 0..2 {
        member.receive(ms(1000), &Message::Ask { epoch: 1, replica: None });
    }
    member.leave(ms(1001));
    outputs(&mut member);
    member.watch(ms(1002), ["a", "b"].map(Arc::from).into(), 2);
    outputs(&mut member);
    member.wake(ms(1600));
    assert_eq!(said(&mut member), (0, 0));
}

#[test]
fn a_replica_follows_once_all_of_its_paths_were_polled_since_the_round_that_covers_them() {
    let mut member = member();
    member.receive(ms(1000), &counted(1, 1));
    for polled in [OwnPolled::Failed, OwnPolled::Partial, OwnPolled::Complete] {
        assert_eq!(member.role(), RoleName::Alone, "before a poll that ends {polled:?}");
        let plan = member.begin_poll(ms(1100));
        assert!(matches!(plan, Plan::Own { handover: Some(1), .. }), "{plan:?}");
        member.own_polled(ms(1200), polled);
        outputs(&mut member);
    }
    assert_eq!(member.role(), RoleName::Following);
    assert_eq!(member.begin_poll(ms(2000)), Plan::Nothing);
}

#[test]
fn a_replica_that_watches_too_many_paths_polls_them_for_itself_and_shares_them_when_there_are_fewer() {
    plant_max_paths(Some(2));
    let mut member = Member::new(ME, LEASE, 0);
    let many = || ["a", "b", "c"].map(Arc::from).into();
    member.watch(ms(0), many(), 1);
    assert!(outputs(&mut member).is_empty() && member.deadline().is_none() && member.role() == RoleName::Alone);
    let tokens = |plan| match plan {
        Plan::Own { tokens, tell_all, .. } => (tokens, tell_all),
        plan => panic!("{plan:?}"),
    };
    assert_eq!(tokens(member.begin_poll(ms(1))), (OwnTokens::None, false));
    member.own_polled(ms(2), OwnPolled::Complete);
    member.watch(ms(3), many(), 2);
    assert_eq!(tokens(member.begin_poll(ms(3))), (OwnTokens::Kept, false));
    member.own_polled(ms(4), OwnPolled::Complete);
    member.watch(ms(5), ["a", "b"].map(Arc::from).into(), 3);
    assert_eq!(said(&mut member), (0, 1));
    assert_eq!(tokens(member.begin_poll(ms(5))), (OwnTokens::Kept, false), "its tokens are still good");
    member.own_polled(ms(6), OwnPolled::Complete);

    // It follows, and then watches too many paths: what it has not heard of is notified once.
    member.receive(ms(1000), &counted(1, member.version));
    member.begin_poll(ms(1100));
    member.own_polled(ms(1200), OwnPolled::Complete);
    assert_eq!(member.role(), RoleName::Following);
    member.watch(ms(1300), many(), 4);
    assert_eq!(member.role(), RoleName::Alone);
    assert_eq!(tokens(member.begin_poll(ms(1300))), (OwnTokens::None, true));
    member.own_polled(ms(1400), OwnPolled::Failed);
    assert_eq!(tokens(member.begin_poll(ms(1500))), (OwnTokens::Kept, true));
    member.own_polled(ms(1600), OwnPolled::Complete);
    assert_eq!(tokens(member.begin_poll(ms(1700))), (OwnTokens::Kept, false));
    member.leave(ms(1800));
    assert_eq!((member.begin_poll(ms(1900)), member.role()), (Plan::Nothing, RoleName::Idle));
    plant_max_paths(None);
}

#[test]
fn a_follower_uses_the_number_of_shards_that_the_holder_publishes() {
    let mut member = member();
    member.receive(ms(1000), &counted(1, 0));
    outputs(&mut member);
    let Message::Counted { history, epoch, revision, round, covers, .. } = counted(1, 0) else { panic!() };
    for (shards, expected, wakes) in [(3, 4, true), (4, 4, false), (u32::MAX, 16, true), (0, 1, true)] {
        let covers = covers.clone();
        member.receive(ms(1001), &Message::Counted { history, epoch, revision, round, covers, shards });
        assert_eq!(member.shards(), expected);
        assert_eq!(outputs(&mut member).iter().any(|output| matches!(output, Output::Wake)), wakes, "{shards}");
    }
}
