//! A provider that runs key-value operations on request. The path is the operation, and the content is its result.
//!
//! | path | operation | reads as |
//! |---|---|---|
//! | `get/BUCKET/KEY` | | the value |
//! | `set/BUCKET/KEY?value=V`, `?size=N` | sets this value, or N zeros | `done` |
//! | `delete/BUCKET/KEY` | | `done` |
//! | `exists/BUCKET/KEY` | | `true` or `false` |
//! | `keys/BUCKET?cursor=C` | lists one page | the number of keys, the first, the last and the next cursor, one per line |
//! | `increment/BUCKET/KEY?by=N` | | the sum |
//! | `swap/BUCKET/KEY?from=V&to=V` | without `from`, if the key does not exist | `true` or `false` |
//! | `fill/BUCKET?count=N&size=S` | sets the keys `key-00000` and so on, in batches | `done` |
//! | `many/BUCKET?keys=A,B,C` | gets a batch | the values, one per line; `-` for a missing one |
//! | `clear/BUCKET?keys=A,B,C` | deletes a batch | `done` |
//! | `all-bytes/BUCKET/KEY` | sets each byte once, and reads it back | the value read back |
//! | `visit/PAGE` | counts a visit, see [`visits`] | the number of visits |

mod visits;

use mcp_provider::keyvalue::Bucket;
use mcp_provider::{Captures, Config, Contents, Entry, Failure, Info, Page, PathTemplate, Provider, Result, export};

/// The number of keys written per batch.
const BATCH_SIZE: usize = 500;

struct KeyValue;

impl Provider for KeyValue {
    fn describe() -> Info {
        Info::new("keyvalue", env!("CARGO_PKG_VERSION")).description("Runs key-value operations on request.")
    }

    fn open(_config: &Config) -> Result<Self> {
        Ok(Self)
    }

    fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        Ok(Page::last([]))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        if let Some(captures) = PathTemplate::parse("visit/{page}")?.matches(path) {
            return Ok(vec![Contents::text(Entry::new(path, path), visits::visit(required(&captures, "page")?)?)]);
        }
        if let Some(captures) = PathTemplate::parse("{action}/{bucket}/{key}{?value,size,by,from,to}")?.matches(path) {
            let bucket = Bucket::open(required(&captures, "bucket")?)?;
            let read = run_on_key(&bucket, required(&captures, "key")?, &captures)?;
            return Ok(vec![Contents::bytes(Entry::new(path, path), read)]);
        }
        let captures = PathTemplate::parse("{action}/{bucket}{?cursor,count,size,keys}")?.matches(path);
        let captures = captures.ok_or(Failure::NotFound)?;
        let bucket = Bucket::open(required(&captures, "bucket")?)?;
        Ok(vec![Contents::text(Entry::new(path, path), run_on_bucket(&bucket, &captures)?)])
    }
}

fn run_on_key(bucket: &Bucket, key: &str, captures: &Captures) -> Result<Vec<u8>> {
    let done = || Ok(b"done".to_vec());
    match required(captures, "action")? {
        "get" => bucket.get(key)?.ok_or(Failure::NotFound),
        "set" => {
            let zeros = vec![0; number(captures, "size")?.unwrap_or(0)];
            bucket.set(key, captures.get("value").map_or(&zeros, |value| value.as_bytes()))?;
            done()
        }
        "delete" => bucket.delete(key).and_then(|()| done()),
        "exists" => Ok(bucket.exists(key)?.to_string().into_bytes()),
        "increment" => {
            let by = captures.get("by").unwrap_or("1").parse().map_err(|_| Failure::invalid("expected a number"))?;
            Ok(bucket.increment(key, by)?.to_string().into_bytes())
        }
        "swap" => {
            let (from, to) = (captures.get("from").map(str::as_bytes), required(captures, "to")?);
            Ok(bucket.compare_and_swap(key, from, to.as_bytes())?.to_string().into_bytes())
        }
        "all-bytes" => {
            bucket.set(key, &(0..=u8::MAX).collect::<Vec<_>>())?;
            bucket.get(key)?.ok_or(Failure::NotFound)
        }
        _ => Err(Failure::NotFound),
    }
}

fn run_on_bucket(bucket: &Bucket, captures: &Captures) -> Result<String> {
    let keys: Vec<_> = captures.get("keys").unwrap_or_default().split(',').collect();
    match required(captures, "action")? {
        "keys" => {
            let page = bucket.keys(captures.get("cursor"))?;
            let (first, last) = (page.keys.first().cloned(), page.keys.last().cloned());
            let lines = [Some(page.keys.len().to_string()), first, last, page.next_cursor];
            Ok(lines.map(|line| line.unwrap_or_else(|| "-".to_owned())).join("\n"))
        }
        "fill" => {
            let value = vec![0; number(captures, "size")?.unwrap_or(0)];
            let names: Vec<_> = (0..number(captures, "count")?.unwrap_or(0)).map(|n| format!("key-{n:05}")).collect();
            for names in names.chunks(BATCH_SIZE) {
                let entries: Vec<_> = names.iter().map(|name| (name.as_str(), value.as_slice())).collect();
                bucket.set_many(&entries)?;
            }
            Ok("done".to_owned())
        }
        "many" => {
            let values = bucket.get_many(&keys)?.into_iter();
            let lines: Result<Vec<_>> =
                values.map(|value| Ok(String::from_utf8(value.unwrap_or(b"-".into()))?)).collect();
            Ok(lines?.join("\n"))
        }
        "clear" => bucket.delete_many(&keys).map(|()| "done".to_owned()),
        _ => Err(Failure::NotFound),
    }
}

fn required<'a>(captures: &'a Captures, name: &str) -> Result<&'a str> {
    captures.get(name).ok_or_else(|| Failure::invalid(format!("expected `{name}`")))
}

fn number(captures: &Captures, name: &str) -> Result<Option<usize>> {
    let number = captures.get(name).map(str::parse).transpose();
    number.map_err(|_| Failure::invalid(format!("expected `{name}` to be a number")))
}

export!(KeyValue);
