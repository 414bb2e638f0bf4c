// What a content is shown as, by its MIME type and its name.

export type Kind = { show: "markdown" } | { show: "source"; language: string | null } | { show: "json" } | { show: "table" } | { show: "image"; type: string } | { show: "binary" };

const IMAGES = /^image\/(png|jpeg|gif|webp|avif|bmp)$/;

const BY_TYPE: Record<string, string> = {
  "application/javascript": "javascript",
  "application/sql": "sql",
  "application/toml": "ini",
  "application/xml": "xml",
  "application/yaml": "yaml",
  "image/svg+xml": "xml",
  "text/css": "css",
  "text/html": "xml",
  "text/javascript": "javascript",
  "text/x-c": "c",
  "text/x-diff": "diff",
  "text/x-go": "go",
  "text/x-java": "java",
  "text/x-python": "python",
  "text/x-rust": "rust",
  "text/x-sh": "bash",
  "text/xml": "xml",
};

const BY_ENDING: Record<string, string> = {
  c: "c", h: "c", css: "css", diff: "diff", patch: "diff", go: "go", html: "xml", svg: "xml", xml: "xml", ini: "ini", toml: "ini",
  java: "java", js: "javascript", mjs: "javascript", jsx: "javascript", ts: "typescript", tsx: "typescript", py: "python", rs: "rust",
  sh: "bash", sql: "sql", yaml: "yaml", yml: "yaml",
};

export function kindOf(mimeType: string | null, uri: string, isText: boolean): Kind {
  const type = (mimeType ?? "").split(";")[0]!.trim().toLowerCase();
  const ending = /\.([a-z0-9]+)$/i.exec(uri.split(/[?#]/)[0]!)?.[1]?.toLowerCase() ?? "";
  if (!isText) {
    return IMAGES.test(type) ? { show: "image", type } : { show: "binary" };
  }
  if (type === "text/markdown" || (type === "" && ending === "md")) {
    return { show: "markdown" };
  }
  if (type === "application/json" || type.endsWith("+json")) {
    return { show: "json" };
  }
  if (type === "text/csv" || type === "text/tab-separated-values") {
    return { show: "table" };
  }
  return { show: "source", language: BY_TYPE[type] ?? BY_ENDING[ending] ?? null };
}
