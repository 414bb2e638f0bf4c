//! Cursors: sealed, stateless, and valid for one listing of one principal.
//!
//! A cursor holds the position at which a listing continues: the plugin, the provider's own cursor, and the number of
//! entries to skip on that page. The position depends in part on hidden items, and the provider's cursor may be the key
//! of one, so every cursor is padded to one of three lengths. It is encrypted and authenticated (XChaCha20-Poly1305)
//! with the host's key, because a provider's cursor may contain data that the principal must not see. It is bound to
//! the kind of listing, its scope and the principal, so that it is invalid for any other. The host stores nothing: any
//! host with the same key can continue a listing, also after a restart.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Generate, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use mcp_host_model::resource::Error;
use serde::{Deserialize, Serialize};

use super::ListingKind;
use crate::access::Principal;

/// The maximum length of a cursor in bytes; a longer cursor is rejected unread. It is twice the length for the longest
/// provider cursor.
const MAX_CURSOR_LEN: usize = 16 << 10;
/// The lengths of padded plaintexts in bytes, for provider cursors of 128, 512 and 4096 bytes without JSON escapes,
/// with the longest plugin name and all numbers. Cursors then have 480, 992 and 7168 bytes, so that the longest fits
/// into the URI of a part of an index. The fewer lengths, the less a length reveals. A model copies a cursor to
/// continue a listing, so short cursors cost fewer tokens.
const PADDED_LENGTHS: [usize; 3] = [320, 704, 5336];
/// The length of an XChaCha20 nonce in bytes.
const NONCE_LEN: usize = 24;

/// The position at which a listing continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CursorPayload {
    /// The plugin at which to continue, or the next one by name if it has been removed.
    #[serde(rename = "p")]
    pub(super) plugin: String,
    /// The plugin's own cursor of the page; `None` for its first page.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub(super) cursor: Option<String>,
    /// The number of visible items from that page on that have already been listed.
    #[serde(rename = "s", default, skip_serializing_if = "is_zero")]
    pub(super) skip: usize,
    /// The progress of the plugin's listing before that page.
    #[serde(flatten)]
    pub(super) progress: WalkProgress,
}

/// The progress of a listing within one plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WalkProgress {
    /// The number of visible items on all pages so far.
    #[serde(rename = "n", default, skip_serializing_if = "is_zero")]
    pub(super) visible: usize,
    /// The number of hidden items on all pages so far.
    #[serde(rename = "h", default, skip_serializing_if = "is_zero")]
    pub(super) hidden: usize,
    /// The number of consecutive empty pages.
    #[serde(rename = "e", default, skip_serializing_if = "is_zero")]
    pub(super) empty_pages: usize,
}

impl WalkProgress {
    /// Adds one page of `items` items, of which `visible` are visible.
    pub(super) fn advance(self, items: usize, visible: usize) -> Self {
        Self {
            visible: self.visible.saturating_add(visible),
            hidden: self.hidden.saturating_add(items.saturating_sub(visible)),
            empty_pages: if items == 0 { self.empty_pages.saturating_add(1) } else { 0 },
        }
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The listing and principal for which a cursor is valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding<'a> {
    pub(super) kind: ListingKind,
    /// The URI below which to list; empty for the whole catalog.
    pub(super) scope: &'a str,
    pub(super) principal: &'a Principal,
}

impl Binding<'_> {
    /// Returns the associated data of the cipher. It differs for any two bindings, as no kind and no principal's name
    /// contains a NUL.
    fn associated_data(&self) -> Vec<u8> {
        // The length of the name separates it from the scope that follows.
        let principal = self.principal.name();
        let (kind, is_built_in) = (self.kind.name(), u8::from(self.principal.is_built_in()));
        format!("{kind}\0{is_built_in}\0{}\0{principal}\0{}", principal.len(), self.scope).into_bytes()
    }
}

/// Seals cursors with one key, and opens the cursors of this key and of earlier keys.
pub(super) struct CursorCipher {
    cipher: XChaCha20Poly1305,
    earlier: Vec<XChaCha20Poly1305>,
}

