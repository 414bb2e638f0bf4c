//! Advice for failures other than the usual one of a check ([`Check::advice`](super::Check::advice)).

pub(super) const DESCRIBE_NAME: &str =
    "give `describe` a name and a version of at most 1024 bytes, such as those of the package";
pub(super) const LOAD: &str = "fix what the message says; nothing else can be tested before";
/// The reason to skip checks of data that the test may not prepare.
pub(super) const MUST_BE_PREPARED: &str =
    "the provider has to be prepared; use --plugin NAME of a plugin with `limits.prepare`";
pub(super) const LISTING_REFUSED: &str = "answer `list-entries` without `parent` and `cursor` by the first page of the listing; an empty page is an \
    answer, too";
pub(super) const UNAVAILABLE: &str = "provide what the message names, by `--dir`, `--http`, `--keyvalue`, `--sql` and `--set`, or take the grants and the \
    config from a plugin by `--plugin NAME`; test again when its source of data can be reached";
pub(super) const UNAVAILABLE_PREPARED: &str = "fail with `unavailable` only for data that is not prepared yet: `prepare` has returned that everything is. Compare \
    what it stores with what this call expects, such as the fingerprint of the source";
pub(super) const LONG_CURSOR: &str =
    "put less into the cursor: where the next page begins, such as the last path, and not what was listed";
pub(super) const EMPTY_PAGES: &str =
    "continue to the next page that has entries before returning, or return the last page without `next-cursor`";
pub(super) const OTHER_NUMBER: &str =
    "list only existing resources, and no state of earlier calls: each call gets a fresh instance";
pub(super) const OTHER_METADATA: &str =
    "take the metadata from the data, such as a file's time, and not from the clock, a random number or a counter";
pub(super) const PAGED_DIFFERENTLY: &str =
    "make pages of one sorted listing: each page begins after the last path of the previous page, whatever `limit` is";
pub(super) const NO_CHILDREN_OF: &str = "fail with `not-found` for a parent that does not exist, and with `invalid-request` for one that is not \
    `listable`, before anything is listed";
pub(super) const LISTED_NOT_FOUND: &str = "find in `read` what `list-entries` lists: decode the path as it was encoded for the listing, or list the path \
    that `read` expects";
pub(super) const LISTED_INVALID: &str =
    "accept in `read` each form of path that `list-entries` lists: `invalid-request` is for paths of another form";
pub(super) const NO_CONTENTS: &str =
    "return one content, of an empty body if the resource is empty, or fail with `not-found`";
pub(super) const OTHER_PATH: &str = "return the contents with the path that was requested: a client has asked for that URI. Only a `listable` \
    entry may return contents of what is below it";
pub(super) const SAME_CONTENTS: &str = "return one content for each path and MIME type; several of one path are formats of the same resource, each with a type";
pub(super) const EMPTY_NAME: &str =
    "give each entry and template a name, such as the last segment of its path: clients show it";
pub(super) const STAT_NOT_FOUND: &str =
    "answer `stat` for each path that is listed or read, by the same look-up that `read` uses";
pub(super) const STAT_OF_TEMPLATE: &str = "answer `stat` for the paths that templates expand to as `read` does, with the path that was requested: a client \
    subscribes to it";
pub(super) const HAS_ANSWER: &str =
    "look the path up before answering: fail with `not-found` when there is no such resource, and make none up";
pub(super) const DUPLICATE_TEMPLATE: &str = "return each path template once";
pub(super) const INVALID_TEMPLATE: &str =
    "write a valid URI template (RFC 6570), such as `files/{+path}` or `search{?query}`, without the mount";
pub(super) const DUPLICATE_COMPLETION: &str = "return each value once, best first";
pub(super) const COMPLETION_TOTAL: &str =
    "leave out `total`, or count all values that match, also those that are not returned";
pub(super) const COMPLETION_UNKNOWN: &str =
    "compare the template and the variable with those of `list-templates`, and fail with `invalid-request` for others";
pub(super) const COMPLETION_REFUSED: &str =
    "complete each variable of each template, by an empty list if nothing is known";
pub(super) const LONG_TOKEN: &str = "put a digest of the state into the token, and not the state itself";
pub(super) const SAME_TOKEN: &str =
    "compute the answer from the token and the data alone: two polls with one token have one answer";
pub(super) const CHANGES_REFUSED: &str =
    "answer `changes` also without a token, by the token to start from and no change";
pub(super) const EDIT_FAILED: &str = "correct the command of `--edit`; nothing is wrong with the provider";
pub(super) const ICON: &str =
    "use an `https:` or `data:` URI, and sizes such as `48x48` or `any`, or leave the icon out";
pub(super) const TIMESTAMP: &str = "write times as RFC 3339 has them, in UTC, such as `2025-01-12T15:00:58Z`";
pub(super) const MIME_TYPE: &str = "write a MIME type as `type/subtype`, such as `text/markdown`, or leave it out";
pub(super) const META: &str =
    "return the text of a JSON object, whose names do not begin with `mcp-host/`; the host drops others";
pub(super) const PATH_ENCODING: &str = "percent-encode each segment of a path by the function of the SDK; begin with no `/`, use no `.` and `..` \
    segments, and put no mount in front";
pub(super) const TIME_LIMIT: &str = "do less in one call: answer smaller pages, keep an index in a bucket or a directory, or ask the administrator for \
    a higher `limits.cpu` or `limits.deadline`. `mcp-host read --timing` and `--profile` say what takes the time";
pub(super) const MEMORY_LIMIT: &str = "read in parts instead of as a whole, or ask the administrator for a higher `limits.memory`. `mcp-host read \
    --timing` says how much it takes";
pub(super) const SIZE_LIMIT: &str =
    "answer in smaller pages and resources, or ask the administrator for a higher limit of that name";
pub(super) const HANDLE_LIMIT: &str = "close files, streams and responses before others are opened, or ask the administrator for a higher `limits.handles`";
pub(super) const RATE_LIMIT: &str = "test with `--plugin` and a higher `limits.rate`";
