// Live: lines of the audit log as they are written, by filters of the server; updates as they are sent; and who is subscribed.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type Entry, useFollowed } from "../follow";
import { iri } from "../iri";
import { duration, number, size, t, time } from "../language";
import { Facts, link, Problem, usePoll } from "../parts";
import { SubscriptionTable } from "../subscriptions";
import { VirtualTable } from "../table";
import type { AuditLine, ConfigView, SentUpdate, Subscriptions } from "../types";

interface Filters {
  principal: string;
  plugin: string;
  operation: string;
  decision: string;
  outcome: string;
}

/** The interval at which the subscriptions are read again, and the config. */
const INTERVAL = 2000;
const CONFIG_INTERVAL = 60_000;

export function Live() {
  const [filters, setFilters] = useState<Filters>({ principal: "", plugin: "", operation: "", decision: "", outcome: "" });
  const [isPaused, setPaused] = useState(false);
  const config = usePoll<ConfigView>("config", CONFIG_INTERVAL).data;
  const values = config?.audit_values;
  // A server without a config, as with `serve DIRECTORY`, cannot be given one.
  const hasNoConfig = config?.file === null && config.audit === null;
  const chosen = Object.entries(filters).map(([name, value]) => [name, value.trim()]).filter(([, value]) => value);
  const query = new URLSearchParams([["follow", "1"], ...chosen]);
  const { entries, isOpen, error, clear } = useFollowed<AuditLine>(`audit?${query}`, "audit", isPaused || hasNoConfig);
  const field = (name: keyof Filters, label: string) => (
    <label>
      {label}
      <input type="search" value={filters[name]} onInput={(event) => setFilters({ ...filters, [name]: event.currentTarget.value })} />
    </label>
  );
  const choice = (name: keyof Filters, label: string, values: string[], shown: (value: string) => string) => (
    <label>
      {label}
      <select value={filters[name]} onChange={(event) => setFilters({ ...filters, [name]: event.currentTarget.value })}>
        <option value="">{t("any", "すべて")}</option>
        {values.map((value) => <option key={value} value={value}>{shown(value)}</option>)}
      </select>
    </label>
  );
  return (
    <>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        {field("principal", t("Principal", "プリンシパル"))}
        {field("plugin", t("Plugin", "プラグイン"))}
        {choice("operation", t("Operation", "操作"), values?.operations ?? [], (operation) => operation)}
        {choice("decision", t("Decision of the rules", "規則の判定"), values?.decisions ?? [], decisionName)}
        {choice("outcome", t("Outcome", "結果"), values?.outcomes ?? [], outcomeName)}
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? t("Continue", "再開") : t("Pause", "一時停止")}
        </button>
        <button type="button" onClick={clear}>{t("Clear", "消去")}</button>
      </form>
      <p class="muted" role="status">
        {hasNoConfig
          ? t("This server has no audit log: it needs a config with [audit], and this one has none.", "このサーバーには監査ログがありません。[audit] のある設定ファイルが必要ですが、設定ファイルなしで起動されています。")
          : isPaused
          ? t("Paused.", "一時停止中です。")
          : isOpen
            ? t("Following the audit log; the newest line is first.", "監査ログを表示しています。新しい行が先頭です。")
            : t("Connecting…", "接続中…")}
      </p>
      <Problem error={hasNoConfig ? null : error} />
      <VirtualTable
        label={t("Lines of the audit log", "監査ログの行")}
        class="live"
        columns={[
          { head: t("Time", "時刻"), width: 12 },
          { head: t("Principal", "プリンシパル"), width: 14 },
          { head: t("Operation", "操作"), width: 14 },
          { head: "URI", width: 34, class: "uri" },
          { head: t("Plugin", "プラグイン"), width: 12 },
          { head: t("Decision", "判定"), width: 10 },
          { head: t("Outcome", "結果"), width: 11 },
          { head: t("Duration", "所要時間"), width: 11, class: "figure" },
          { head: t("Size", "サイズ"), width: 9, class: "figure" },
        ]}
        count={entries.length}
        keyOf={(index) => entries[index]?.number ?? index}
        row={cells(entries, (lines) => t(`${number(lines)} lines came faster than this page read them.`, `${number(lines)} 行は表示が間に合いませんでした。`), auditCells)}
      />
      {entries.length === 0 && isOpen ? <p class="muted">{t("No line yet. Lines appear from now on.", "まだ行はありません。これから書かれる行が表示されます。")}</p> : null}
      <Updates principal={filters.principal.trim()} isPaused={isPaused} />
      <Subscribers />
    </>
  );
}

