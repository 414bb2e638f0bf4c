//! Numbers by chance, the same for the same seed.

/// Numbers by chance (SplitMix64).
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn with_seed(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn usize_below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    pub(super) fn choice<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.usize_below(all.len())]
    }

    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.usize_below(times) == 0
    }
}

/// The seeds to run: that of the environment, or the first so many.
pub(super) fn seeds(count: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    match (number("MCP_HOST_SEED"), number("MCP_HOST_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, more) => (1..=more.unwrap_or(count)).collect(),
    }
}
