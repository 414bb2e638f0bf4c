//! The ranking of the model alone: by the exact cosine of the vectors that it made of the query and of the first
//! passage of each document, which the host has sent.

use super::judged::{DEPTH, JudgedSet, Ranking};
use super::model::{Kind, Model};

/// Ranks the documents for each query.
pub(crate) async fn rank(set: &JudgedSet, model: &Model) -> Vec<Ranking> {
    let passages = model.known(Kind::Passage);
    let mut vectors = Vec::new();
    for (index, document) in set.documents.iter().enumerate() {
        let first = passages.iter().find(|(text, _)| document.starts_with(text.as_str()));
        vectors.push((index, first.expect("the host has sent the first passage").1.clone()));
    }
    let mut rankings = Vec::new();
    for query in &set.queries {
        let vector = model.embed(Kind::Query, &[query.text.replace('"', " ")]).await.remove(0);
        let mut scored: Vec<_> = vectors.iter().map(|(index, other)| (cosine(&vector, other), *index)).collect();
        scored.sort_by(|(one, a), (other, b)| other.total_cmp(one).then(a.cmp(b)));
        rankings.push(scored.into_iter().map(|(_, index)| index).take(DEPTH + 1).collect());
    }
    rankings
}

fn cosine(one: &[f64], other: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    product(one, other) / (product(one, one) * product(other, other)).sqrt()
}
