//! Links that add a server to a client when the user opens them. Links end up in histories and chats, so a link has an input or a
//! variable in place of the token.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;

use super::client::Client;
use super::entry::Entry;

/// All characters but the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The link for an entry, if the client has links.
pub(crate) fn link(client: Client, entry: &Entry) -> Option<String> {
    let encoded = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
    let mut server = entry.server.to_json();
    match client {
        Client::VsCode => {
            if let Json::Object(object) = &mut server {
                object.insert("name".to_owned(), entry.name.as_str().into());
                if let Some(input) = &entry.input {
                    object.insert("inputs".to_owned(), Json::Array(vec![input.value.to_json()]));
                }
            }
            Some(format!("vscode:mcp/install?{}", encoded(&server.to_string())))
        }
        Client::Cursor => {
            let config = BASE64_STANDARD.encode(server.to_string());
            let (name, config) = (encoded(&entry.name), encoded(&config));
            Some(format!("cursor://anysphere.cursor-deeplink/mcp/install?name={name}&config={config}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;

    use super::*;
    use crate::connect::entry::{Server, Token};

    fn entry(client: Client) -> Entry {
        let token = Token { variable: "TOKEN".to_owned(), literal: "mcp_secret".to_owned() };
        let server = Server::Http { url: "https://mcp.example.com/mcp".to_owned(), token: Some(token) };
        Entry::new("team", &server, Some(client))
    }

    fn json(text: &str) -> Json {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_link_has_the_entry_and_never_the_token() {
        let vscode = link(Client::VsCode, &entry(Client::VsCode)).unwrap();
        let config = percent_decode_str(vscode.strip_prefix("vscode:mcp/install?").unwrap()).decode_utf8().unwrap();
        let config = json(&config);
        assert_eq!((&config["name"], &config["type"]), (&"team".into(), &"http".into()));
        assert_eq!(config["inputs"][0]["id"], "team-token");
        let cursor = link(Client::Cursor, &entry(Client::Cursor)).unwrap();
        let (begin, config) = cursor.split_once("&config=").unwrap();
        assert_eq!(begin, "cursor://anysphere.cursor-deeplink/mcp/install?name=team");
        let config = percent_decode_str(config).decode_utf8().unwrap();
        let decoded = String::from_utf8(BASE64_STANDARD.decode(config.as_bytes()).unwrap()).unwrap();
        assert_eq!(json(&decoded)["headers"]["Authorization"], "Bearer ${env:TOKEN}");
        assert!(!format!("{vscode}{decoded}").contains("mcp_secret"));
    }
}