impl CursorCipher {
    /// Creates a cipher with `key`.
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self { cipher: XChaCha20Poly1305::new(&Key::from(*key)), earlier: Vec::new() }
    }

    /// Adds earlier keys, whose cursors are opened, too.
    pub(super) fn opening(mut self, earlier: &[[u8; 32]]) -> Self {
        self.earlier.extend(earlier.iter().map(|key| XChaCha20Poly1305::new(&Key::from(*key))));
        self
    }

    /// Returns the cursor for a position, in URL-safe base64.
    pub(super) fn seal(&self, payload: &CursorPayload, binding: Binding<'_>) -> Result<String, Error> {
        let nonce = XNonce::generate();
        let sealed = serde_json::to_vec(payload).ok().and_then(|mut plain| {
            // White space after the JSON.
            let fitting = PADDED_LENGTHS.into_iter().find(|padded| plain.len() <= *padded);
            // With many JSON escapes a plaintext is longer than all of them.
            let longest = PADDED_LENGTHS.last().copied()?;
            let padded = fitting.or_else(|| plain.len().div_ceil(longest).checked_mul(longest))?;
            plain.resize(padded, b' ');
            self.cipher.encrypt(&nonce, Payload { msg: &plain, aad: &binding.associated_data() }).ok()
        });
        let sealed = sealed.ok_or(Error::InvalidCursor)?;
        Ok(URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat()))
    }

    /// Returns the position of a cursor if one of the keys sealed it for this binding.
    pub(super) fn open(&self, cursor: &str, binding: Binding<'_>) -> Result<CursorPayload, Error> {
        let opened = || {
            let bytes = URL_SAFE_NO_PAD.decode(Some(cursor).filter(|cursor| cursor.len() <= MAX_CURSOR_LEN)?).ok()?;
            let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
            let (nonce, aad) = (XNonce::from(*nonce), binding.associated_data());
            let mut ciphers = std::iter::once(&self.cipher).chain(&self.earlier);
            let plain = ciphers.find_map(|cipher| cipher.decrypt(&nonce, Payload { msg: sealed, aad: &aad }).ok())?;
            serde_json::from_slice(&plain).ok()
        };
        opened().ok_or(Error::InvalidCursor)
    }
}

