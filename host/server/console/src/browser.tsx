// What one principal sees: the tree, the search and the templates beside the preview of a resource.

import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { parseTemplate } from "url-template";
import { ApiError, post } from "./api";
import { Catalog, type Filters, hasFilters, NO_FILTERS } from "./catalog";
import { ContentView } from "./contents";
import { number, size, t, time } from "./language";
import { Copy, Facts, Problem, usePoll, Waiting } from "./parts";
import { Tree } from "./tree";
import { as, type Content, type Found, type Page, type PluginStatus, type Subscriptions, type Template, viewKey, type Viewer } from "./types";
import { Updates, useWatch } from "./watch";

interface Props {
  viewer: Viewer | null;
  selected: string | null;
  select: (uri: string | null) => void;
}

type Part = "tree" | "search" | "templates";

export function Browser({ viewer, selected, select }: Props) {
  const [part, setPart] = useState<Part>("tree");
  const [open, setOpen] = useState<string[]>([]);
  const updates = useMemo(() => new Updates(), []);
  const isLive = useWatch(viewer, [...(selected ? [selected] : []), ...open], true, updates);
  const parts: [Part, string][] = [
    ["tree", t("Tree", "ツリー")],
    ["search", t("Search", "検索")],
    ["templates", t("Templates", "テンプレート")],
  ];
  return (
    <div class="browser">
      <section aria-label={t("Choice of a resource", "リソースの選択")}>
        <div class="buttons">
          {parts.map(([name, label]) => (
            <button type="button" key={name} aria-pressed={part === name} onClick={() => setPart(name)}>{label}</button>
          ))}
        </div>
        <div hidden={part !== "tree"}><Explorer viewer={viewer} selected={selected} select={select} updates={updates} opened={setOpen} /></div>
        {part === "search" ? <Search viewer={viewer} select={select} /> : null}
        {part === "templates" ? <Templates viewer={viewer} select={select} /> : null}
      </section>
      <section aria-label={t("Preview", "プレビュー")} class="preview">
        {selected ? (
          <Preview key={selected} viewer={viewer} uri={selected} open={select} updates={updates} isLive={isLive} />
        ) : (
          <p class="muted">{t("Choose a resource.", "リソースを選んでください。")}</p>
        )}
      </section>
    </div>
  );
}

interface ExplorerProps extends Props {
  updates: Updates;
  /** Called with the URIs of the open nodes when they change. */
  opened: (uris: string[]) => void;
}

function Explorer({ viewer, selected, select, updates, opened }: ExplorerProps) {
  const id = useId();
  const [version, setVersion] = useState(0);
  const [filters, setFilters] = useState<Filters>(NO_FILTERS);
  const watched = usePoll<Subscriptions>(viewer ? "subscriptions" : null, 2000);
  const plugins = usePoll<Page<PluginStatus>>(viewer ? "plugins" : null, 30_000);
  const badges = useMemo(
    () => new Map(watched.data?.resources.items.map(({ uri, subscribers }) => [uri, subscribers])),
    [watched.data],
  );
  const catalog = useMemo(() => new Catalog(viewer, () => setVersion((now) => now + 1)), [viewKey(viewer)]);
  useEffect(() => {
    void catalog.more(null);
    const ended = updates.listen((uri) => {
      if (uri === null) {
        void catalog.refresh(null);
      } else {
        catalog.refreshBelow(uri);
      }
    });
    return () => {
      ended();
      catalog.end();
    };
  }, [catalog, updates]);
  const open = catalog.openNodes().map(({ resource }) => resource.uri);
  useEffect(() => opened(open), [open.join("\n")]);
  const set = (changed: Partial<Filters>) => setFilters({ ...filters, ...changed });
  const loaded = catalog.root.nodes.length;
  return (
    <>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          {t("Filter by name", "名前で絞り込み")}
          <input type="search" value={filters.text} onInput={(event) => set({ text: event.currentTarget.value })} />
        </label>
        <details>
          <summary>{t("More filters", "その他の条件")}</summary>
          <div class="filters">
            <label>
              {t("Type", "種類")}
              <input value={filters.type} placeholder="text/" onInput={(event) => set({ type: event.currentTarget.value })} />
            </label>
            {plugins.data ? (
              <label>
                {t("Plugin", "プラグイン")}
                <select value={filters.mount} onChange={(event) => set({ mount: event.currentTarget.value })}>
                  <option value="">{t("any", "すべて")}</option>
                  {plugins.data.items.map(({ name, mount }) => <option key={name} value={mount}>{name}</option>)}
                </select>
              </label>
            ) : null}
            <label>
              {t("Audience", "対象")}
              <select value={filters.audience} onChange={(event) => set({ audience: event.currentTarget.value })}>
                <option value="">{t("everyone", "すべて")}</option>
                <option value="user">user</option>
                <option value="assistant">assistant</option>
              </select>
            </label>
            <label>
              {t("Priority at least", "優先度の下限")}
              <input type="number" min={0} max={1} step={0.1} value={filters.priority} onInput={(event) => set({ priority: event.currentTarget.valueAsNumber || 0 })} />
            </label>
            <label>
              {t("Changed since", "更新日")}
              <input type="date" value={filters.since} onInput={(event) => set({ since: event.currentTarget.value })} />
            </label>
          </div>
        </details>
      </form>
      {catalog.missing.map(({ plugin, reason }) => (
        <p class="problem" key={plugin}>{t(`Missing: ${plugin}: ${reason}`, `表示できません: ${plugin}: ${reason}`)}</p>
      ))}
      <Tree id={id} catalog={catalog} version={version} filters={filters} selected={selected} watched={badges} select={select} />
      <p class="muted" role="status">
        {t(`${number(loaded)} loaded`, `${number(loaded)} 件を読み込み済み`)}
        {catalog.root.isComplete && !catalog.root.error ? t(", all", "（すべて）") : ""}
        {hasFilters(filters) && catalog.root.isComplete ? t(`, ${number(catalog.rows(filters).length)} match`, `、${number(catalog.rows(filters).length)} 件が該当`) : ""}
      </p>
    </>
  );
}

