//! Hosts and origins that the validation of `Host` and `Origin` accepts: `hosts` and `cors` of `[http]`.

use crate::config::declare::written_as;
use crate::config::error::{Diagnostic, quote};
use crate::config::reader::{FromNode, Node, Schema};
use crate::net::{OriginError, OriginPattern, UrlHost};

/// An origin of web pages.
pub(super) struct CorsOrigin(pub(super) OriginPattern);

impl FromNode for UrlHost {
    const TYPE_NAME: &'static str = "the name of a host";

    fn example() -> String {
        "\"mcp.example.com\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"^[^/?#@\\*]+$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let written = node.string::<Self>()?;
        if let Ok(host) = written.parse() {
            return Some(host);
        }
        let help = format!(
            "write what stands between `//` and the port in the URL that clients are given: {}",
            node.assignment_hint(&Self::example())
        );
        node.report_error(format!("{} is neither the name nor the address of a host", quote(written)), help);
        None
    }
}

written_as! {
    CorsOrigin as OriginPattern, such as "\"https://app.example.com\"", |node| {
        if node.value.as_str() == Some("*") {
            let help = format!("name the origins of the pages: {}", node.assignment_hint(&Self::example()));
            node.report_error("`*` would allow every web page that is opened on this machine to read everything", help);
            return None;
        }
        let error = match node.string::<Self>()?.parse() {
            Ok(origin) => return Some(Self(origin)),
            Err(error) => error,
        };
        let help = format!(
            "write scheme and host as browsers send them in `Origin`, and the port if it is not the usual one: {}",
            node.assignment_hint(&Self::example())
        );
        let problem = Diagnostic::new(OriginError::to_string(&error), help).at(node.span.clone());
        // The text before an `@` is often a password.
        node.context.report(if matches!(error, OriginError::UserInfo) { problem.redacted() } else { problem });
        None
    }
}
