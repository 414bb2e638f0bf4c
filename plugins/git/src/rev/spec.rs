//! The syntax of revisions: a name, followed by operators (`gitrevisions`).
//!
//! | operator | meaning |
//! |---|---|
//! | `~`, `~2` | the first parent, the first parent's first parent |
//! | `^`, `^2`, `^0` | the first parent, the second parent, the commit itself |
//! | `^{}` | the object that a tag points to |
//! | `^{commit}`, `^{tree}`, `^{blob}`, `^{tag}`, `^{object}` | the object of that kind to which it peels |
//!
//! A ref's name cannot contain any of these characters. `@` alone is `HEAD`. Operators that need the reflog or search
//! messages are refused, with the reason.

use crate::error::{Error, Result};
use bstr::{BStr, ByteSlice};
use gix_object::Kind;

/// The maximum number of operators in a revision.
const MAX_OPERATORS: usize = 64;

/// The maximum number of generations.
const MAX_GENERATIONS: usize = 1_000_000;

/// A parsed revision.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RevSpec<'s> {
    /// The id, or the name of a ref.
    pub(crate) name: &'s BStr,
    /// The operators, applied from left to right.
    pub(crate) operators: Vec<Operator>,
}

/// An operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    /// `~n`
    Ancestor(usize),
    /// `^n`
    Parent(usize),
    /// `^{}`, and `^{kind}`
    Peel(Option<Kind>),
    /// `^{object}`
    Exists,
}

impl<'s> RevSpec<'s> {
    /// Parses a revision.
    pub(crate) fn parse(rev: &'s BStr) -> Result<Self> {
        let refused = |why: &str| Err(Error::Invalid(format!("the revision {:?}: {why}", rev.to_str_lossy())));
        if rev.contains_str("@{") {
            return refused(
                "the reflog is not served, because it is private to a clone; use a commit's id from `log/{rev}`",
            );
        }
        if rev.starts_with(b"^") {
            return refused("expected the name of a revision before `^`");
        }
        if rev.contains(&b':') {
            return refused("expected no `:`; a file is at blob/{rev}/{path}, and messages are not searched");
        }
        let end = rev.find_byteset(b"~^").unwrap_or(rev.len());
        let (name, mut rest) = rev.split_at_checked(end).unwrap_or_default();
        let mut operators = Vec::new();
        while let Some((sign, after)) = rest.split_first() {
            if operators.len() >= MAX_OPERATORS {
                return refused("expected fewer operators");
            }
            let (operator, after) = match (sign, after.strip_prefix(b"{")) {
                (b'^', Some(braced)) => match braced.split_once_str("}") {
                    Some((kind, after)) => (kind_operator(kind), after),
                    None => return refused("expected `}` after `^{`"),
                },
                (b'^' | b'~', None) => {
                    let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    let (number, after) = after.split_at_checked(digits).unwrap_or_default();
                    let number = if digits == 0 { Some(1) } else { number.to_str().ok().and_then(|n| n.parse().ok()) };
                    let number = number.filter(|number| *number <= MAX_GENERATIONS);
                    let operator = if *sign == b'~' { Operator::Ancestor } else { Operator::Parent };
                    (number.map(operator), after)
                }
                _ => (None, after),
            };
            let Some(operator) = operator else {
                return refused(
                    "expected only the operators ~, ~n, ^, ^n, ^{}, ^{commit}, ^{tree}, ^{blob}, ^{tag} and ^{object}",
                );
            };
            operators.push(operator);
            rest = after;
        }
        let name = if name == b"@" { BStr::new("HEAD") } else { name.as_bstr() };
        Ok(Self { name, operators })
    }
}

fn kind_operator(kind: &[u8]) -> Option<Operator> {
    match kind {
        b"" => Some(Operator::Peel(None)),
        b"object" => Some(Operator::Exists),
        kind => Kind::from_bytes(kind).ok().map(|kind| Operator::Peel(Some(kind))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operators(rev: &str) -> Vec<Operator> {
        RevSpec::parse(rev.into()).unwrap().operators
    }

    #[test]
    fn operators_are_taken_apart_in_their_order() {
        use Operator::{Ancestor, Exists, Parent, Peel};
        assert_eq!(RevSpec::parse("feature/x~2".into()).unwrap().name, "feature/x");
        assert_eq!(RevSpec::parse("@^".into()).unwrap(), RevSpec { name: "HEAD".into(), operators: vec![Parent(1)] });
        assert_eq!(operators("main"), []);
        assert_eq!(operators("main~2^2~^0"), [Ancestor(2), Parent(2), Ancestor(1), Parent(0)]);
        assert_eq!(operators("v1^{}^{tree}^{object}"), [Peel(None), Peel(Some(Kind::Tree)), Exists]);
        assert_eq!(operators("main^^^"), [Parent(1); 3]);
    }

    #[test]
    fn what_is_not_served_is_refused_with_the_reason() {
        let refusal = |rev: &str| RevSpec::parse(rev.into()).unwrap_err().to_string();
        assert!(refusal("main@{yesterday}").contains("reflog"));
        assert!(refusal("@{u}").contains("reflog"));
        assert!(refusal("main:README.md").contains("blob/"));
        for rev in ["main^{/fix}", "main^!", "main^@", "main~x", "main^{", "main~99999999999999999999", "main~{2}"] {
            assert!(refusal(rev).contains("expected"), "{rev}");
        }
        assert!(refusal("^main").contains("before"));
        assert!(RevSpec::parse(format!("main{}", "^".repeat(65)).as_str().into()).is_err());
    }
}
