//! The provider's results for valid and invalid answers of a server.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test fails by panicking"
)]

use mcp_provider::{Argument, Config, Contents, Failure, Provider, Result};
use prometheus_provider::{Prometheus, Response, Transport};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

/// Answers by endpoint, and the requested URLs.
#[derive(Default, Clone)]
struct Server {
    answers: Rc<RefCell<HashMap<&'static str, (u16, String)>>>,
    asked: Rc<RefCell<Vec<String>>>,
}

impl Transport for Server {
    fn get(&self, url: &str, _: Instant) -> Result<Response> {
        let path = url.strip_prefix("http://p:9090/api/v1/").unwrap();
        self.asked.borrow_mut().push(path.to_owned());
        let endpoint = path.split('?').next().unwrap();
        let answers = self.answers.borrow();
        let (status, body) = answers.get(endpoint).cloned().unwrap_or((404, "404 page not found".to_owned()));
        Ok(Response { status, retry_after: None, body: body_of(body) })
    }
}

/// Returns a body. The text of an `endless` body is repeated.
fn body_of(body: String) -> Box<dyn Read> {
    match body.strip_prefix("endless ") {
        Some(text) => {
            let (first, repeated) = text.split_once('…').unwrap();
            let repeated = repeated.to_owned();
            let rest = std::iter::repeat_with(move || Cursor::new(repeated.clone()));
            Box::new(
                Cursor::new(first.to_owned())
                    .chain(Chained { parts: Box::new(rest), part: Cursor::new(String::new()) }),
            )
        }
        None => Box::new(Cursor::new(body)),
    }
}

struct Chained {
    parts: Box<dyn Iterator<Item = Cursor<String>>>,
    part: Cursor<String>,
}

impl Read for Chained {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.part.read(buffer)? {
            0 => {
                self.part = self.parts.next().unwrap();
                self.part.read(buffer)
            }
            read => Ok(read),
        }
    }
}

impl Server {
    fn with(answers: &[(&'static str, &str)]) -> Self {
        let server = Self::default();
        answers.iter().for_each(|(endpoint, data)| server.answer(endpoint, 200, &success(data)));
        server
    }

    fn answer(&self, endpoint: &'static str, status: u16, body: &str) {
        self.answers.borrow_mut().insert(endpoint, (status, body.to_owned()));
    }

    fn provider(&self, config: &[(&str, &str)]) -> Prometheus {
        let pairs = config.iter().copied().chain([("url", "http://p:9090")]);
        Prometheus::with(&Config::from_pairs(pairs), Box::new(self.clone()), now).unwrap()
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        self.provider(&[]).read(path)
    }
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_005)
}

fn success(data: &str) -> String {
    format!(r#"{{"status":"success","data":{data}}}"#)
}

fn said<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_range_is_a_row_for_each_time_and_a_column_for_each_series() {
    let server = Server::with(&[(
        "query_range",
        r#"{"resultType":"matrix","result":[
            {"metric":{"__name__":"up","job":"a,b"},"values":[[1699999980,"1"],[1700000000,"NaN"]]},
            {"metric":{"__name__":"up","job":"c"},"values":[[1700000000,"+Inf"]]}]}"#,
    )]);
    let contents = server.read("series/up?range=1m&step=20s").unwrap();
    let table =
        "time,\"up{job=\"\"a,b\"\"}\",\"up{job=\"\"c\"\"}\"\n2023-11-14T22:13:00Z,1,\n2023-11-14T22:13:20Z,NaN,+Inf\n";
    assert_eq!(contents[0].as_text(), Some(table));
    assert_eq!(contents[0].entry.mime_type.as_deref(), Some("text/csv"));
    assert_eq!(contents[0].entry.ttl, Some(Duration::from_secs(20)));
    let json: serde_json::Value = serde_json::from_str(contents[1].as_text().unwrap()).unwrap();
    assert_eq!(json["result"][0]["values"][1], serde_json::json!([1_700_000_000, "NaN"]));
    let asked = server.asked.borrow()[0].clone();
    let expected =
        "query_range?query=%7B__name__%3D%22up%22%7D&start=1699999940.000&end=1700000000.000&step=20.000&timeout=";
    assert!(asked.starts_with(expected), "{asked}");
}

