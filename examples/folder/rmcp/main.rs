//! The same folder as a server of rmcp, to compare: without completion, updates and a sandbox.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::{
    ErrorCode, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::io::stdio_pipes;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};

const MOUNT: &str = "folder:///";
const PAGE_SIZE: usize = 100;

struct Folder {
    dir: PathBuf,
}

impl Folder {
    /// The file of an encoded name: not a hidden one, and none outside of the folder.
    fn find(&self, segment: &str) -> Result<PathBuf, ErrorData> {
        let name = percent_decode_str(segment).decode_utf8().map_err(|_| not_found())?;
        let file = self.dir.join(&*name);
        let is_name = !name.starts_with('.') && !name.contains('/') && file.is_file();
        is_name.then_some(file).ok_or_else(not_found)
    }

    fn names(&self) -> std::io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.dir)?.collect::<Result<Vec<_>, _>>()?;
        let names = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> = names.filter(|name| !name.starts_with('.') && self.dir.join(name).is_file()).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn contents(&self, uri: &str) -> Result<ResourceContents, ErrorData> {
        let path = uri.strip_prefix(MOUNT).ok_or_else(not_found)?;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (segment, is_first) = path.strip_prefix("first/").map_or((path, false), |segment| (segment, true));
        let file = self.find(segment)?;
        let bytes = std::fs::read(&file).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let mime_type = mime_type(&file);
        if is_first {
            let lines = query.strip_prefix("lines=").unwrap_or("10").parse();
            let lines = lines.map_err(|_| ErrorData::invalid_params("`lines` must be an integer", None))?;
            let text = String::from_utf8_lossy(&bytes).split_inclusive('\n').take(lines).collect();
            let mime_type = Some("text/plain".to_owned());
            return Ok(ResourceContents::TextResourceContents { uri: uri.to_owned(), mime_type, text, meta: None });
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) => ResourceContents::TextResourceContents { uri: uri.to_owned(), mime_type, text, meta: None },
            Err(error) => {
                let blob = STANDARD.encode(error.into_bytes());
                ResourceContents::BlobResourceContents { uri: uri.to_owned(), mime_type, blob, meta: None }
            }
        })
    }
}

fn mime_type(file: &Path) -> Option<String> {
    let kind = match file.extension()?.to_str()? {
        "html" => "text/html",
        "json" => "application/json",
        "md" => "text/markdown",
        "png" => "image/png",
        "txt" => "text/plain",
        _ => return None,
    };
    Some(kind.to_owned())
}

fn not_found() -> ErrorData {
    ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, "not found", None)
}

impl ServerHandler for Folder {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_resources().build())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let names = self.names().map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let cursor = request.and_then(|request| request.cursor).unwrap_or_default();
        let mut rest: Vec<_> = names.into_iter().filter(|name| *name > cursor).collect();
        let has_more = rest.len() > PAGE_SIZE;
        rest.truncate(PAGE_SIZE);
        let next_cursor = rest.last().filter(|_| has_more).cloned();
        let resources = rest.iter().map(|name| {
            let mut resource = Resource::new(format!("{MOUNT}{}", utf8_percent_encode(name, NON_ALPHANUMERIC)), name);
            resource.mime_type = mime_type(Path::new(name));
            resource.size = self.dir.join(name).metadata().ok().map(|found| found.len());
            resource
        });
        let mut page = ListResourcesResult::with_all_items(resources.collect());
        page.next_cursor = next_cursor;
        Ok(page)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = [("{name}", "file"), ("first/{name}{?lines}", "first-lines")];
        let templates = templates.map(|(template, name)| ResourceTemplate::new(format!("{MOUNT}{template}"), name));
        Ok(ListResourceTemplatesResult::with_all_items(templates.into()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(ReadResourceResult::new(vec![self.contents(&request.uri)?]).into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder { dir: std::env::args_os().nth(1).map_or_else(|| "data".into(), PathBuf::from) };
    folder.serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_and_read() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("a b.md", "1\n2\n"), (".hidden", "")] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let folder = Folder { dir: dir.path().to_owned() };
        assert_eq!(folder.names().unwrap(), ["a b.md"]);
        let read = folder.contents("folder:///first/a%20b.md?lines=1").unwrap();
        assert!(matches!(read, ResourceContents::TextResourceContents { text, .. } if text == "1\n"));
        for path in ["missing", ".hidden", "..%2Fa", "first/missing"] {
            assert!(folder.contents(&format!("folder:///{path}")).is_err(), "{path}");
        }
    }
}
