//! The bugs that are planted in the division: each must be found.

use super::super::Bug;
use super::super::world::Weather;
use super::run;

#[test]
fn each_bug_that_is_planted_in_the_division_is_found() {
    for (bug, weather) in [
        (Bug::InNoShard, Weather::Calm),
        (Bug::MovedAtOnce, Weather::Calm),
        (Bug::MovedBeforeLastPoll, Weather::Calm),
        (Bug::UnansweredHasMoved, Weather::BadPaths),
        (Bug::RelianceIgnored, Weather::Storm),
    ] {
        let found = (0..3000).find_map(|seed| Some((seed, run(seed, weather, Some(bug), false).failure?)));
        let (seed, failure) = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
        println!("{bug:?} is found with seed {seed}: {failure}");
    }
}
