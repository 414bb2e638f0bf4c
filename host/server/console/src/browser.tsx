// What one principal sees: the tree, the search and the templates beside the preview of a resource.

import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, post } from "./api";
import { Catalog, matching } from "./catalog";
import { ContentView } from "./contents";
import { type Filters, hasFilters, NO_FILTERS } from "./filters";
import { iri } from "./iri";
import { languageName, number, size, t, time } from "./language";
import { Message } from "./message";
import { Copy, Facts, link, Problem, usePoll, Waiting } from "./parts";
import { said } from "./reasons";
import { Search } from "./search";
import { Templates } from "./templates";
import { Tree } from "./tree";
import { Who } from "./who";
import { as, type ConfigView, type Content, type Page, type PluginStatus, type Subscriptions, viewKey, type Viewer } from "./types";
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
  const [words, setWords] = useState("");
  const updates = useMemo(() => new Updates(), []);
  // Of users there is none. Only the preview needs it.
  const config = usePoll<ConfigView>(viewer && selected ? "config" : null, 60_000).data;
  const isLive = useWatch(viewer, [...(selected ? [selected] : []), ...open], true, updates);
  const choice = useRef<HTMLElement>(null);
  const preview = useRef<HTMLElement>(null);
  const wasSelected = useRef(selected);
  useEffect(() => {
    // On a narrow screen it is below the list, out of sight.
    if (selected && selected !== wasSelected.current && !matchMedia("(min-width: 900px)").matches) {
      preview.current?.scrollIntoView();
    }
    wasSelected.current = selected;
  }, [selected]);
  const parts: [Part, string][] = [
    ["tree", t("Tree", "ツリー")],
    ["search", t("Search", "検索")],
    ["templates", t("Templates", "テンプレート")],
  ];
  return (
    <div class="browser">
      <section ref={choice} aria-label={t("Choice of a resource", "リソースの選択")}>
        <div class="buttons">
          {parts.map(([name, label]) => (
            <button type="button" key={name} aria-pressed={part === name} onClick={() => setPart(name)}>{label}</button>
          ))}
        </div>
        <div hidden={part !== "tree"}>
          <Explorer
            viewer={viewer}
            selected={selected}
            select={select}
            updates={updates}
            opened={setOpen}
            search={(words) => {
              setWords(words);
              setPart("search");
            }}
          />
        </div>
        {part === "search" ? <Search viewer={viewer} select={select} words={words} /> : null}
        {part === "templates" ? <Templates viewer={viewer} select={select} /> : null}
      </section>
      <section ref={preview} aria-label={t("Preview", "プレビュー")} class="preview">
        {selected ? (
          <button type="button" class="small narrow" onClick={() => choice.current?.scrollIntoView()}>{t("Back to the list", "一覧に戻る")}</button>
        ) : null}
        {selected ? (
          <Preview key={selected} viewer={viewer} uri={selected} config={config} open={select} updates={updates} isLive={isLive} />
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
  /** Searches the text of resources. */
  search: (words: string) => void;
}

function Explorer({ viewer, selected, select, updates, opened, search }: ExplorerProps) {
  const id = useId();
  const [version, setVersion] = useState(0);
  const [filters, setFilters] = useState<Filters>(NO_FILTERS);
  const watched = usePoll<Subscriptions>(viewer ? "subscriptions" : null, 2000);
  const [hasMore, setMore] = useState(false);
  const plugins = usePoll<Page<PluginStatus>>(viewer && hasMore ? "plugins" : null, 30_000);
  const badges = useMemo(
    () => new Map(watched.data?.resources.items.map(({ uri, subscribers }) => [uri, subscribers])),
    [watched.data],
  );
  const catalog = useMemo(() => new Catalog(viewer, () => setVersion((now) => now + 1)), [viewKey(viewer)]);
  // Not after the frame is drawn: the first view waits for the answer.
  useLayoutEffect(() => {
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
  const isFiltered = hasFilters(filters);
  // While the catalog is loaded page by page, nothing goes through all of it for each page.
  const { loaded, closed, found } = useMemo(
    () =>
      catalog.root.isComplete
        ? { loaded: catalog.count(), closed: catalog.unsearched(filters).length, found: isFiltered ? matching(catalog.rows(filters)) : 0 }
        : { loaded: catalog.root.nodes.length, closed: 0, found: 0 },
    [catalog, version, filters],
  );
  const unsearched = isFiltered ? closed : 0;
  return (
    <>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          {t("Filter by name", "名前で絞り込み")}
          <input type="search" value={filters.text} onInput={(event) => set({ text: event.currentTarget.value })} />
        </label>
        <details onToggle={() => setMore(true)}>
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
              {t("Language", "言語")}
              <select value={filters.language} onChange={(event) => set({ language: event.currentTarget.value })}>
                <option value="">{t("any", "すべて")}</option>
                {[...catalog.languages].sort().map((code) => <option key={code} value={code}>{languageName(code)}</option>)}
              </select>
            </label>
            <label>
              {t("Changed since", "更新日")}
              <input type="date" value={filters.since} onInput={(event) => set({ since: event.currentTarget.value })} />
            </label>
          </div>
        </details>
      </form>
      {catalog.missing.map(({ plugin, reason }) => (
        <p class="problem" key={plugin}>
          {t("Missing: ", "表示できません: ")}
          {viewer ? (
            // An administrator is shown what the log of the server says.
            <>
              <a href={link("plugins", plugin)}>{plugin}</a>: <Message text={said(reason.replace(/; the server's log says why$/, ""))} /> (<a href={link("plugins", plugin)}>{t("why", "理由")}</a>)
            </>
          ) : (
            <>{plugin}: <Message text={said(reason)} /></>
          )}
        </p>
      ))}
      <p class="muted count" role="status">
        {t(`${number(loaded)} loaded`, `${number(loaded)} 件を読み込み済み`)}
        {catalog.root.isComplete && !catalog.root.error && closed === 0 ? t(", all", "（すべて）") : ""}
        {!isFiltered && closed > 0 ? t(`; more in ${closed === 1 ? "1 closed folder" : `${number(closed)} closed folders`}`, `。開いていないフォルダー ${number(closed)} 個`) : ""}
        {isFiltered && catalog.root.isComplete ? t(`, ${number(found)} match`, `、${number(found)} 件が該当`) : ""}
        {catalog.isSearching
          ? t("; folders are being searched…", "。フォルダーを検索中…")
          : unsearched > 0
            ? t(`; ${unsearched === 1 ? "1 folder that is not open was" : `${number(unsearched)} folders that are not open were`} not searched`, `。開いていない ${number(unsearched)} 個のフォルダーは検索していません`)
            : ""}
      </p>
      {unsearched > 0 || (isFiltered && filters.text.trim() !== "") ? (
        <div class="buttons">
          {unsearched > 0 || catalog.isSearching ? (
            <button type="button" class="small" aria-disabled={catalog.isSearching} onClick={() => void catalog.searchClosed(filters)}>
              {t("Look into closed folders", "開いていないフォルダーも調べる")}
            </button>
          ) : null}
          {filters.text.trim() === "" ? null : (
            <button type="button" class="small" onClick={() => search(filters.text.trim())}>
              {t("Search texts for this", "本文を検索")}
            </button>
          )}
        </div>
      ) : null}
      {loaded === 0 && catalog.root.isComplete && !catalog.root.error && catalog.missing.length === 0 ? (
        <p>{viewer ? t(`${viewer.principal} may see nothing that is listed.`, `${viewer.principal} が閲覧できるリソースは一覧にありません。`) : t("You may see nothing that is listed.", "閲覧できるリソースは一覧にありません。")}</p>
      ) : null}
      <Tree id={id} catalog={catalog} version={version} filters={filters} selected={selected} watched={badges} select={select} />
    </>
  );
}

/** A text as one word of a shell. */
function word(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

interface PreviewProps {
  /** What is served, for administrators. */
  config: ConfigView | null;
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

function Preview({ viewer, config, uri, open, updates, isLive }: PreviewProps) {
  const [read, setRead] = useState<Reading | null>(null);
  const [changed, setChanged] = useState<Date | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [asksWho, setAsksWho] = useState(false);
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
  const byUri = formatsByUri(contents ?? []);
  const leftOut = read?.left_out ?? 0;
  const options = viewer ? `--as ${word(viewer.principal)}${viewer.groups.map((group) => ` --group ${word(group)}`).join("")}` : "";
  const body = JSON.stringify({ uri, ...as(viewer) });
  // Without a config, as with `serve DIRECTORY --open`, the API has no token, and a command no config to look into.
  const file = config?.file ?? null;
  const place = file?.startsWith("/") ? `--config ${word(file)} ` : "";
  const own = contents?.find(({ resource }) => resource.uri === uri)?.resource ?? contents?.[0]?.resource;
  return (
    <>
      <h2 class="uri">{iri(uri)}</h2>
      <div class="buttons">
        <Copy text={uri} label={t("Copy the URI", "URI をコピー")} />
        {viewer && file === null ? null : (
        <Copy
          needs={viewer
            ? t("It needs the file of admin.token of the config, here as admin.token", "設定の admin.token のファイルが必要です（ここでは admin.token）")
            : t("It needs your token in the file token", "トークンを保存したファイル token が必要です")}
          text={`curl --header "Authorization: Bearer $(cat ${viewer ? "admin.token" : "token"})" --json ${word(body)} ${location.origin}/api/v1/browse/read`}
          label={t("Copy for curl", "curl 用にコピー")}
        />
        )}
        <Copy text={`await client.readResource({ uri: ${JSON.stringify(uri)} });`} label={t("Copy for a client", "クライアント用にコピー")} />
        {viewer && file !== null ? <Copy text={`mcp-host explain ${place}${options} ${word(uri)}`} label={t("Copy explain", "explain をコピー")} /> : null}
        {viewer ? <button type="button" class="small" aria-pressed={asksWho} onClick={() => setAsksWho(!asksWho)}>{t("Who may read this?", "誰が読めるか")}</button> : null}
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
      {asksWho ? <Who key={uri} uri={uri} operation="read" /> : null}
      {own?.description ? <p>{own.description}</p> : null}
      {error ? <Problem error={error} /> : contents === null ? <Waiting /> : null}
      {byUri.map((formats, at) => <Formats key={at} formats={formats} isNamed={byUri.length > 1} open={open} />)}
      {contents && leftOut > 0 ? (
        <p class="problem">{t(`${number(leftOut)} more contents are left out; open them by their URIs.`, `ほかに ${number(leftOut)} 件の内容があります。URI で開いてください。`)}</p>
      ) : null}
    </>
  );
}

/** Contents with the same URI are formats of one resource. */
function formatsByUri(contents: Content[]): Content[][] {
  const found = new Map<string, Content[]>();
  for (const content of contents) {
    const { uri } = content.resource;
    found.set(uri, [...(found.get(uri) ?? []), content]);
  }
  return [...found.values()];
}

/** One resource, in one of its text formats: at first in that which its provider prefers. Its files are below. */
function Formats({ formats, isNamed, open }: { formats: Content[]; isNamed: boolean; open: (uri: string) => void }) {
  const [chosen, setChosen] = useState(0);
  const texts = formats.filter(({ text }) => text !== null);
  const files = formats.filter(({ text }) => text === null);
  const at = Math.min(chosen, Math.max(0, texts.length - 1));
  const shown = [...texts.slice(at, at + 1), ...files];
  return (
    <div>
      {isNamed ? <h3 class="uri">{iri(formats[0]?.resource.uri ?? "")}</h3> : null}
      {texts.length > 1 ? (
        <div class="buttons" role="group" aria-label={t("Format", "形式")}>
          {texts.map(({ resource }, index) => (
            <button type="button" class="small" key={index} aria-pressed={index === at} onClick={() => setChosen(index)}>
              {resource.mime_type ?? t(`Format ${index + 1}`, `形式 ${index + 1}`)}
            </button>
          ))}
        </div>
      ) : null}
      {shown.map((content, index) => (
        <div key={`${at} ${index}`}>
          {content.resource.notices.map((notice) => <p class="problem" key={notice}>{notice}</p>)}
          <ContentView content={content} open={open} />
        </div>
      ))}
    </div>
  );
}