function Search({ viewer, select }: { viewer: Viewer | null; select: (uri: string) => void }) {
  const [query, setQuery] = useState("");
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
                <span class="muted block uri">{resource.uri}{lines ? ` (${lines[0]}–${lines[1]})` : ""}</span>
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

function Templates({ viewer, select }: { viewer: Viewer | null; select: (uri: string) => void }) {
  const [templates, setTemplates] = useState<Template[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    const ending = new AbortController();
    const load = async () => {
      const all: Template[] = [];
      let cursor: string | null = null;
      do {
        const page: { items: Template[]; next: string | null } = await post("browse/templates", { ...as(viewer), cursor }, ending.signal);
        all.push(...page.items);
        cursor = page.next;
      } while (cursor);
      setTemplates(all);
    };
    load().catch((error) => ending.signal.aborted || setError(error));
    return () => ending.abort();
  }, [viewKey(viewer)]);
  if (!templates) {
    return error ? <Problem error={error} /> : <Waiting />;
  }
  if (templates.length === 0) {
    return <p class="muted">{t("There are no templates.", "テンプレートはありません。")}</p>;
  }
  return (
    <>
      {templates.map((template) => (
        <TemplateForm key={template.template} viewer={viewer} template={template} select={select} />
      ))}
    </>
  );
}

function TemplateForm({ viewer, template, select }: { viewer: Viewer | null; template: Template; select: (uri: string) => void }) {
  const id = useId();
  const [values, setValues] = useState<Record<string, string>>({});
  const [completions, setCompletions] = useState<Record<string, string[]>>({});
  const complete = async (variable: string, value: string) => {
    const known = Object.fromEntries(Object.entries(values).filter(([name, text]) => name !== variable && text !== ""));
    try {
      const found = await post<{ values: string[] }>("browse/complete", { ...as(viewer), template: template.template, variable, value, known });
      setCompletions((now) => ({ ...now, [variable]: found.values }));
    } catch {
      // Without completions the form works.
    }
  };
  return (
    <form
      class="template"
      onSubmit={(event) => {
        event.preventDefault();
        select(parseTemplate(template.template).expand(values));
      }}
    >
      <h3>{template.title ?? template.name}</h3>
      <p class="muted uri">{template.template}</p>
      {template.description ? <p>{template.description}</p> : null}
      <div class="filters">
        {template.variables.map((variable) => (
          <label key={variable}>
            {variable}
            <input
              list={`${id}-${variable}`}
              value={values[variable] ?? ""}
              onFocus={() => void complete(variable, values[variable] ?? "")}
              onInput={(event) => {
                const value = event.currentTarget.value;
                setValues({ ...values, [variable]: value });
                void complete(variable, value);
              }}
            />
            <datalist id={`${id}-${variable}`}>
              {completions[variable]?.map((value) => <option key={value} value={value} />)}
            </datalist>
          </label>
        ))}
        <button type="submit">{t("Read", "読む")}</button>
      </div>
    </form>
  );
}