const DECISIONS: Record<string, string> = { allow: "許可", deny: "拒否" };
const OUTCOMES: Record<string, string> = {
  ok: "成功",
  "not found": "見つからない",
  "invalid request": "不正なリクエスト",
  "invalid cursor": "不正なカーソル",
  denied: "拒否",
  unavailable: "利用不可",
  internal: "内部エラー",
  cancelled: "取り消し",
  refused: "認証拒否",
  failed: "失敗",
};

/** The words of the audit log, in the language of the reader. */
function decisionName(decision: string): string {
  return t(decision, DECISIONS[decision] ?? decision);
}

function outcomeName(outcome: string): string {
  return t(outcome, OUTCOMES[outcome] ?? outcome);
}

/** The cells of the rows of events, and of those that were missed. */
function cells<T>(entries: Entry<T>[], missed: (count: number) => string, of: (event: T) => ComponentChildren[]): (index: number) => ComponentChildren[] {
  return (index) => {
    const entry = entries[index]!;
    return "missed" in entry ? [<span class="missed">{missed(entry.missed)}</span>] : of(entry.event);
  };
}

/** The updates as they are sent: to all, or to one principal. */
function Updates({ principal, isPaused }: { principal: string; isPaused: boolean }) {
  const query = new URLSearchParams([["follow", "1"], ...(principal ? [["principal", principal]] : [])]);
  const { entries, error } = useFollowed<SentUpdate>(`updates?${query}`, "update", isPaused);
  return (
    <section aria-label={t("Updates", "更新")}>
      <h2>{t("Updates as they are sent", "送信された更新")}</h2>
      <Problem error={error} />
      {entries.length === 0 ? (
        <p class="muted">{t("None was sent since this page was opened.", "このページを開いてから送信はありません。")}</p>
      ) : (
        <VirtualTable
          label={t("Table of updates", "更新の表")}
          columns={[
            { head: t("Time", "時刻"), width: 14 },
            { head: t("Principal", "プリンシパル"), width: 20 },
            { head: "URI", width: 44, class: "uri" },
          ]}
          count={entries.length}
          keyOf={(index) => entries[index]?.number ?? index}
          row={cells(
            entries,
            (count) => t(`${number(count)} updates came faster than this page read them.`, `${number(count)} 件は表示が間に合いませんでした。`),
            ({ time: at, principal, uri }) => [
              <span title={time(at)}>{time(at, false)}</span>,
              principal,
              uri === null ? t("the listing", "一覧") : <a href={link("resources", uri)}>{iri(uri)}</a>,
            ],
          )}
        />
      )}
    </section>
  );
}

/** Who is subscribed, and the number of updates that were sent. */
function Subscribers() {
  const { data, error } = usePoll<Subscriptions>("subscriptions", INTERVAL);
  return (
    <section aria-label={t("Subscriptions", "購読")}>
      <h2>{t("Subscriptions", "購読")}</h2>
      <Problem error={error} />
      {data ? (
        <>
          <Facts
            of={[
              [t("Updates of resources sent", "送信したリソースの更新"), number(data.watched.updates)],
              [t("Updates of the listing sent", "送信した一覧の更新"), number(data.watched.listing_updates)],
              [t("Sessions, streams and console pages", "セッション・ストリーム・コンソールのページ"), number(data.watched.subscribers)],
              [t("Plugins polled for all of these", "そのために確認中のプラグイン"), number(data.watched.plugins)],
            ]}
          />
          <SubscriptionTable resources={data.resources.items} total={data.resources.total} />
        </>
      ) : null}
    </section>
  );
}

/** The cells of a line. */
function auditCells(line: AuditLine): ComponentChildren[] {
  const { decision, rule, glob, outcome = "", duration_ms, bytes } = line;
  return [
    <span title={time(line.time)}>{time(line.time, false)}</span>,
    line.principal,
    line.operation,
    line.uri === undefined ? "" : iri(line.uri),
    line.plugin,
    <span title={glob ? `${rule ?? ""} ${glob}`.trim() : undefined}>{decisionName(decision ?? "")}</span>,
    <span class={`state ${outcome === "ok" ? "ready" : "failed"}`}>{outcomeName(outcome)}</span>,
    duration_ms == null ? "" : duration(duration_ms),
    bytes == null ? "" : size(bytes),
  ];
}
