// Parts that several pages have.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, whenAnswering } from "./api";
import { number, t, time } from "./language";
import { Message } from "./message";
import type { AuditStatus } from "./types";

/** The newest answer to a request that is repeated, and why the last one failed. */
export interface Polled<T> {
  data: T | null;
  error: Error | null;
  refresh: () => void;
}

/** Repeats a request while the page is visible; without a path there is none. */
export function usePoll<T>(path: string | null, interval: number): Polled<T> {
  const [state, setState] = useState<{ path: string | null; data: T | null; error: Error | null }>({ path, data: null, error: null });
  const refresh = useRef(() => {});
  useEffect(() => {
    if (path === null) {
      return;
    }
    const ending = new AbortController();
    let timer = 0;
    const run = async () => {
      clearTimeout(timer);
      if (document.visibilityState === "visible") {
        try {
          const data = await get<T>(path, ending.signal);
          setState({ path, data, error: null });
        } catch (error) {
          if (ending.signal.aborted) {
            return;
          }
          setState((now) => ({ path, data: now.path === path ? now.data : null, error: error as Error }));
        }
      }
      if (!ending.signal.aborted) {
        timer = window.setTimeout(run, interval);
      }
    };
    refresh.current = run;
    document.addEventListener("visibilitychange", run);
    run();
    return () => {
      ending.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", run);
    };
  }, [path, interval]);
  const isCurrent = state.path === path;
  return { data: isCurrent ? state.data : null, error: isCurrent ? state.error : null, refresh: () => refresh.current() };
}

/** Says that the server does not answer, on whatever page, in view wherever that is scrolled to. The page has one stream at least that tries again. */
export function Unanswered() {
  const [isAnswering, setAnswering] = useState(true);
  useEffect(() => whenAnswering(setAnswering), []);
  return isAnswering ? null : (
    <div class="problem unanswered" role="alert">
      <strong>{t("The server does not answer; trying again.", "サーバーが応答しません。再試行しています。")}</strong>
    </div>
  );
}

/** Says why something failed. That the server does not answer is said once, by [`Unanswered`]. */
export function Problem({ error }: { error: Error | null }) {
  if (!error || (error instanceof ApiError && error.status === 0)) {
    return null;
  }
  return (
    <div class="problem" role="alert">
      <strong><Message text={error.message} /></strong>
      {error instanceof ApiError && error.help ? <p><Message text={error.help} /></p> : null}
    </div>
  );
}

/** That the audit log cannot be written, and what was lost of it. */
export function AuditProblem({ audit }: { audit: AuditStatus | null }) {
  if (!audit || (!audit.failure && audit.dropped_lines === 0)) {
    return null;
  }
  const file = audit.file ?? "stderr";
  const lost = t(`${number(audit.dropped_lines)} lines lost since the start.`, `起動後に失われた行: ${number(audit.dropped_lines)}`);
  return (
    <div class="problem" role="alert">
      {audit.failure ? (
        <>
          <strong>{t(`The audit log ${file} has not been written since ${time(audit.failure.since)}: ${audit.failure.reason}.`, `監査ログ ${file} は ${time(audit.failure.since)} から書き込めません: ${audit.failure.reason}`)}</strong>
          <p>
            {audit.refuses
              ? t(`Requests are refused until then: ${number(audit.refused_requests)} so far. `, `それまでリクエストは拒否されます（これまで ${number(audit.refused_requests)} 件）。`)
              : t("Lines are lost when the queue is full. ", "キューが一杯になると行が失われます。")}
            {lost}
          </p>
        </>
      ) : (
        <p>{t("The audit log could not be written for a time: ", "監査ログを一時的に書き込めませんでした。")}{lost}</p>
      )}
    </div>
  );
}

/** What stands where an answer is waited for. */
export function Waiting() {
  return <p class="muted" role="status">{t("Loading…", "読み込み中…")}</p>;
}

interface MeterProps {
  label: string;
  used: number;
  limit: number;
  show: (value: number) => string;
  /** Whether it is good to be near the limit, as of work that is done. */
  isGood?: boolean;
}

/** A part of what is allowed. */
export function Meter({ label, used, limit, show, isGood = false }: MeterProps) {
  const part = limit > 0 ? Math.min(1, used / limit) : 0;
  return (
    <div class="meter">
      <span>{label}</span>
      <meter aria-label={label} min={0} max={1} high={isGood ? 1 : 0.8} value={part} />
      <span class="figures">{show(used)} / {show(limit)}</span>
    </div>
  );
}

/** Terms with their values. */
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.map(([term, value]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A button that copies a text, which `needs` something to work. */
export function Copy({ text, label, needs }: { text: string; label: string; needs?: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button type="button" class="small" title={needs} onClick={copy}>
      {isCopied ? t("Copied", "コピーしました") : label}
    </button>
  );
}

/** A range of lines. */
export function lineRange([first, last]: [number, number]): string {
  return first === last ? String(first) : `${first}–${last}`;
}

/** The parts of the hash behind the page: `#/plugins/NAME`. */
export function link(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}
