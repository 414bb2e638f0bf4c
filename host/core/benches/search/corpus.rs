//! Generated documents whose word frequencies follow Zipf's law, as in natural languages.

/// The number of different words. The next two are the bounds of the number of words in a document.
const VOCABULARY: usize = 50_000;
const MIN_WORDS: u64 = 40;
const MAX_WORDS: u64 = 260;
/// The number of words on a line.
const LINE: u64 = 12;

/// The frequency of the words of a query.
#[derive(Clone, Copy)]
pub(crate) enum Frequency {
    Rare,
    Usual,
    Frequent,
}

impl Frequency {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Rare => "two words, at most 1 % match",
            Self::Usual => "two words of medium frequency",
            Self::Frequent => "three frequent words",
        }
    }
}

/// Documents that are generated from their number each time.
pub(crate) struct Corpus {
    count: usize,
    words: Vec<String>,
}

impl Corpus {
    pub(crate) fn new(count: usize) -> Self {
        Self { count, words: (0..VOCABULARY).map(word).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The size of all texts.
    pub(crate) fn bytes(&self) -> u64 {
        (0..self.count).map(|number| self.text(number).len() as u64).sum()
    }

    /// The text of a document.
    pub(crate) fn text(&self, number: usize) -> String {
        let mut random = Random(number as u64);
        let words = MIN_WORDS + random.next() % (MAX_WORDS - MIN_WORDS);
        let mut text = format!("# Document {number}\n\n");
        for index in 0..words {
            text.push_str(self.random_word(&mut random));
            text.push(if index % LINE == LINE - 1 { '\n' } else { ' ' });
        }
        text.push('\n');
        text
    }

    /// Queries of words with this frequency.
    pub(crate) fn queries(&self, frequency: Frequency, count: usize) -> impl Iterator<Item = String> {
        let (ranks, words) = match frequency {
            Frequency::Rare => (3000..30_000, 2),
            Frequency::Usual => (300..1500, 2),
            Frequency::Frequent => (0..30, 3),
        };
        (0..count as u64).map(move |query| {
            let mut random = Random(query ^ 0x5EED);
            let span = ranks.len() as u64;
            let rank = |random: &mut Random| ranks.start + usize::try_from(random.next() % span).expect("it is small");
            let words: Vec<_> = (0..words).map(|_| word(rank(&mut random))).collect();
            words.join(" ")
        })
    }

    /// Returns a random word. The word of rank r has a probability of about 1/r.
    fn random_word(&self, random: &mut Random) -> &str {
        let part = random.next() as f64 / u64::MAX as f64;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
        let rank = (VOCABULARY as f64).powf(part) as usize - 1;
        self.words.get(rank).expect("it is a rank")
    }
}

/// Returns the word of a rank: syllables that no other word has.
fn word(rank: usize) -> String {
    const CONSONANTS: &[u8] = b"bdfghjklmnprstvwz";
    const VOWELS: &[u8] = b"aeiou";
    let (mut word, mut rest) = (String::new(), rank);
    loop {
        word.push(char::from(*CONSONANTS.get(rest % CONSONANTS.len()).expect("it is an index")));
        rest /= CONSONANTS.len();
        word.push(char::from(*VOWELS.get(rest % VOWELS.len()).expect("it is an index")));
        rest /= VOWELS.len();
        if rest == 0 {
            return word;
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
