// Live: lines of the audit log as they are written, by filters of the server.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, events } from "../api";
import { duration, number, size, t, time } from "../language";
import { Facts, Problem, usePoll } from "../parts";
import { SubscriptionTable } from "../subscriptions";
import type { AuditLine, ConfigView, Subscriptions } from "../types";

/** The number of lines that are kept. */
const KEPT = 200;
/** The pause before a stream that ended is opened again. */
const PAUSE = 1000;

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

type Entry = { number: number; line: AuditLine } | { number: number; missed: number };

export function Live() {
  const [filters, setFilters] = useState<Filters>({ principal: "", plugin: "", operation: "", decision: "", outcome: "" });
  const [entries, setEntries] = useState<Entry[]>([]);
  const [isOpen, setOpen] = useState(false);
  const [isPaused, setPaused] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const values = usePoll<ConfigView>("config", CONFIG_INTERVAL).data?.audit_values;
  const count = useRef(0);
  useEffect(() => {
    if (isPaused) {
      return;
    }
    const ending = new AbortController();
    const query = new URLSearchParams({ follow: "1" });
    for (const [name, value] of Object.entries(filters)) {
      if (value.trim()) {
        query.set(name, value.trim());
      }
    }
    // Many lines at once are shown at once.
    let waiting: Entry[] = [];
    let frame = 0;
    const add = (entry: Entry) => {
      waiting.push(entry);
      if (frame === 0) {
        frame = requestAnimationFrame(() => {
          const added = waiting.reverse();
          waiting = [];
          frame = 0;
          setEntries((now) => [...added, ...now].slice(0, KEPT));
        });
      }
    };
    const opened = () => {
      setOpen(true);
      setError(null);
    };
    const received = (event: string, data: string) => {
      count.current += 1;
      if (event === "audit") {
        add({ number: count.current, line: JSON.parse(data) });
      } else if (event === "missed") {
        add({ number: count.current, missed: JSON.parse(data).lines });
      }
    };
    const follow = async () => {
      while (!ending.signal.aborted) {
        try {
          await events("GET", `audit?${query}`, undefined, opened, received, ending.signal);
        } catch (problem) {
          if (ending.signal.aborted) {
            return;
          }
          setError(problem instanceof ApiError ? problem : new ApiError(0, String(problem)));
        }
        setOpen(false);
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    };
    // A filter is applied when its reader stops typing.
    const timer = setTimeout(follow, 200);
    return () => {
      clearTimeout(timer);
      cancelAnimationFrame(frame);
      ending.abort();
      setOpen(false);
    };
  }, [filters, isPaused]);
  const field = (name: keyof Filters, label: string) => (
    <label>
      {label}
      <input type="search" value={filters[name]} onInput={(event) => setFilters({ ...filters, [name]: event.currentTarget.value })} />
    </label>
  );
  const choice = (name: keyof Filters, label: string, values: string[]) => (
    <label>
      {label}
      <select value={filters[name]} onChange={(event) => setFilters({ ...filters, [name]: event.currentTarget.value })}>
        <option value="">{t("any", "すべて")}</option>
        {values.map((value) => <option key={value}>{value}</option>)}
      </select>
    </label>
  );
  return (
    <>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        {field("principal", t("Principal", "プリンシパル"))}
        {field("plugin", t("Plugin", "プラグイン"))}
        {field("operation", t("Operation", "操作"))}
        {choice("decision", t("Decision of the rules", "ルールの判定"), values?.decisions ?? [])}
        {choice("outcome", t("Outcome", "結果"), values?.outcomes ?? [])}
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? t("Continue", "再開") : t("Pause", "一時停止")}
        </button>
        <button type="button" onClick={() => setEntries([])}>{t("Clear", "消去")}</button>
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
            {entries.map((entry) =>
              "missed" in entry ? (
                <tr key={entry.number}>
                  <td colSpan={9} class="missed">
                    {t(`${number(entry.missed)} lines came faster than this page read them.`, `${number(entry.missed)} 行は表示が間に合いませんでした。`)}
                  </td>
                </tr>
              ) : (
                <AuditRow key={entry.number} line={entry.line} />
              ),
            )}
          </tbody>
        </table>
      </div>
      {entries.length === 0 && isOpen ? <p class="muted">{t("No line yet.", "まだ行はありません。")}</p> : null}
      <Subscribers />
    </>
  );
}

/** Who is subscribed, and the updates that were sent. */
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
      <td title={glob ? `${rule ?? ""} ${glob}`.trim() : undefined}>{decision}</td>
      <td><span class={`state ${outcome === "ok" ? "ready" : "failed"}`}>{outcome}</span></td>
      <td class="figure">{duration_ms == null ? "" : duration(duration_ms)}</td>
      <td class="figure">{bytes == null ? "" : size(bytes)}</td>
    </tr>
  );
}