/// Assertions of the fuzz target for cursors.
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing {
    use super::*;

    /// Asserts that a cursor made by a client is rejected, and that a provider's cursor survives a round trip.
    pub fn cursor(text: &str) {
        let cipher = CursorCipher::new(&[7; 32]);
        let binding = Binding { kind: ListingKind::Entries, scope: "", principal: &Principal::LOCAL };
        assert_eq!(cipher.open(text, binding), Err(Error::InvalidCursor), "nobody sealed it");
        let payload = CursorPayload {
            plugin: "a".to_owned(),
            cursor: Some(text.to_owned()),
            skip: text.len(),
            progress: WalkProgress::default(),
        };
        match cipher.seal(&payload, binding) {
            // The provider's cursor is longer than allowed.
            Ok(sealed) if sealed.len() > MAX_CURSOR_LEN => {}
            Ok(sealed) => assert_eq!(cipher.open(&sealed, binding), Ok(payload), "it comes back"),
            Err(error) => assert_eq!(error, Error::InvalidCursor),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn binding(scope: &str) -> Binding<'_> {
        Binding { kind: ListingKind::Entries, scope, principal: &Principal::LOCAL }
    }

    fn payload() -> CursorPayload {
        CursorPayload {
            plugin: "notes".to_owned(),
            cursor: Some("z/last.md".to_owned()),
            skip: 3,
            progress: WalkProgress { visible: 70, ..WalkProgress::default() },
        }
    }

    #[test]
    fn while_a_key_is_replaced_cursors_of_both_are_good_where_both_are_known() {
        const NEW: [u8; 32] = [8; 32];
        let old = CursorCipher::new(&KEY).seal(&payload(), binding("")).unwrap();
        let both = CursorCipher::new(&NEW).opening(&[KEY]);
        let new = both.seal(&payload(), binding("")).unwrap();
        assert_eq!([&old, &new].map(|cursor| both.open(cursor, binding("")).is_ok()), [true, true]);
        let only_new = CursorCipher::new(&NEW);
        assert_eq!([&old, &new].map(|cursor| only_new.open(cursor, binding("")).is_ok()), [false, true]);
    }

    #[test]
    fn a_cursor_is_good_for_its_own_listing_only() {
        let cipher = CursorCipher::new(&KEY);
        let cursor = cipher.seal(&payload(), binding("")).unwrap();
        assert_eq!(cipher.open(&cursor, binding("")), Ok(payload()));
        let others = [
            binding("notes:///a"),
            Binding { kind: ListingKind::Templates, ..binding("") },
            Binding { principal: &Principal::ANONYMOUS, ..binding("") },
        ];
        for other in others {
            assert_eq!(cipher.open(&cursor, other), Err(Error::InvalidCursor), "{other:?}");
        }
    }

    #[test]
    fn a_host_with_the_same_key_goes_on_and_one_with_another_does_not() {
        let cursor = CursorCipher::new(&KEY).seal(&payload(), binding("")).unwrap();
        assert_eq!(CursorCipher::new(&KEY).open(&cursor, binding("")), Ok(payload()));
        assert_eq!(CursorCipher::new(&[8; 32]).open(&cursor, binding("")), Err(Error::InvalidCursor));
    }

    #[test]
    fn the_length_of_a_cursor_does_not_tell_the_position() {
        let cipher = CursorCipher::new(&KEY);
        let progress = WalkProgress { visible: usize::MAX, hidden: usize::MAX, empty_pages: usize::MAX };
        let far = CursorPayload { plugin: "p".repeat(64), cursor: None, skip: usize::MAX, progress };
        let first = CursorPayload { plugin: "p".to_owned(), cursor: None, skip: 0, progress: WalkProgress::default() };
        let seal = |position: &CursorPayload, key: usize| {
            let position = CursorPayload { cursor: (key > 0).then(|| "k".repeat(key)), ..position.clone() };
            let cursor = cipher.seal(&position, binding("")).unwrap();
            assert_eq!(cipher.open(&cursor, binding("")), Ok(position));
            cursor.len()
        };
        for (keys, length) in [(&[0, 1, 30, 80, 128][..], 480), (&[400, 512], 992), (&[700, 1000, 4096], 7168)] {
            for &key in keys {
                assert_eq!((seal(&first, key), seal(&far, key)), (length, length), "{key}");
            }
        }
    }

    #[test]
    fn a_cursor_does_not_show_what_is_in_it() {
        let cursor = CursorCipher::new(&KEY).seal(&payload(), binding("")).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&cursor).unwrap();
        assert!(!bytes.windows(4).any(|window| window == b"last"));
    }

    #[test]
    fn pages_with_nothing_on_them_count_until_one_has_something() {
        let walked = WalkProgress::default().advance(2, 1).advance(0, 0).advance(0, 0);
        assert_eq!(walked, WalkProgress { visible: 1, hidden: 1, empty_pages: 2 });
        assert_eq!(walked.advance(1, 0), WalkProgress { visible: 1, hidden: 2, empty_pages: 0 });
    }

    proptest! {
        #[test]
        fn whatever_a_client_makes_up_is_an_invalid_cursor(cursor in ".{0,200}") {
            prop_assert_eq!(CursorCipher::new(&KEY).open(&cursor, binding("")), Err(Error::InvalidCursor));
        }

        #[test]
        fn a_cursor_with_any_bit_changed_is_invalid(bit in 0usize..400) {
            let cipher = CursorCipher::new(&KEY);
            let mut bytes = URL_SAFE_NO_PAD.decode(cipher.seal(&payload(), binding("")).unwrap()).unwrap();
            let bit = bit % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let forged = URL_SAFE_NO_PAD.encode(bytes);
            prop_assert_eq!(cipher.open(&forged, binding("")), Err(Error::InvalidCursor));
        }
    }
}
