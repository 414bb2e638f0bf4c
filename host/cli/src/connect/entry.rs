//! A server's entry in the config file of a client, and the link that adds it when the user opens the link.
//!
//! Links end up in histories and chats, so a link has an input or a variable in place of the token.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::client::{Client, TokenReference};

/// All characters but the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A value of an entry. The order of keys is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Bool(bool),
    Text(String),
    List(Vec<String>),
    Table(Vec<(&'static str, Value)>),
}

impl Value {
    fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The value as JSON, for comparisons and links.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Bool(value) => json!(value),
            Self::Text(text) => json!(text),
            Self::List(texts) => json!(texts),
            Self::Table(pairs) => serde_json::Value::Object(
                pairs.iter().map(|(key, value)| ((*key).to_owned(), value.to_json())).collect(),
            ),
        }
    }
}

/// A server to add to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// A server that the client starts.
    Stdio {
        /// The program.
        command: String,
        /// The program's arguments.
        args: Vec<String>,
    },
    /// A running server.
    Http {
        /// The URL of the server's endpoint.
        url: String,
        /// The token, if the server requires one.
        token: Option<Token>,
    },
}

/// A token that a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The variable of the client's environment with the token.
    pub(crate) variable: String,
    /// The text in place of a variable, for a client without variables.
    pub(crate) literal: String,
}

/// An entry: the server, and the input elsewhere in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) server: Value,
    /// The input that prompts for the token.
    pub(crate) input: Option<Input>,
}

/// An element of `inputs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) id: String,
    pub(crate) value: Value,
}

impl Entry {
    /// The entry for a client; without one, in the form that most clients read.
    pub(crate) fn new(name: &str, server: &Server, client: Option<Client>) -> Self {
        let id = input_id(name);
        let (server, input) = match server {
            Server::Stdio { command, args } => (stdio(command, args, client), None),
            Server::Http { url, token } => {
                let is_asked = token.is_some() && client.map(Client::token_reference) == Some(TokenReference::Input);
                (http(url, token.as_ref(), &id, client), is_asked.then(|| Input { value: input(&id, name), id }))
            }
        };
        Self { name: name.to_owned(), server, input }
    }

    /// The link for this entry, if the client has links.
    pub(crate) fn link(&self, client: Client) -> Option<String> {
        let encoded = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
        let mut server = self.server.to_json();
        match client {
            Client::VsCode => {
                if let serde_json::Value::Object(object) = &mut server {
                    object.insert("name".to_owned(), self.name.as_str().into());
                    if let Some(input) = &self.input {
                        object.insert("inputs".to_owned(), serde_json::Value::Array(vec![input.value.to_json()]));
                    }
                }
                Some(format!("vscode:mcp/install?{}", encoded(&server.to_string())))
            }
            Client::Cursor => {
                let config = BASE64_STANDARD.encode(server.to_string());
                let (name, config) = (encoded(&self.name), encoded(&config));
                Some(format!("cursor://anysphere.cursor-deeplink/mcp/install?name={name}&config={config}"))
            }
            _ => None,
        }
    }
}

/// The id of the input for the token of a server.
pub(crate) fn input_id(name: &str) -> String {
    format!("{name}-token")
}

fn stdio(command: &str, args: &[String], client: Option<Client>) -> Value {
    let has_type = matches!(client, None | Some(Client::VsCode | Client::ClaudeCode | Client::Cursor));
    let kind = has_type.then(|| ("type", Value::text("stdio")));
    let rest = [("command", Value::text(command)), ("args", Value::List(args.to_vec()))];
    Value::Table(kind.into_iter().chain(rest).collect())
}

