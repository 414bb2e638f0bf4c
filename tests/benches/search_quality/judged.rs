//! Judged texts, and the quality of rankings.

/// The number of documents of a ranking that count.
pub(crate) const DEPTH: usize = 10;

/// Documents by their index, best first.
pub(crate) type Ranking = Vec<usize>;

/// Documents, and queries with the documents that are relevant to them.
pub(crate) struct JudgedSet {
    pub(crate) name: &'static str,
    pub(crate) documents: Vec<String>,
    pub(crate) queries: Vec<Query>,
}

/// A query.
pub(crate) struct Query {
    pub(crate) text: String,
    /// The documents that are relevant, by how much.
    pub(crate) relevant: Vec<(usize, f64)>,
    /// A document that does not count: the one that is the query.
    pub(crate) excluded: Option<usize>,
}

/// The means over all queries.
pub(crate) struct Quality {
    /// The reciprocal of the rank of the first relevant document (MRR@10).
    pub(crate) reciprocal_rank: f64,
    /// The share of the relevant documents that are found (R@10).
    pub(crate) recall: f64,
    /// The normalized discounted cumulative gain (nDCG@10).
    pub(crate) gain: f64,
}

impl JudgedSet {
    /// A set with a query for each document, which is relevant to it.
    pub(crate) fn known_items(name: &'static str, items: Vec<(String, String)>) -> Self {
        let (texts, documents): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        let query = |(index, text)| Query { text, relevant: vec![(index, 1.0)], excluded: None };
        Self { name, documents, queries: texts.into_iter().enumerate().map(query).collect() }
    }

    /// Keeps `count` documents, with equal distances, and their queries.
    pub(crate) fn shorten(&mut self, count: usize) {
        let len = self.documents.len();
        if len <= count {
            return;
        }
        let kept: Vec<_> = (0..count).map(|place| place * len / count).collect();
        let place = |index: usize| kept.iter().position(|kept| *kept == index);
        self.documents = kept.iter().map(|index| self.documents[*index].clone()).collect();
        self.queries.retain_mut(|query| {
            query.relevant =
                query.relevant.iter().filter_map(|(index, grade)| Some((place(*index)?, *grade))).collect();
            !query.relevant.is_empty()
        });
    }

    /// The quality of rankings, one for each query.
    #[allow(clippy::cast_precision_loss, reason = "a mean")]
    pub(crate) fn quality(&self, rankings: &[Ranking]) -> Quality {
        assert_eq!(rankings.len(), self.queries.len());
        let count = rankings.len() as f64;
        let mut sum = Quality { reciprocal_rank: 0.0, recall: 0.0, gain: 0.0 };
        for (query, ranking) in self.queries.iter().zip(rankings) {
            let counted: Vec<_> = ranking.iter().filter(|index| query.excluded != Some(**index)).take(DEPTH).collect();
            let grade = |index: usize| {
                query.relevant.iter().find(|(other, _)| *other == index).map_or(0.0, |(_, grade)| *grade)
            };
            let grades: Vec<f64> = counted.iter().map(|index| grade(**index)).collect();
            let found = grades.iter().filter(|grade| **grade > 0.0).count();
            let first = grades.iter().position(|grade| *grade > 0.0);
            let mut ideal: Vec<f64> = query.relevant.iter().map(|(_, grade)| *grade).collect();
            ideal.sort_by(|one, other| other.total_cmp(one));
            sum.reciprocal_rank += first.map_or(0.0, |place| 1.0 / (place + 1) as f64);
            sum.recall += found as f64 / query.relevant.len().min(DEPTH) as f64;
            sum.gain += discounted(&grades) / discounted(&ideal);
        }
        Quality { reciprocal_rank: sum.reciprocal_rank / count, recall: sum.recall / count, gain: sum.gain / count }
    }
}

/// The discounted cumulative gain of the first documents.
fn discounted(grades: &[f64]) -> f64 {
    (2_u32..).zip(grades).take(DEPTH).map(|(place, grade)| grade / f64::from(place).log2()).sum()
}