#[test]
fn neither_a_scrape_url_nor_its_secrets_are_in_what_clients_get() {
    let server = Server::with(&[
        (
            "targets",
            r#"{"activeTargets":[{"labels":{"job":"a"},"scrapePool":"a","health":"down","lastScrape":"2026-01-01T00:00:00Z",
                "scrapeUrl":"http://u:hunter2@10.0.0.7:9100/metrics?token=hunter2","discoveredLabels":{"__param_token":"hunter2"},
                "lastError":"Get \"http://u:hunter2@10.0.0.7:9100/metrics?token=hunter2\": dial tcp 10.0.0.7:9100: connect: connection refused"}]}"#,
        ),
        (
            "rules",
            r#"{"groups":[{"name":"g","interval":1,"rules":[{"name":"r","query":"up","type":"recording","health":"err",
                "lastError":"remote_read: Post \"https://u:hunter2@10.0.0.7/read?key=hunter2\": EOF"}]}]}"#,
        ),
    ]);
    server.answer(
        "query",
        422,
        r#"{"status":"error","errorType":"execution","error":"Post \"https://10.0.0.7/?k=hunter2\": EOF"}"#,
    );
    for path in ["targets", "rules"] {
        for contents in server.read(path).unwrap() {
            let text = contents.as_text().unwrap().to_owned();
            assert!(!text.contains("hunter2") && !text.contains("10.0.0.7"), "{path}: {text}");
            let kept = if path == "targets" { "connection refused" } else { "remote_read: Post" };
            assert!(text.contains(kept), "{path}: {text}");
        }
    }
    let failure = said(server.read("query?q=up"));
    assert!(failure.contains("<address>") && !failure.contains("hunter2"), "{failure}");
}

