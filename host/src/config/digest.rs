//! `digest` of a `[[plugin]]`.

use super::error::Suggest;
use super::reader::{FromNode, Node, Schema};
use crate::digest::{Digest, DigestError, PREFIX};

impl Suggest for DigestError {
    fn suggestion(&self, key: &str) -> String {
        let copy = "copy the digest that `mcp-host inspect FILE.wasm` prints";
        match self {
            Self::NoPrefix(text) if format!("{PREFIX}{text}").parse::<Digest>().is_ok() => {
                format!("write `{key} = \"{PREFIX}{text}\"`")
            }
            _ => format!("{copy}: `{key} = \"{PREFIX}…\"`"),
        }
    }
}

impl FromNode for Digest {
    const TYPE_NAME: &'static str = "a digest";

    fn example() -> String {
        format!("\"{PREFIX}…\"")
    }

    fn schema() -> Schema {
        Schema::pattern(&format!("^{PREFIX}[0-9a-fA-F]{{64}}$"))
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_without_the_prefix_are_put_right() {
        let digits = Digest::compute(b"").digits();
        let advice = digits.parse::<Digest>().unwrap_err().suggestion("digest");
        assert_eq!(advice, format!("write `digest = \"sha256:{digits}\"`"));
    }
}
