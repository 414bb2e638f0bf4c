//! A scripted server.

use drive_provider::{Drive, Response, Transport};
use mcp_provider::keyvalue::{MemoryStore, Store};
use mcp_provider::{Config, Result};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{Cursor, Read};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

/// The type of folders.
pub(crate) const FOLDER: &str = "application/vnd.google-apps.folder";

/// Answers a request below `/drive/v3/` with the value of a function of the path, the query, and the number of the
/// request. Special members of the value: `status`; `text`, the whole body; `endless`, a text that the body repeats
/// forever.
struct Server<F> {
    answer: F,
    asked: Rc<RefCell<Vec<String>>>,
}

impl<F: Fn(&str, &str, usize) -> Value> Transport for Server<F> {
    fn get(&self, url: &str, range: Option<&str>, _: Instant) -> Result<Response> {
        let path = url.strip_prefix("http://d/drive/v3/").unwrap();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let number = self.asked.borrow().len();
        self.asked.borrow_mut().push(url.to_owned());
        let answer = (self.answer)(path, query, number);
        let status = answer["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(200);
        let body: Box<dyn Read> = match answer["endless"].as_str() {
            Some(text) => Box::new(Repeated(text.as_bytes().to_vec(), 0)),
            None => Box::new(Cursor::new(answer["text"].as_str().map_or_else(|| answer.to_string(), str::to_owned))),
        };
        let content_range = range.map(|range| format!("{}/9", range.replace('=', " ")));
        Ok(Response { status, retry_after: None, content_range, body })
    }

    fn sleep(&self, _: Duration) {}
}

/// A text that repeats forever.
struct Repeated(Vec<u8>, usize);

impl Read for Repeated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        for byte in buffer.iter_mut() {
            *byte = self.0[self.1 % self.0.len()];
            self.1 += 1;
        }
        Ok(buffer.len())
    }
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

/// The requested URLs.
pub(crate) type Asked = Rc<RefCell<Vec<String>>>;

/// Creates a provider of a server's folder `F`, and returns it with the list of requested URLs.
pub(crate) fn provider(answer: impl Fn(&str, &str, usize) -> Value + 'static, more: &[(&str, &str)]) -> (Drive, Asked) {
    provider_with_store(answer, MemoryStore::default(), more)
}

/// The same, with a store.
pub(crate) fn provider_with_store(
    answer: impl Fn(&str, &str, usize) -> Value + 'static,
    store: impl Store + 'static,
    more: &[(&str, &str)],
) -> (Drive, Asked) {
    let asked = Asked::default();
    let server = Server { answer, asked: Rc::clone(&asked) };
    let pairs = [("url", "http://d"), ("folders", r#"["F"]"#)].into_iter().chain(more.iter().copied());
    let drive = Drive::with(&Config::from_pairs(pairs), Box::new(server), Box::new(store), now).unwrap();
    (drive, asked)
}

/// Returns the metadata of a file of 9 bytes whose name is its id.
pub(crate) fn file(id: &str, kind: &str, parent: &str) -> Value {
    json!({ "id": id, "name": id, "mimeType": kind, "parents": [parent], "size": "9", "modifiedTime": "2026-01-01T00:00:00.000Z" })
}

/// Returns whether a query matches folders.
pub(crate) fn is_folder_query(query: &str) -> bool {
    query.contains("mimeType%20%3D%20%27application%2Fvnd.google-apps.folder")
}
