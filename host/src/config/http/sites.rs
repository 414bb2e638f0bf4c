//! Whom the checks of `Host` and `Origin` let in beside this machine: `hosts` and `cors` of `[http]`.

use crate::config::error::{Problem, quote};
use crate::config::grants::{Host, OriginError, OriginPattern};
use crate::config::reader::{FromNode, Node};

/// The web pages that may ask, by their origins.
pub(super) struct Pages(pub(super) Vec<OriginPattern>);

/// One of them.
struct Page(OriginPattern);

impl FromNode for Host {
    const WHAT: &'static str = "the name of a host";

    fn example() -> String {
        "\"mcp.example.com\"".into()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let written = node.string::<Self>()?;
        if let Ok(host) = written.parse() {
            return Some(host);
        }
        let help = format!(
            "write what stands between `//` and the port in the URL that clients are given: {}",
            node.assign(&Self::example())
        );
        node.problem(format!("{} is neither the name nor the address of a host", quote(written)), help);
        None
    }
}

impl FromNode for Pages {
    const WHAT: &'static str = "a list of origins";

    fn example() -> String {
        format!("[{}]", Page::example())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let pages: Vec<Page> = Vec::from_node(node)?;
        Some(Self(pages.into_iter().map(|Page(page)| page).collect()))
    }
}

impl FromNode for Page {
    const WHAT: &'static str = "an origin";

    fn example() -> String {
        "\"https://app.example.com\"".into()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        if node.value.as_str() == Some("*") {
            let help = format!("name the origins of the pages: {}", node.assign(&Self::example()));
            node.problem("`*` would let every page that somebody opens here read everything", help);
            return None;
        }
        let error = match node.string::<Self>()?.parse() {
            Ok(origin) => return Some(Self(origin)),
            Err(error) => error,
        };
        let help = format!(
            "write scheme and host as browsers send them in `Origin`, and the port if it is not the usual one: {}",
            node.assign(&Self::example())
        );
        let problem = Problem::new(OriginError::to_string(&error), help).at(node.span.clone());
        // What stands in front of an `@` is a password as often as not.
        node.scope.report(if matches!(error, OriginError::UserInfo) { problem.unseen() } else { problem });
        None
    }
}
