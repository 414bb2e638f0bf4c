//! The Lee corpus (Lee, Pincombe and Welsh, 2005), which the package gensim has: 50 short news, and the mean similarity
//! of each pair from 0 to 1, as people rated it.

use std::fs;
use std::path::PathBuf;

use super::judged::{JudgedSet, Query};
use super::target;

/// The similarity from which on a document is relevant to another.
const RELEVANT: f64 = 0.5;

/// Each text as a query: the similar ones are relevant, by their similarity.
pub(crate) fn similar_news() -> JudgedSet {
    let documents: Vec<_> = read("lee.cor").lines().map(str::to_owned).collect();
    let parse = |line: &str| line.split('\t').map(|cell| cell.trim().parse().unwrap()).collect();
    let upper: Vec<Vec<f64>> = read("similarities0-1.txt").lines().map(parse).collect();
    let similarity = |one: usize, other: usize| upper[one.min(other)][one.max(other)];
    let query = |(index, text): (usize, &String)| {
        let others = (0..documents.len()).filter(|other| *other != index);
        let relevant: Vec<_> =
            others.map(|other| (other, similarity(index, other))).filter(|(_, grade)| *grade >= RELEVANT).collect();
        Query { text: text.clone(), relevant, excluded: Some(index) }
    };
    let queries = documents.iter().enumerate().map(query).filter(|query| !query.relevant.is_empty()).collect();
    JudgedSet { name: "Lee corpus", documents, queries }
}

fn read(name: &str) -> String {
    let libraries =
        fs::read_dir(target("clients/search-quality/lib")).expect("`cargo xtask search-quality` installs it");
    let files = libraries.map(|python| python.unwrap().path().join("site-packages/gensim/test/test_data").join(name));
    let file: PathBuf = files.into_iter().find(|file| file.is_file()).expect("gensim has the corpus");
    // ISO 8859-1.
    fs::read(file).unwrap().into_iter().map(char::from).collect()
}