/** A text as one word of a shell. */
function word(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

interface PreviewProps {
  viewer: Viewer | null;
  uri: string;
  open: (uri: string) => void;
  updates: Updates;
  /** Whether changes are pushed. */
  isLive: boolean;
}

/** What was read of a resource. */
interface Reading {
  contents: Content[];
  left_out: number;
}

function Preview({ viewer, uri, open, updates, isLive }: PreviewProps) {
  const [read, setRead] = useState<Reading | null>(null);
  const [changed, setChanged] = useState<Date | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const again = useRef(() => {});
  useEffect(() => {
    let ending = new AbortController();
    let shown: string | null = null;
    let hasFailed = false;
    const load = () => {
      ending.abort();
      ending = new AbortController();
      const { signal } = ending;
      post<Reading>("browse/read", { ...as(viewer), uri }, signal).then(
        (found) => {
          const text = JSON.stringify(found);
          // What is the same stays as it is, with its selection and its place.
          if (text !== shown) {
            setRead(found);
            setChanged(shown === null ? null : new Date());
            shown = text;
          }
          hasFailed = false;
          setError(null);
        },
        (error) => {
          if (signal.aborted) {
            return;
          }
          // Without an answer what is shown may still be right.
          if (!(error instanceof ApiError && error.status === 0)) {
            setRead(null);
            shown = null;
          }
          hasFailed = true;
          setError(error);
        },
      );
    };
    again.current = load;
    load();
    const ended = updates.listen((told) => {
      if (told === uri || (told === null && hasFailed)) {
        load();
      }
    });
    return () => {
      ended();
      ending.abort();
    };
  }, [uri, viewKey(viewer), updates]);
  const contents = read?.contents ?? null;
  const leftOut = read?.left_out ?? 0;
  const options = viewer ? `--as ${word(viewer.principal)}${viewer.groups.map((group) => ` --group ${word(group)}`).join("")}` : "";
  const body = JSON.stringify({ uri, ...as(viewer) });
  const own = contents?.find(({ resource }) => resource.uri === uri)?.resource ?? contents?.[0]?.resource;
  return (
    <>
      <h2 class="uri">{uri}</h2>
      <div class="buttons">
        <Copy text={uri} label={t("Copy the URI", "URI をコピー")} />
        <Copy
          text={`curl --header "Authorization: Bearer $(cat ${viewer ? "admin.token" : "token"})" --json ${word(body)} ${location.origin}/api/v1/browse/read`}
          label={t("Copy for curl", "curl 用にコピー")}
        />
        <Copy text={`await client.readResource({ uri: ${JSON.stringify(uri)} });`} label={t("Copy for a client", "クライアント用にコピー")} />
        {viewer ? <Copy text={`mcp-host explain ${options} ${word(uri)}`} label={t("Copy explain", "explain をコピー")} /> : null}
        <button type="button" class="small" onClick={() => again.current()}>{t("Read again", "読み直す")}</button>
        <span class="muted" role="status">
          {!isLive ? "" : changed ? t(`Changed at ${time(changed.toISOString(), false)}.`, `${time(changed.toISOString(), false)} に更新されました。`) : own?.subscribable ? t("Changes appear by themselves.", "変更は自動的に反映されます。") : ""}
        </span>
      </div>
      {own ? (
        <Facts
          of={[
            [t("Type", "種類"), own.mime_type ?? "–"],
            [t("Size", "サイズ"), own.size === null ? "–" : size(own.size)],
            [t("Changed", "更新"), own.modified ? time(own.modified) : "–"],
            [t("Audience", "対象"), own.audience.join(", ") || t("everyone", "すべて")],
            [t("Priority", "優先度"), own.priority === null ? "–" : number(own.priority, 2)],
          ]}
        />
      ) : null}
      {own?.description ? <p>{own.description}</p> : null}
      {error ? <Problem error={error} /> : contents === null ? <Waiting /> : null}
      {contents?.map((content, at) => (
        <div key={at}>
          {contents.length > 1 ? <h3 class="uri">{content.resource.uri}</h3> : null}
          {content.resource.notices.map((notice) => <p class="problem" key={notice}>{notice}</p>)}
          <ContentView content={content} open={open} />
        </div>
      ))}
      {contents && leftOut > 0 ? (
        <p class="problem">{t(`${number(leftOut)} more contents are left out; open them by their URIs.`, `ほかに ${number(leftOut)} 件の内容があります。URI で開いてください。`)}</p>
      ) : null}
    </>
  );
}
