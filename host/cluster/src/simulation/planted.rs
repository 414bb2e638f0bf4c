//! Planted bugs: mistakes in the code of replicas that a test makes in its thread, and that the simulation must find.

use std::cell::Cell;

/// A mistake in the code of replicas that the simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A holder relies on its lease forever, and treats a failed write as a success.
    LeaseNotChecked,
    /// The token is moved before the changes are published.
    TokenMovedFirst,
    /// A follower does not notice that it has missed a round.
    GapIgnored,
    /// A follower does not notice that it has missed a part of a round's changes.
    PartsNotCounted,
    /// A follower does not notice that a round has not covered its paths.
    CoverIgnored,
    /// A replica follows without a last own poll.
    NoLastOwnPoll,
    /// A record may have any numbers.
    NumbersNotBounded,
    /// A replica that wants a path which the tokens do not cover any more counts as covered.
    LostIgnored,
    /// A replica that wants a path which was not polled yet counts as covered.
    LeftIgnored,
    /// The name of a shard does not contain its number, so shards have one lease.
    ShardNotNamed,
    /// Each holder divides paths into groups by another hash.
    KeyNotShared,
    /// A holder takes the paths of the token of another holder for new ones.
    OthersTokenAsOwn,
    /// The token of one group is stored for its neighbour.
    TokenOfOtherGroup,
    /// A path that moves to another group, because there are more groups, moves without its token.
    MovedWithoutToken,
    /// The token of a group advances without a path that is left out, and the path does not count as lost.
    LeftOutNotLost,
    /// A replica that has lost its lease continues each group with the token of the next one.
    TokensShifted,
    /// The halves of a group that has failed begin without its token.
    SplitWithoutToken,
    /// Paths that were not polled when everything was notified are not notified later.
    OwedForgotten,
    /// A last own poll that omits paths in back-off counts as a poll of all paths.
    PartialCounted,
    /// Notifications are not checked against the rules.
    PolicyNotAsked,
    /// A path that moves to another shard is in neither until the next poll.
    InNoShard,
    /// A path that moves to another shard leaves the old one at once.
    MovedAtOnce,
    /// A path that moves to another shard leaves the old one without a last poll there.
    MovedBeforeLastPoll,
    /// A path that moves leaves the old shard after a poll that does not compare it with the state that was known.
    RelianceIgnored,
    /// A path that moves counts as polled although its call has failed.
    UnansweredHasMoved,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    static MAX_PATHS: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the maximum number of paths of a shard in this thread, if a test has set it.
pub(crate) fn planted_max_paths() -> Option<usize> {
    MAX_PATHS.get()
}

/// Sets the maximum number of paths of a shard in this thread, or none for the usual one.
pub(crate) fn plant_max_paths(max: Option<usize>) {
    MAX_PATHS.set(max);
}

/// Returns whether this thread simulates a bug.
pub(crate) fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Simulates a bug, or none, in this thread.
pub(super) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}