#[test]
fn an_instant_query_is_a_row_for_each_series() {
    let server = Server::with(&[(
        "query",
        r#"{"result":[{"metric":{"job":"a"},"value":[1700000005.25,"3"]},{"metric":{"code":"5"},"value":[1,"-Inf"]}],"resultType":"vector"}"#,
    )]);
    let contents = server.read("query?q=x").unwrap();
    assert_eq!(contents[0].as_text(), Some("code,job,value\n,a,3\n5,,-Inf\n"));
    assert_eq!(contents[0].entry.ttl, Some(Duration::from_secs(15)));
    server.answer("query", 200, &success(r#"{"resultType":"scalar","result":[1700000005,"4"]}"#));
    assert_eq!(server.read("query?q=4").unwrap()[0].as_text(), Some("value\n4\n"));
    server.answer("query", 200, &success(r#"{"resultType":"string","result":[1700000005,"4"]}"#));
    assert!(matches!(server.read("query?q='4'"), Err(Failure::InvalidRequest(_))));
    server.answer("query", 200, &success(r#"{"resultType":"matrix","result":[{"metric":{},"values":[[1,"4"]]}]}"#));
    assert!(said(server.read("query?q=up[5m]")).contains("a range vector"));
}

#[test]
fn an_error_of_the_api_is_a_failure_that_says_what_to_do() {
    let server = Server::default();
    let error = |kind, text| format!(r#"{{"status":"error","errorType":"{kind}","error":"{text}"}}"#);
    for (status, kind, text, expected) in [
        (
            400,
            "bad_data",
            "parse error at char 3",
            "invalid request: expected a query that Prometheus understands; it says: parse error at char 3",
        ),
        (
            503,
            "timeout",
            "query timed out in expression evaluation",
            "unavailable: Prometheus did not answer within 4s",
        ),
        (
            422,
            "execution",
            "query processing would load too many samples",
            "invalid request: the query is too heavy for Prometheus: query processing would load too many samples; a shorter `range`",
        ),
        (500, "internal", "broken\\u001b[31m", "unavailable: Prometheus says: broken [31m"),
    ] {
        server.answer("query", status, &error(kind, text));
        let said = said(server.read("query?q=x"));
        assert!(said.starts_with(expected), "{said}");
    }
    for (status, expected) in [
        (401, "denied: "),
        (404, "unavailable: expected an answer of the Prometheus API, found status 404"),
        (503, "unavailable: the Prometheus server is not ready"),
    ] {
        server.answer("query", status, "<html>");
        let said = said(server.read("query?q=x"));
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn an_answer_that_is_not_what_the_api_says_is_refused() {
    let server = Server::default();
    let matrix =
        |values: &str| success(&format!(r#"{{"resultType":"matrix","result":[{{"metric":{{}},"values":{values}}}]}}"#));
    for body in [
        "".to_owned(),
        "<html>".to_owned(),
        "[]".to_owned(),
        r#"{"status":"success"}"#.to_owned(),
        r#"{"status":"perhaps","data":{}}"#.to_owned(),
        success("{}"),
        success("{}") + "{}",
        success(r#"{"resultType":"vector","result":[]}"#),
        success(r#"{"resultType":"matrix","result":[1,2]}"#),
        success(r#"{"resultType":"matrix","result":[{"metric":{},"values":[]},1]}"#),
        success(&"[".repeat(100_000)),
        matrix(r#"[[1700000001,"1"]]"#),
        matrix(r#"[[1e300,"1"]]"#),
        matrix(r#"[[1700000000,"one"]]"#),
        matrix(r#"[[1700000000,1]]"#),
        matrix(&format!(r#"[[1700000000,"{}"]]"#, "1".repeat(100))),
    ] {
        server.answer("query_range", 200, &body);
        let read = server.read("query?q=x&range=1m&step=20s");
        assert!(matches!(read, Err(Failure::Unavailable(_))), "{body:.100}: {read:?}");
    }
}

#[test]
fn an_answer_that_is_too_large_or_never_ends_is_refused_while_it_arrives() {
    let server = Server::default();
    let endless = |first: &str, repeated: &str| format!("endless {{\"status\":\"success\",\"data\":{first}…{repeated}");
    for (body, expected) in [
        (endless(r#"{"resultType":"matrix","result":["#, r#"{"metric":{},"values":[]},"#), "more than 100 series"),
        (
            endless(r#"{"resultType":"matrix","result":[{"metric":{},"values":["#, r#"[1700000000,"1"],"#),
            "more than 50000 points",
        ),
        (endless(r#"{"resultType":""#, "aaaaaaaa"), "more than 8388608 bytes"),
        (endless(r#"{"resultType":"matrix","result":[{"metric":{"a":"b""#, r#","a":"b""#), "more than 8388608 bytes"),
        (endless("", "         "), "more than 8388608 bytes"),
    ] {
        server.answer("query_range", 200, &body);
        let said = said(server.read("query?q=x&range=1m&step=20s"));
        assert!(said.contains(expected) && said.contains("would do"), "{said}");
    }
    server.answer("alerts", 200, &endless(r#"{"alerts":["#, r#"{"labels":{},"state":"","value":""},"#));
    assert!(said(server.read("alerts")).contains("at most 10000 items"));
    server.answer("label/__name__/values", 200, &endless("[", r#""metric_of_many","#));
    let completion = server.provider(&[]).complete("metric/{name}", &Argument::new("name", ""), &[]).unwrap();
    let found = (completion.values.len(), completion.has_more);
    assert_eq!(found, (1000, true), "no more is read than the host chooses from");
}

#[test]
fn a_result_with_too_many_points_names_a_step_that_does() {
    let values: Vec<String> = (0..=10_000).map(|n| format!(r#"[{},"1"]"#, 1_700_000_000 - 10_000 + n)).collect();
    let series: Vec<String> =
        (0..6).map(|n| format!(r#"{{"metric":{{"n":"{n}"}},"values":[{}]}}"#, values.join(","))).collect();
    let server =
        Server::with(&[("query_range", &format!(r#"{{"resultType":"matrix","result":[{}]}}"#, series.join(",")))]);
    let said = said(server.read("query?q=x&range=10000s&step=1s&end=1700000000"));
    assert!(said.contains("more than 50000 points") && said.contains("`step=20s` would do"), "{said}");
}

#[test]
fn what_has_no_series_is_a_table_without_rows_and_an_unknown_metric_is_not_found() {
    let server = Server::with(&[
        ("query_range", r#"{"resultType":"matrix","result":[]}"#),
        ("label/__name__/values", r#"["up"]"#),
    ]);
    assert_eq!(server.read("series/up").unwrap()[0].as_text(), Some("time\n"));
    server.answer("label/__name__/values", 200, &success("[]"));
    assert_eq!(server.read("series/nothing"), Err(Failure::NotFound));
    server.answer("series", 200, &success("[]"));
    assert_eq!(server.read("metric/nothing"), Err(Failure::NotFound));
    server.answer("label/nothing/values", 200, &success("[]"));
    assert_eq!(server.read("label/nothing"), Err(Failure::NotFound));
    // No request is sent: a server that decodes `%2F` before routing would take it for another endpoint.
    for label in ["..%2F..%2Fadmin%2Ftsdb", "%2E%2E", "a%2F."] {
        assert!(matches!(server.read(&format!("label/{label}")), Err(Failure::InvalidRequest(_))), "{label}");
    }
}

#[test]
fn a_watched_query_has_changed_when_its_values_have() {
    let server = Server::default();
    let vector = |value: &str| {
        success(&format!(
            r#"{{"resultType":"vector","result":[{{"metric":{{"job":"a"}},"value":[1700000005,"{value}"]}}]}}"#
        ))
    };
    server.answer("query", 200, &vector("1"));
    server.answer("alerts", 200, &success(r#"{"alerts":[]}"#));
    let provider = server.provider(&[("queries", r#"{"a":{"query":"x","range":"1h"}}"#)]);
    let watched = ["saved/a", "alerts", "saved/none", "query?q=x"].map(str::to_owned);
    let first = provider.changes(&watched, None).unwrap();
    assert_eq!((first.changed.len(), first.listing_changed), (0, false));
    assert_eq!(first.poll_after, Some(Duration::from_secs(5)), "the next step of the alerts begins at 1700000010");
    assert_eq!(server.asked.borrow().len(), 2);
    // Within the step, no request is sent.
    let second = provider.changes(&watched, Some(&first.token)).unwrap();
    assert_eq!((second.changed.len(), server.asked.borrow().len()), (0, 2));
    // The test clock is constant, so the checks are made due in the token.
    let due = |token: &str| {
        let mut token: serde_json::Value = serde_json::from_str(token).unwrap();
        token.as_object_mut().unwrap().values_mut().for_each(|watch| watch["next"] = 0.into());
        token.to_string()
    };
    let same = provider.changes(&watched, Some(&due(&second.token))).unwrap();
    assert_eq!((same.changed.len(), server.asked.borrow().len()), (0, 4));
    server.answer("query", 200, &vector("2"));
    let changed = provider.changes(&watched, Some(&due(&same.token))).unwrap();
    assert_eq!(changed.changed, ["saved/a"]);
    server.answer("query", 503, "down");
    assert!(
        provider.changes(&watched, Some(&due(&changed.token))).unwrap().changed.is_empty(),
        "a failure is no change"
    );
    let foreign = provider.changes(&watched, Some("of somebody else")).unwrap();
    assert_eq!((foreign.changed.as_slice(), foreign.listing_changed), (watched.as_slice(), true));
}