fn http(url: &str, token: Option<&Token>, id: &str, client: Option<Client>) -> Value {
    let has_type = matches!(client, None | Some(Client::VsCode | Client::ClaudeCode));
    let kind = has_type.then(|| ("type", Value::text("http")));
    let key = if client == Some(Client::GeminiCli) { "httpUrl" } else { "url" };
    let reference = client.map_or(TokenReference::Variable("${", "}"), Client::token_reference);
    let authorization = token.map(|token| match reference {
        TokenReference::Input => header(&format!("${{input:{id}}}")),
        TokenReference::Variable(before, behind) => header(&format!("{before}{}{behind}", token.variable)),
        TokenReference::VariableKey(key) => (key, Value::text(&*token.variable)),
        TokenReference::Literal => header(&token.literal),
    });
    Value::Table(kind.into_iter().chain([(key, Value::text(url))]).chain(authorization).collect())
}

fn header(token: &str) -> (&'static str, Value) {
    ("headers", Value::Table(vec![("Authorization", Value::Text(format!("Bearer {token}")))]))
}

fn input(id: &str, name: &str) -> Value {
    Value::Table(vec![
        ("type", Value::text("promptString")),
        ("id", Value::text(id)),
        ("description", Value::Text(format!("Token of {name}"))),
        ("password", Value::Bool(true)),
    ])
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;
    use percent_encoding::percent_decode_str;

    use super::*;

    fn remote() -> Server {
        let token = Token { variable: "TOKEN".to_owned(), literal: "mcp_secret".to_owned() };
        Server::Http { url: "http://127.0.0.1:8080/mcp".to_owned(), token: Some(token) }
    }

    #[test]
    fn a_client_that_has_inputs_or_variables_never_gets_the_token_itself() {
        for client in Client::value_variants().iter().copied().map(Some).chain([None]) {
            let entry = Entry::new("team", &remote(), client);
            let text = entry.server.to_json().to_string();
            assert_eq!(text.contains("mcp_secret"), client == Some(Client::Zed), "{client:?}: {text}");
            assert_eq!(entry.input.is_some(), client == Some(Client::VsCode), "{client:?}");
        }
    }

    #[test]
    fn each_client_has_the_form_that_it_reads() {
        let authorization = |value: &str| json!({ "Authorization": value });
        let url = "http://127.0.0.1:8080/mcp";
        let form = |client| Entry::new("team", &remote(), Some(client)).server.to_json();
        let vscode = json!({ "type": "http", "url": url, "headers": authorization("Bearer ${input:team-token}") });
        assert_eq!(form(Client::VsCode), vscode);
        let claude = json!({ "type": "http", "url": url, "headers": authorization("Bearer ${TOKEN}") });
        assert_eq!(form(Client::ClaudeCode), claude);
        assert_eq!(form(Client::Cursor), json!({ "url": url, "headers": authorization("Bearer ${env:TOKEN}") }));
        assert_eq!(form(Client::Codex), json!({ "url": url, "bearer_token_env_var": "TOKEN" }));
        assert_eq!(form(Client::GeminiCli), json!({ "httpUrl": url, "headers": authorization("Bearer ${TOKEN}") }));
        assert_eq!(form(Client::Zed), json!({ "url": url, "headers": authorization("Bearer mcp_secret") }));
    }

    #[test]
    fn a_link_has_the_entry_and_never_the_token() {
        let link = |client| Entry::new("team", &remote(), Some(client)).link(client).unwrap();
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let vscode = link(Client::VsCode);
        let config = percent_decode_str(vscode.strip_prefix("vscode:mcp/install?").unwrap()).decode_utf8().unwrap();
        let config = json(&config);
        assert_eq!((&config["name"], &config["type"]), (&"team".into(), &"http".into()));
        assert_eq!(config["inputs"][0]["id"], "team-token");
        let cursor = link(Client::Cursor);
        let (begin, config) = cursor.split_once("&config=").unwrap();
        assert_eq!(begin, "cursor://anysphere.cursor-deeplink/mcp/install?name=team");
        let config = percent_decode_str(config).decode_utf8().unwrap();
        let decoded = String::from_utf8(BASE64_STANDARD.decode(config.as_bytes()).unwrap()).unwrap();
        assert_eq!(json(&decoded)["headers"]["Authorization"], "Bearer ${env:TOKEN}");
        assert!(!format!("{vscode}{decoded}").contains("mcp_secret"));
    }
}
