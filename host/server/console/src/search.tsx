// Search in the texts of the resources that one principal sees.

import { useEffect, useState } from "preact/hooks";
import { post } from "./api";
import { iri } from "./iri";
import { number, t } from "./language";
import { lineRange, Problem } from "./parts";
import { as, type Found, type Viewer } from "./types";

interface Props {
  viewer: Viewer | null;
  select: (uri: string) => void;
  /** What is searched at once; nothing if empty. */
  words: string;
}

export function Search({ viewer, select, words }: Props) {
  const [query, setQuery] = useState(words);
  const [language, setLanguage] = useState("");
  const [kind, setKind] = useState("");
  const [found, setFound] = useState<Found | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const search = async () => {
    setError(null);
    try {
      setFound(await post<Found>("browse/search", { ...as(viewer), query, language: language.trim() || null, kind: kind || null }));
    } catch (error) {
      setFound(null);
      setError(error as Error);
    }
  };
  useEffect(() => {
    if (words !== "") {
      void search();
    }
  }, [words]);
  return (
    <>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          void search();
        }}
      >
        <label>
          {t("Words", "語句")}
          <input type="search" required value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
        </label>
        <label>
          {t("Type", "種類")}
          <input value={kind} placeholder="text/markdown" onInput={(event) => setKind(event.currentTarget.value.trim())} />
        </label>
        <label>
          {t("Language", "言語")}
          <input value={language} placeholder="en" size={6} onInput={(event) => setLanguage(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary">{t("Search", "検索")}</button>
      </form>
      <Problem error={error} />
      {found ? (
        <>
          <p class="muted" role="status">
            {t(`${number(found.total)} found`, `${number(found.total)} 件`)}
            {found.hits.length < found.total ? t(`, the best ${found.hits.length} are shown`, `（上位 ${found.hits.length} 件を表示）`) : ""}
            {found.partial ? t("; there may be more", "。ほかにもある可能性があります") : ""}
            {found.incomplete.length > 0 ? t(`; not completely indexed: ${found.incomplete.join(", ")}`, `。索引が未完: ${found.incomplete.join(", ")}`) : ""}
          </p>
          <ol class="hits">
            {found.hits.map(({ resource, snippet, lines }) => (
              <li key={resource.uri}>
                <button type="button" class="link" onClick={() => select(resource.uri)}>{resource.title ?? resource.name}</button>{" "}
                <span class="muted block uri">{iri(resource.uri)}{lines ? ` (${lineRange(lines)})` : ""}</span>
                {resource.notices.map((notice) => <p class="problem" key={notice}>{notice}</p>)}
                <p class="snippet">{snippet.map(({ text, matches }, at) => (matches ? <mark key={at}>{text}</mark> : text))}</p>
              </li>
            ))}
          </ol>
        </>
      ) : null}
    </>
  );
}
