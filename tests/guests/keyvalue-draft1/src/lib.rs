//! A provider that imports an older draft of `wasi:keyvalue`, as components built for other hosts do.
//!
//! Reading `actions` calls every function once in the bucket `pages`, and returns the results, one per line. Reading
//! `other` opens a bucket that is not granted.

mod draft1 {
    #![allow(
        missing_docs,
        unsafe_code,
        unreachable_pub,
        dead_code,
        clippy::all,
        clippy::restriction,
        reason = "generated"
    )]
    wit_bindgen::generate!({ path: "../../../host/sandbox/wit", world: "wasi:keyvalue/imports", generate_all });
}

use mcp_provider::{Config, Contents, Entry, Failure, Info, Page, Provider, Result, export};

use self::draft1::wasi::keyvalue::{atomics, batch, store};

struct KeyValueDraft1;

impl Provider for KeyValueDraft1 {
    fn describe() -> Info {
        Info::new("keyvalue-draft1", env!("CARGO_PKG_VERSION"))
    }

    fn open(_config: &Config) -> Result<Self> {
        Ok(Self)
    }

    fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        Ok(Page::last([]))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let text = match path {
            "actions" => actions().map_err(|error| Failure::unavailable(error.to_string()))?.join("\n"),
            "other" => match store::open("other") {
                Err(store::Error::NoSuchStore) => "no such store".to_owned(),
                _ => "something else".to_owned(),
            },
            _ => return Err(Failure::NotFound),
        };
        Ok(vec![Contents::text(Entry::new(path, path), text)])
    }
}

fn actions() -> std::result::Result<Vec<String>, store::Error> {
    let bucket = store::open("pages")?;
    bucket.set("a", b"value")?;
    let entries: Vec<_> = (0..1500).map(|n| (format!("key-{n:04}"), Vec::new())).collect();
    let (first, second) = entries.split_at(1000);
    batch::set_many(&bucket, first)?;
    batch::set_many(&bucket, second)?;
    batch::delete_many(&bucket, &["key-0000".to_owned(), "key-0001".to_owned()])?;
    let page = bucket.list_keys(None)?;
    let rest = bucket.list_keys(page.cursor)?;
    let many = batch::get_many(&bucket, &["a".to_owned(), "x".to_owned()])?;
    let actions = vec![
        format!("get {:?}", bucket.get("a")?),
        format!("exists {} {}", bucket.exists("a")?, bucket.exists("x")?),
        format!("keys {} {:?}, then {} {:?}", page.keys.len(), page.cursor, rest.keys.len(), rest.cursor),
        format!("many {:?}", many.into_iter().map(|found| found.map(|(key, _)| key)).collect::<Vec<_>>()),
        format!("increment {} {}", atomics::increment(&bucket, "n", 2)?, atomics::increment(&bucket, "n", 3)?),
        format!("too much {}", atomics::increment(&bucket, "n", u64::MAX).is_err()),
    ];
    bucket.delete("a")?;
    Ok(actions)
}

export!(KeyValueDraft1);
