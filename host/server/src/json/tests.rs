use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Encodes the whole document and checks each chunk.
fn encode_all(encoder: Encoder) -> String {
    encode_within(encoder, MAX_CHUNK)
}

/// Encodes the whole document in chunks of at most the given number of bytes.
fn encode_within(mut encoder: Encoder, max_chunk: usize) -> String {
    let mut all = Vec::new();
    while let Some(piece) = encoder.next_chunk() {
        assert!((1..=max_chunk).contains(&piece.len()), "{} bytes", piece.len());
        all.extend(piece);
    }
    assert!(encoder.is_finished());
    String::from_utf8(all).unwrap()
}

fn value(value: &Value) -> String {
    let value = value.clone();
    encode_all(Encoder::new(move |writer| writer.value(value)))
}

#[test]
fn a_string_of_any_length_is_written_as_serde_json_writes_it() {
    for unit in ["a", "\u{1}", "\"\\\n\t\r\u{8}\u{c}", "\u{7f}\u{1f}", "日本語", "a\u{1}\u{1f600}"] {
        for length in [0, 1, 31, 32, 33, 10_000, 65_530, 65_536, 200_000] {
            let text = Value::from(unit.repeat(length));
            assert_eq!(value(&text), text.to_string(), "{length} times {unit:?}");
        }
    }
}

#[test]
fn a_blob_of_any_length_is_written_in_base64() {
    for length in [0, 1, 2, 3, 4, 49_000, 49_149, 49_150, 49_151, 49_152, 49_153, 300_000] {
        let blob: Vec<u8> = (0..length).map(|place| u8::try_from(place % 251).unwrap()).collect();
        let expected = format!("\"{}\"", STANDARD.encode(&blob));
        assert_eq!(encode_all(Encoder::new(move |writer| writer.base64(blob))), expected, "{length}");
    }
}

#[test]
fn lists_in_lists_are_gone_on_with_where_they_were() {
    let inner: Vec<Value> = (0..20_000).map(|place| json!({ "name": place, "": [[], {}, null, true, 0.5] })).collect();
    let outer = json!([inner, { "a": inner, "b": "c".repeat(70_000) }, []]);
    assert_eq!(value(&outer), outer.to_string());
}

#[test]
fn shared_json_of_any_length_is_written_as_it_is_and_copied_only_if_it_is_short() {
    for length in [0, 1, 8_000, 8_190, 8_191, 10_000, 65_534, 65_535, 65_536, 70_000, 524_286, 524_287, 1_100_000] {
        let shared = Bytes::from(format!("\"{}\"", "a".repeat(length)));
        let write = |shared: Bytes| {
            Encoder::new(move |writer| {
                writer.object(|members| {
                    members.member("before").json(shared.clone());
                    members.member("again").json(shared);
                });
            })
        };
        let text = str::from_utf8(&shared).unwrap();
        assert_eq!(
            encode_within(write(shared.clone()), MAX_SHARED_CHUNK),
            format!("{{\"before\":{text},\"again\":{text}}}"),
            "{length}"
        );
        let mut encoder = write(shared.clone());
        let first = encoder.next_chunk().unwrap();
        let known = encoder.known_len().unwrap();
        let chunks: Vec<Bytes> = std::iter::from_fn(|| encoder.next_chunk()).collect();
        assert_eq!(known, chunks.iter().map(Bytes::len).sum::<usize>(), "after {} bytes", first.len());
        let is_part = |chunk: &&Bytes| shared.as_ptr_range().contains(&chunk.as_ptr());
        let in_place: usize = chunks.iter().filter(is_part).map(Bytes::len).sum();
        let copied = 2 * shared.len() - in_place;
        assert!(copied < 2 * MIN_SHARED, "{copied} of twice {}", shared.len());
    }
}

#[test]
fn shared_json_alone_is_a_document() {
    for length in [MIN_SHARED, 3 * MAX_SHARED_CHUNK] {
        let shared = Bytes::from("1".repeat(length));
        let encoder = Encoder::new({
            let shared = shared.clone();
            move |writer| writer.json(shared)
        });
        assert_eq!(encode_within(encoder, MAX_SHARED_CHUNK), str::from_utf8(&shared).unwrap());
    }
}

#[test]
fn documents_can_be_put_together() {
    let document = |text: &str| Encoder::from_json(text.as_bytes().to_vec());
    assert_eq!(encode_all(Encoder::array(vec![])), "[]");
    assert_eq!(encode_all(Encoder::array(vec![document("1")])), "[1]");
    let long = document(&"1".repeat(100_000));
    let all = encode_all(Encoder::array(vec![document("{}"), long, document("[]")]).wrap("data: ", "\n\n"));
    assert_eq!(all, format!("data: [{{}},{},[]]\n\n", "1".repeat(100_000)));
}

#[test]
fn what_has_been_written_is_not_kept() {
    let mut encoder =
        Encoder::new(|writer| writer.array(vec![vec![0_u8; 1 << 20]; 3], |writer, blob| writer.base64(blob)));
    while let Some(_piece) = encoder.next_chunk() {
        assert!(encoder.steps.len() <= 3, "{encoder:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_written_as_serde_json_writes_it(text in "\\PC*|[\\x00-\\x7f]{0,200}", times in 1_usize..2000) {
        let text = Value::from(text.repeat(times));
        prop_assert_eq!(value(&text), text.to_string());
    }
}
