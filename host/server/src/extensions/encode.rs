//! The objects of [`wire`] with the members that SEP-2093 adds. The members of `wire` are encoded by its functions, so
//! both are equal member for member.

use std::time::Duration;

use mcp_host_config::Operation;
use mcp_host_model::resource::{Listing, Resource, ResourceBody, ResourceCapabilities, ResourceContents};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use mcp_resource_host::skills::Skill;
use serde_json::Value;

use crate::json::{Encoder, Members, Writer};
use crate::revision::Revision;
use crate::wire::{self, CacheHints, Precision};

/// Encodes the result of one request.
pub(super) struct ResultEncoder<'a> {
    pub(super) host: &'a Host,
    pub(super) principal: &'a Principal,
    pub(super) revision: Revision,
    /// Whether resources have the member `capabilities`.
    pub(super) with_capabilities: bool,
}

/// An entry, and its capabilities if they have to be encoded.
type EntryWithCapabilities = (Resource, Option<ResourceCapabilities>);

impl ResultEncoder<'_> {
    /// Encodes the result of a method that lists resources. `is_first`: whether the request had no cursor.
    pub(super) fn list_result(&self, listing: Listing<Resource>, is_first: bool) -> Encoder {
        let ttl = Some(Resource::min_ttl(listing.items.iter()));
        let mut caching = self.cache_hints(wire::listing_ttl(&listing, ttl), Operation::List);
        caching.is_public &= is_first;
        let entries: Vec<EntryWithCapabilities> = listing.items.into_iter().map(|entry| self.describe(entry)).collect();
        let revision = self.revision;
        Encoder::new(move |writer| {
            writer.object(|members| {
                wire::page_members(members, listing.next_cursor, &listing.missing, revision, caching);
                let write = move |writer: &mut Writer<'_>, shown| resource(writer, shown, None, revision);
                members.member("resources").array(entries, write);
            });
        })
    }

    /// Encodes the result of `resources/read`: each content has the members of its resource.
    /// `is_public`: whether the rules give every principal the same contents.
    pub(super) fn read_result(&self, contents: Vec<ResourceContents>, is_public: bool) -> Encoder {
        let mut caching = self.cache_hints(Resource::min_ttl(contents.iter().map(|one| &one.entry)), Operation::Read);
        caching.is_public &= is_public;
        let contents: Vec<(EntryWithCapabilities, ResourceBody)> =
            contents.into_iter().map(|one| self.describe_contents(one)).collect();
        let revision = self.revision;
        Encoder::new(move |writer| {
            writer.object(|members| {
                result_members(members, revision, caching);
                let write = move |writer: &mut Writer<'_>, (shown, body)| resource(writer, shown, Some(body), revision);
                members.member("contents").array(contents, write);
            });
        })
    }

    /// Encodes the result of `resources/metadata`.
    pub(super) fn metadata_result(&self, entry: Resource) -> Encoder {
        let caching = self.cache_hints(entry.ttl.unwrap_or_default(), Operation::Metadata);
        let (shown, revision) = (self.describe(entry), self.revision);
        Encoder::new(move |writer| {
            writer.object(|members| {
                result_members(members, revision, caching);
                resource(members.member("resource"), shown, None, revision);
            });
        })
    }

    /// Encodes the result of `skills/list`. `is_first`: whether the request had no cursor.
    pub(super) fn skills_result(&self, listing: Listing<Skill>, is_first: bool) -> Encoder {
        let ttl = wire::listing_ttl(&listing, listing.items.iter().map(|skill| skill.ttl).min());
        let caching = CacheHints { ttl, is_public: is_first && self.are_skills_public() };
        let revision = self.revision;
        Encoder::new(move |writer| {
            writer.object(|members| {
                wire::page_members(members, listing.next_cursor, &listing.missing, revision, caching);
                members.member("skills").array(listing.items, skill);
            });
        })
    }

    /// Encodes the result of `skills/get`.
    pub(super) fn skill_result(&self, found: Skill) -> Encoder {
        let caching = CacheHints { ttl: found.ttl, is_public: self.are_skills_public() };
        let revision = self.revision;
        Encoder::new(move |writer| {
            writer.object(|members| {
                result_members(members, revision, caching);
                skill(members.member("skill"), found);
            });
        })
    }

    /// Returns whether the rules give every principal the same skills.
    fn are_skills_public(&self) -> bool {
        [Operation::List, Operation::Read].into_iter().all(|operation| self.host.is_public(operation))
    }

    fn describe(&self, entry: Resource) -> EntryWithCapabilities {
        let abilities = self.with_capabilities.then(|| self.host.capabilities(self.principal, &entry));
        (entry, abilities)
    }

    fn describe_contents(&self, contents: ResourceContents) -> (EntryWithCapabilities, ResourceBody) {
        let ResourceContents { mut entry, body } = contents;
        // The size of this content may differ from the provider's size of the resource.
        entry.size = u64::try_from(body.as_bytes().len()).ok();
        (self.describe(entry), body)
    }

    fn cache_hints(&self, ttl: Duration, operation: Operation) -> CacheHints {
        CacheHints { ttl, is_public: self.is_public(operation) }
    }

    /// Returns whether the rules give every principal the same objects in this operation.
    fn is_public(&self, operation: Operation) -> bool {
        // The capabilities of a resource depend on the rules for other operations.
        let others = [Operation::List, Operation::Subscribe, Operation::Read];
        let others = others.into_iter().filter(|_| self.with_capabilities);
        others.chain([operation]).all(|operation| self.host.is_public(operation))
    }
}

/// Encodes a skill: its manifest, its front matter, and its files with their digests and sizes.
fn skill(writer: &mut Writer<'_>, skill: Skill) {
    writer.object(|members| {
        members.text("uri", skill.uri);
        members.member("frontmatter").value(Value::Object(skill.front_matter));
        members.member("resources").array(skill.files, |writer, file| {
            writer.object(|members| {
                members.text("uri", file.uri);
                members.text("digest", file.digest);
                members.serialize("size", &file.size);
            });
        });
    });
}

/// Encodes a resource, with its content if there is one.
fn resource(
    writer: &mut Writer<'_>,
    (entry, abilities): EntryWithCapabilities,
    body: Option<ResourceBody>,
    revision: Revision,
) {
    writer.object(|members| {
        wire::resource_members(members, entry, revision, Precision::Double);
        if let Some(ResourceCapabilities { list, subscribe }) = abilities {
            members.member("capabilities").object(|members| {
                members.serialize("list", &list);
                members.serialize("subscribe", &subscribe);
            });
        }
        if let Some(body) = body {
            wire::body(members, body);
        }
    });
}

/// Encodes the first members of a result that is not a page.
fn result_members(members: &mut Members<'_, '_>, revision: Revision, caching: CacheHints) {
    wire::result_type(members, revision);
    wire::cache_hints(members, revision, caching);
}
