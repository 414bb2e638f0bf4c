// Live: lines of the audit log as they are written, by filters of the server; updates as they are sent; and who is subscribed.

import { Fragment, type VNode } from "preact";
import { useState } from "preact/hooks";
import { type Entry, useFollowed } from "../follow";
import { duration, number, size, t, time } from "../language";
import { Facts, link, Problem, usePoll } from "../parts";
import { SubscriptionTable } from "../subscriptions";
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
  const values = usePoll<ConfigView>("config", CONFIG_INTERVAL).data?.audit_values;
  const chosen = Object.entries(filters).map(([name, value]) => [name, value.trim()]).filter(([, value]) => value);
  const query = new URLSearchParams([["follow", "1"], ...chosen]);
  const { entries, isOpen, error, clear } = useFollowed<AuditLine>(`audit?${query}`, "audit", isPaused);
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
        {choice("decision", t("Decision of the rules", "ルールの判定"), values?.decisions ?? [], decisionName)}
        {choice("outcome", t("Outcome", "結果"), values?.outcomes ?? [], outcomeName)}
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? t("Continue", "再開") : t("Pause", "一時停止")}
        </button>
        <button type="button" onClick={clear}>{t("Clear", "消去")}</button>
      </form>
      <p class="muted" role="status">
        {isPaused
          ? t("Paused.", "一時停止中です。")
          : isOpen
            ? t("Following the audit log; the newest line is first.", "監査ログを表示しています。新しい行が先頭です。")
            : t("Connecting…", "接続中…")}
      </p>
      <Problem error={error} />
      <div class="scroll" tabIndex={0} role="region" aria-label={t("Lines of the audit log", "監査ログの行")}>
        <table class="live">
          <thead>
            <tr>
              <th scope="col">{t("Time", "時刻")}</th>
              <th scope="col">{t("Principal", "プリンシパル")}</th>
              <th scope="col">{t("Operation", "操作")}</th>
              <th scope="col">URI</th>
              <th scope="col">{t("Plugin", "プラグイン")}</th>
              <th scope="col">{t("Decision", "判定")}</th>
              <th scope="col">{t("Outcome", "結果")}</th>
              <th scope="col" class="figure">{t("Duration", "所要時間")}</th>
              <th scope="col" class="figure">{t("Size", "サイズ")}</th>
            </tr>
          </thead>
          <tbody>
            <Rows
              entries={entries}
              columns={9}
              missed={(lines) => t(`${number(lines)} lines came faster than this page read them.`, `${number(lines)} 行は表示が間に合いませんでした。`)}
              row={(line) => <AuditRow line={line} />}
            />
          </tbody>
        </table>
      </div>
      {entries.length === 0 && isOpen ? <p class="muted">{t("No line yet.", "まだ行はありません。")}</p> : null}
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

interface RowsProps<T> {
  entries: Entry<T>[];
  /** The number of columns of the table. */
  columns: number;
  missed: (count: number) => string;
  row: (event: T) => VNode;
}

/** The rows of events, and of those that were missed. */
function Rows<T>({ entries, columns, missed, row }: RowsProps<T>) {
  return (
    <>
      {entries.map((entry) => (
        <Fragment key={entry.number}>
          {"missed" in entry ? <tr><td colSpan={columns} class="missed">{missed(entry.missed)}</td></tr> : row(entry.event)}
        </Fragment>
      ))}
    </>
  );
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
        <div class="scroll" tabIndex={0} role="region" aria-label={t("Table of updates", "更新の表")}>
          <table>
            <thead>
              <tr>
                <th scope="col">{t("Time", "時刻")}</th>
                <th scope="col">{t("Principal", "プリンシパル")}</th>
                <th scope="col">URI</th>
              </tr>
            </thead>
            <tbody>
              <Rows
                entries={entries}
                columns={3}
                missed={(count) => t(`${number(count)} updates came faster than this page read them.`, `${number(count)} 件は表示が間に合いませんでした。`)}
                row={(update) => (
                  <tr>
                    <td title={time(update.time)}>{time(update.time, false)}</td>
                    <td>{update.principal}</td>
                    <td class="uri">
                      {update.uri === null ? t("the listing", "一覧") : <a href={link("resources", update.uri)}>{update.uri}</a>}
                    </td>
                  </tr>
                )}
              />
            </tbody>
          </table>
        </div>
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
              [t("Sessions and streams", "セッションとストリーム"), number(data.watched.subscribers)],
              [t("Polled plugins", "確認中のプラグイン"), number(data.watched.plugins)],
            ]}
          />
          <SubscriptionTable resources={data.resources.items} total={data.resources.total} />
        </>
      ) : null}
    </section>
  );
}

function AuditRow({ line }: { line: AuditLine }) {
  const { decision, rule, glob, outcome = "", duration_ms, bytes } = line;
  return (
    <tr>
      <td title={time(line.time)}>{time(line.time, false)}</td>
      <td>{line.principal}</td>
      <td>{line.operation}</td>
      <td class="uri">{line.uri}</td>
      <td>{line.plugin}</td>
      <td title={glob ? `${rule ?? ""} ${glob}`.trim() : undefined}>{decisionName(decision ?? "")}</td>
      <td><span class={`state ${outcome === "ok" ? "ready" : "failed"}`}>{outcomeName(outcome)}</span></td>
      <td class="figure">{duration_ms == null ? "" : duration(duration_ms)}</td>
      <td class="figure">{bytes == null ? "" : size(bytes)}</td>
    </tr>
  );
}
