// Plugins: state, loads, failures, rates, limits, cache, circuit breaker; and what an administrator does about them.

import { Fragment } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { post } from "../api";
import { duration, number, size, t, time } from "../language";
import { Message } from "../message";
import { Facts, link, Meter, Problem, usePoll, Waiting } from "../parts";
import { preparationNote, PreparationView } from "../preparation";
import { ProgramList } from "../programs";
import { faultName, loadFailureName, said, unindexedText } from "../reasons";
import { Sparkline } from "../sparkline";
import { SubscriptionTable } from "../subscriptions";
import type { Grants, Limits, PluginDetails, PluginState, PluginStatus, Status, Subscriptions, Usage } from "../types";
import { useVirtualRows } from "../virtual";

const INTERVAL = 2000;
/** The number of samples of a sparkline. */
const SAMPLES = 60;

/** What was seen of a plugin at one time. */
interface Sample {
  at: number;
  rate: number;
  p99: number | null;
}

export function Plugins({ selected }: { selected: string | null }) {
  const { data, error, refresh } = usePoll<Status>("status", INTERVAL);
  const history = useRef(new Map<string, Sample[]>());
  const [filter, setFilter] = useState("");
  const [state, setState] = useState("");
  // While the page is drawn, not after it, so that the newest sample is drawn, too.
  useMemo(() => {
    for (const plugin of data?.plugins.items ?? []) {
      const samples = history.current.get(plugin.name) ?? [];
      const { recent } = plugin;
      const rate = recent && recent.window_ms > 0 ? (recent.calls * 1000) / recent.window_ms : 0;
      samples.push({ at: Date.now() / 1000, rate, p99: recent?.p99_us ?? null });
      history.current.set(plugin.name, samples.slice(-SAMPLES));
    }
  }, [data]);
  if (!data) {
    return error ? <Problem error={error} /> : <Waiting />;
  }
  const wanted = filter.trim().toLowerCase();
  const attention = data.plugins.items.filter((plugin) => isIn(plugin, ATTENTION));
  // Those that need somebody are first.
  const shown = [...attention, ...data.plugins.items.filter((plugin) => !isIn(plugin, ATTENTION))].filter(
    (plugin) => `${plugin.name} ${plugin.mount}`.toLowerCase().includes(wanted) && isIn(plugin, state),
  );
  return (
    <>
      <Problem error={error} />
      <Overview status={data} attention={attention} />
      <div class="split">
        <section aria-label={t("List of plugins", "プラグインの一覧")}>
          <form class="filters" onSubmit={(event) => event.preventDefault()}>
            <label>
              {t("Filter", "絞り込み")}
              <input type="search" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
            </label>
            <label>
              {t("State", "状態")}
              <select value={state} onChange={(event) => setState(event.currentTarget.value)}>
                <option value="">{t("any", "すべて")}</option>
                <option value={ATTENTION}>{t("not served, or failing", "停止中または失敗中")}</option>
                {STATES.map((name) => <option key={name} value={name}>{stateName(name)}</option>)}
              </select>
            </label>
          </form>
          <p class="muted" role="status">{t(`${number(shown.length)} of ${number(data.plugins.total)} plugins`, `${number(data.plugins.total)} 件中 ${number(shown.length)} 件`)}</p>
          <PluginTable plugins={shown} selected={selected} />
          {shown.length === 0 ? <p class="muted">{t("No plugin matches.", "該当するプラグインはありません。")}</p> : null}
          {data.plugins.next ? (
            <p class="muted">
              {t(`The first ${data.plugins.items.length} of ${data.plugins.total}.`, `${data.plugins.total} 件のうち最初の ${data.plugins.items.length} 件。`)}
            </p>
          ) : null}
        </section>
        {selected ? <Details key={selected} name={selected} unindexed={data.search_failures[selected] ?? null} samples={history.current.get(selected) ?? []} hasFile={data.config_file !== null} changed={refresh} /> : null}
      </div>
    </>
  );
}

function Overview({ status, attention }: { status: Status; attention: PluginStatus[] }) {
  const failing = attention.filter(({ state }) => state.name === "failing");
  const missing = attention.filter(({ state }) => state.name !== "failing");
  // Of the first page, which has all but those of very large servers.
  const builtIn = status.plugins.items.filter(({ configured }) => !configured).length;
  // Each leads to the first of them.
  const counted = ([first, ...others]: PluginStatus[], text: (count: number) => string) =>
    first ? <>{t(", ", "、")}<a href={link("plugins", first.name)}>{text(others.length + 1)}</a></> : null;
  return (
    <>
      <Facts
        of={[
          [t("Ready", "準備完了"), status.ready ? t("yes", "はい") : t("no", "いいえ")],
          [
            t("Plugins", "プラグイン"),
            <>
              {number(status.plugins.total - builtIn)}
              {builtIn > 0 ? t(`, ${builtIn} built in`, `、組み込み ${builtIn}`) : ""}
              {counted(missing, (count) => t(`${count} not served`, `停止中 ${count}`))}
              {counted(failing, (count) => t(`${count} failing`, `失敗中 ${count}`))}
            </>,
          ],
          [t("Sessions", "セッション"), number(status.sessions)],
          [t("Watched resources", "監視中のリソース"), number(status.watched.resources)],
          [t("Running for", "稼働時間"), duration(status.uptime_seconds * 1000)],
          [t("Version", "バージョン"), status.version],
        ]}
      />
      {status.not_ready.map((reason) => (
        <div class="problem" key={reason}><Message text={said(reason)} /></div>
      ))}
    </>
  );
}

const STATES: PluginState["name"][] = ["ready", "failing", "loading", "failed", "unreachable", "suspended", "disabled"];
/** The choice of all states in which a plugin is not served, or its calls fail. */
const ATTENTION = "attention";

function isIn({ state }: PluginStatus, chosen: string): boolean {
  return chosen === "" || (chosen === ATTENTION ? state.name !== "ready" && state.name !== "loading" : state.name === chosen);
}

function stateName(state: PluginState["name"]): string {
  switch (state) {
    case "ready":
      return t("ready", "稼働中");
    case "failing":
      return t("failing", "失敗中");
    case "loading":
      return t("loading", "読み込み中");
    case "failed":
      return t("failed", "失敗");
    case "unreachable":
      return t("unreachable", "接続不可");
    case "suspended":
      return t("suspended", "遮断中");
    case "disabled":
      return t("disabled", "無効");
  }
}

/** The height of a row of the table, in pixels, as `console.css` has it. */
const ROW = 60;

/** The table of plugins. Only the rows that are in view are elements. */
function PluginTable({ plugins, selected }: { plugins: PluginStatus[]; selected: string | null }) {
  const scroll = useRef<HTMLDivElement>(null);
  const { items, height, scrollTo } = useVirtualRows(plugins.length, ROW, scroll);
  const chosen = plugins.findIndex(({ name }) => name === selected);
  const isListed = chosen >= 0;
  useEffect(() => {
    if (isListed) {
      scrollTo(chosen);
    }
  }, [selected, isListed]);
  const [first, last] = [items[0], items[items.length - 1]];
  const space = (pixels: number) => (pixels > 0 ? <tr aria-hidden="true" style={{ height: `${pixels}px` }}><td colSpan={5} /></tr> : null);
  return (
    <div ref={scroll} class="scroll" tabIndex={0} role="region" aria-label={t("Table of plugins", "プラグインの表")}>
      <table class="plugins" aria-rowcount={plugins.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col">{t("Name", "名前")}</th>
            <th scope="col">{t("State", "状態")}</th>
            <th scope="col" class="figure">{t("Calls/s", "呼び出し/秒")}</th>
            <th scope="col" class="figure">p99</th>
            <th scope="col" class="figure">{t("Faults", "障害")}</th>
          </tr>
        </thead>
        <tbody>
          {space(first?.start ?? 0)}
          {items.map(({ index }) => {
            const plugin = plugins[index];
            return plugin ? <PluginRow key={plugin.name} at={index} plugin={plugin} isSelected={plugin.name === selected} /> : null;
          })}
          {space(last ? height - last.end : 0)}
        </tbody>
      </table>
    </div>
  );
}

function PluginRow({ at, plugin, isSelected }: { at: number; plugin: PluginStatus; isSelected: boolean }) {
  const { preparation, recent, state } = plugin;
  const note = (preparation ? preparationNote(preparation) : null) ?? (state.name === "ready" && !plugin.answered ? untried() : null);
  const warnings = t(plugin.warnings === 1 ? "1 warning" : `${number(plugin.warnings)} warnings`, `警告 ${number(plugin.warnings)} 件`);
  const faults = Object.values(plugin.faults).reduce((sum, count) => sum + count, 0);
  return (
    <tr aria-rowindex={at + 2} class={isSelected ? "selected" : ""}>
      <th scope="row">
        <a href={link("plugins", plugin.name)} aria-current={isSelected ? "true" : undefined}>{plugin.name}</a>
        <span class="muted block" title={plugin.mount}>
          {plugin.warnings > 0 ? (
            <a class="warnings" href={link("plugins", plugin.name)} title={warnings} aria-label={`${plugin.name}: ${warnings}`}>⚠ {number(plugin.warnings)}</a>
          ) : null}
          {plugin.configured ? " " : <span title={builtInExplained()}>{t("built in, ", "組み込み、")}</span>}
          {plugin.mount}
        </span>
      </th>
      <td>
        <span class={`state ${state.name}`}>{stateName(state.name)}</span>
        {note ? <span class="muted block" title={note === untried() ? untriedExplained() : undefined}>{note}</span> : null}
      </td>
      <td class="figure">{recent && recent.window_ms > 0 ? number((recent.calls * 1000) / recent.window_ms, 1) : "–"}</td>
      <td class="figure">{recent?.p99_us != null ? duration(recent.p99_us / 1000) : "–"}</td>
      <td class="figure">{number(faults)}</td>
    </tr>
  );
}

/** That a plugin is loaded, and was not called yet. */
function untried(): string {
  return t("untried", "未使用");
}

function untriedExplained(): string {
  return t("It is loaded, and has answered no call yet, so that it is not known whether it works.", "読み込み済みですが、まだ呼び出しに応答していないため、動作するかは不明です。");
}

/** What plugins are that no config declares. */
function builtInExplained(): string {
  return t("Built in: the host has it for search and context; no config declares it.", "組み込み: ホストが検索とコンテキストのために備えるもので、設定にはありません。");
}

/** The time until the next probe, counted down between two answers. */
function Countdown({ left }: { left: number }) {
  const [now, setNow] = useState(Date.now());
  const until = useRef(0);
  useEffect(() => {
    until.current = Date.now() + left;
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, [left]);
  return <>{duration(Math.max(0, Math.ceil(((until.current || now + left) - now) / 1000) * 1000))}</>;
}

function Why({ state }: { state: PluginState }) {
  switch (state.name) {
    case "failing": {
      const reason = said(state.reason);
      if (state.cause === "grant") {
        return <pre class="problem"><Message text={t(`Since ${time(state.since)}: ${reason}`, `${time(state.since)} から: ${reason}`)} /></pre>;
      }
      return (
        <pre class="problem">
          <Message text={state.calls === 0
            ? t(`Failing since ${time(state.since)}, and not called for ten minutes. Last: ${reason}`, `${time(state.since)} から失敗しています。この 10 分間は呼び出しがありません。最後の理由: ${reason}`)
            : t(`Failing since ${time(state.since)}: ${state.failed} of its last ${state.calls} calls failed. Last: ${reason}`, `${time(state.since)} から失敗しています（直近 ${state.calls} 回のうち ${state.failed} 回）。最後の理由: ${reason}`)} />
        </pre>
      );
    }
    case "failed":
      return <pre class="problem"><Message text={said(state.reason)} /></pre>;
    case "unreachable":
      return <pre class="problem"><Message text={t(`Not reachable since ${time(state.since)}: ${state.reason}`, `${time(state.since)} から接続できません: ${said(state.reason)}`)} /></pre>;
    case "suspended":
      return (
        <div class="problem">
          {t("The circuit breaker is open after repeated failures. The next call is preceded by a probe in ", "失敗が続いたため遮断中です。次の確認まで ")}
          <Countdown left={state.retry_in_ms} />
        </div>
      );
    case "disabled":
      return <div class="problem">{t(`Disabled by ${state.by} since ${time(state.since)}.`, `${state.by} が ${time(state.since)} に無効にしました。`)}</div>;
    default:
      return null;
  }
}

interface DetailsProps {
  name: string;
  /** Why it could not be indexed for search. */
  unindexed: string | null;
  samples: Sample[];
  /** Whether there is a config file, which can be reloaded. */
  hasFile: boolean;
  changed: () => void;
}

function Details({ name, unindexed, samples, hasFile, changed }: DetailsProps) {
  const { data, error, refresh } = usePoll<PluginDetails>(`plugins/${encodeURIComponent(name)}`, INTERVAL);
  const mount = data?.status.mount;
  // Those after the mount are below it, but for what is sorted behind them.
  const subscriptions = usePoll<Subscriptions>(mount ? `subscriptions?after=${encodeURIComponent(mount)}` : null, INTERVAL);
  const watched = subscriptions.data?.resources.items.filter(({ uri }) => mount && uri.startsWith(mount)) ?? [];
  const [failure, setFailure] = useState<Error | null>(null);
  const [done, setDone] = useState("");
  const [isActing, setActing] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);
  const isLoaded = data !== null;
  useEffect(() => {
    // Whoever chose it in the table by keyboard is not to go through the rest of the table.
    if (isLoaded && document.activeElement?.closest("table")) {
      heading.current?.focus();
    }
  }, [isLoaded]);
  if (!data) {
    return <section aria-label={name}>{error ? <Problem error={error} /> : <Waiting />}</section>;
  }
  const { status, usage, loads, config, search, programs, requirements, log } = data;
  const warnings = [...data.warnings, ...(unindexed === null ? [] : [unindexedText(unindexed)])];
  const unmet = data.unmet.filter((one) => !data.warnings.includes(one));
  const optional = unmet.filter((one) => isOptional(one, requirements));
  const needed = unmet.filter((one) => !optional.includes(one));
  const act = async (path: string, said: (after: PluginDetails) => string) => {
    // A button that is disabled would lose the focus of the keyboard.
    if (isActing) {
      return;
    }
    setActing(true);
    setFailure(null);
    setDone("");
    try {
      setDone(said(await post<PluginDetails>(path)));
    } catch (error) {
      setFailure(error as Error);
    }
    setActing(false);
    refresh();
    changed();
  };
  const action = (kind: string) => `plugins/${encodeURIComponent(name)}/${kind}`;
  const lookups = status.cache.hits + status.cache.misses;
  return (
    <section aria-label={name} class="details">
      <h2 ref={heading} tabIndex={-1}>
        {name} <span class={`state ${status.state.name}`}>{stateName(status.state.name)}</span>
      </h2>
      {config?.title ? <p>{config.title}</p> : null}
      <Why state={status.state} />
      <Lines title={t("Warnings", "警告")} of={warnings} />
      <Lines title={t("Asked for and not met", "要求されているが満たされていないもの")} of={needed} />
      {status.configured ? null : <p class="muted">{builtInExplained()}</p>}
      {status.configured ? (
        <div class="buttons">
          {status.state.name === "disabled" ? (
            <button type="button" aria-disabled={isActing} onClick={() => act(action("enable"), (after) => outcome(after, t("Enabled", "有効にしました")))}>{t("Enable", "有効にする")}</button>
          ) : (
            // One element, which keeps the focus of the keyboard.
            <button
              type="button"
              aria-disabled={isActing}
              onClick={(event) => {
                if (!isAsking) {
                  setAsking(true);
                } else if (event.detail < 2) {
                  // The second click of a double click confirms nothing.
                  setAsking(false);
                  void act(action("disable"), () => t("Disabled.", "無効にしました。"));
                }
              }}
            >
              {isAsking ? t(`Disable ${name} for all clients`, `${name} を全クライアントに対して無効にする`) : t("Disable", "無効にする")}
            </button>
          )}
          {isAsking ? <button type="button" onClick={() => setAsking(false)}>{t("Cancel", "取り消し")}</button> : null}
          <button type="button" aria-disabled={isActing} onClick={() => act(action("reset"), (after) => outcome(after, t("Reset", "リセットしました")))}>{t("Reset", "リセット")}</button>
          {hasFile ? (
            <button type="button" aria-disabled={isActing} onClick={() => act("reload", () => t("Reloaded.", "再読み込みしました。"))}>{t("Reload the config", "設定を再読み込み")}</button>
          ) : null}
          <span role="status">{done}</span>
        </div>
      ) : null}
      <Problem error={failure ?? error} />
      <div class="charts">
        <Sparkline label={t("Calls per second", "呼び出し/秒")} at={samples.map(({ at }) => at)} values={samples.map(({ rate }) => rate)} show={(value) => number(value, 1)} />
        <Sparkline label={t("99th percentile", "99 パーセンタイル")} at={samples.map(({ at }) => at)} values={samples.map(({ p99 }) => p99)} show={(value) => duration(value / 1000)} />
      </div>
      <h3>{t("Used and allowed", "使用量と上限")}</h3>
      {status.memory ? <Meter label={t("Memory", "メモリ")} used={status.memory.used} limit={status.memory.limit} show={size} /> : null}
      {usage ? <UsedLimits usage={usage} /> : null}
      <Meter label={t("Cache", "キャッシュ")} used={status.cache.bytes} limit={status.cache.capacity} show={size} />
      <Facts
        of={[
          [t("Cache hits", "キャッシュヒット"), lookups > 0 ? `${number((100 * status.cache.hits) / lookups, 1)} % (${number(lookups)})` : "–"],
          [t("Watched resources", "監視中のリソース"), number(status.watched)],
          [t("Loads", "読み込み"), loaded(loads)],
          ...(search ? [[t("Indexed resources", "索引済みリソース"), `${number(search.documents)}${search.complete ? "" : t(", incomplete", "（未完）")}`] as [string, string]] : []),
          ...Object.entries(status.faults).map(([kind, count]): [string, string] => [`${t("Faults", "障害")}: ${faultName(kind)}`, number(count)]),
        ]}
      />
      {status.watched > 0 ? (
        <>
          <h3>{t("Subscriptions", "購読")}</h3>
          <SubscriptionTable resources={watched} total={Math.max(watched.length, status.watched)} />
        </>
      ) : null}
      {status.preparation ? <PreparationView preparation={status.preparation} /> : null}
      {programs ? <ProgramList all={programs} /> : null}
      {search?.gaps.map((gap) => <p class="muted" key={gap}>{gap}</p>)}
      <h3>{t("Log", "ログ")}</h3>
      {log.length === 0 ? <p class="muted">{t("Nothing was logged of it.", "記録はありません。")}</p> : null}
      <ol class="log">
        {[...log].reverse().map((line, index) => (
          <li key={`${line.time} ${log.length - index}`}>
            <span class="muted">{time(line.time)} {line.level}</span> {line.text}
            {line.times > 1 ? <span class="muted"> {t(`(${number(line.times)} times)`, `（${number(line.times)} 回）`)}</span> : null}
          </li>
        ))}
      </ol>
      {config ? (
        <>
          <h3>{t("Limits", "上限")}</h3>
          <Facts
            of={[
              ["memory", size(config.limits.memory)],
              ["cpu", duration(config.limits.cpu_ms)],
              ["deadline", duration(config.limits.deadline_ms)],
              ["concurrency", number(config.limits.concurrency)],
              ["queue", `${number(config.limits.queue)}, ${duration(config.limits.queue_timeout_ms)}`],
              ["rate", config.limits.rate],
              ["response-size", size(config.limits.response_size)],
              ["response-items", number(config.limits.response_items)],
              ["listing-items", number(config.limits.listing_items)],
              ["log", config.limits.log],
              ["handles", number(config.limits.handles)],
              ["files", number(config.limits.files)],
              ["random-bytes", size(config.limits.random_bytes)],
              ["http.concurrency", number(config.limits.http.concurrency)],
              ["http.rate", config.limits.http.rate],
              ["http.headers", size(config.limits.http.headers)],
              ["http.body", size(config.limits.http.body)],
              ["http.timeout", duration(config.limits.http.timeout_ms)],
              ...preparationLimits(config.limits),
            ]}
          />
          <h3>{t("Grants", "許可")}</h3>
          <GrantList grants={config.grants} />
          <Lines title={t("Optional, and not granted", "任意で、許可されていないもの")} of={optional} />
          {requirements.length > 0 ? (
            <>
              <h3>{t("Imports and grants", "インポートと許可")}</h3>
              <Facts of={requirements.map(({ capability, status, granted }): [string, string] => [capability, `${requirementName(status)}${granted.length > 0 ? `: ${granted.join(", ")}` : ""}`])} />
            </>
          ) : null}
          <h3>{t("Component", "コンポーネント")}</h3>
          <Facts
            of={[
              [t("File", "ファイル"), config.component],
              [t("Mount", "マウント"), status.mount],
              ["SHA-256", status.digest ?? "–"],
              [t("Required", "必須"), config.required ? t("yes", "はい") : t("no", "いいえ")],
              [t("Polled every", "確認間隔"), duration(config.watch_interval_ms)],
              [t("Keys of config", "config のキー"), config.config_keys.join(", ") || "–"],
            ]}
          />
        </>
      ) : null}
    </section>
  );
}

/** What the server says of a plugin, one item for each line. */
function Lines({ title, of }: { title: string; of: string[] }) {
  return of.length > 0 ? (
    <section aria-label={title}>
      <h3>{title}</h3>
      <ul class="unmet">{of.map((one) => <li key={one}><Message text={said(one)} /></li>)}</ul>
    </section>
  ) : null;
}

/** Whether a provider works without a bucket that it asks for: then its imports need no grant. Other requests are not optional. */
function isOptional(unmet: string, requirements: PluginDetails["requirements"]): boolean {
  return unmet.includes("in `grants.keyvalue`, which is not granted")
    && requirements.some(({ capability, status }) => capability === "keyvalue" && status === "not granted");
}

/** The limits of preparations, if the config has them. */
function preparationLimits({ prepare }: Limits): [string, string][] {
  return prepare ? [["prepare.cpu", duration(prepare.cpu_ms)], ["prepare.memory", size(prepare.memory)]] : [];
}

/** Calls and stored data, each against its limit. */
function UsedLimits({ usage }: { usage: Usage }) {
  const { running, concurrency, waiting, queue, buckets } = usage;
  const count = (value: number) => number(value);
  return (
    <>
      <Meter label={t("Running calls", "実行中の呼び出し")} used={running} limit={concurrency} show={count} />
      <Meter label={t("Waiting calls", "待機中の呼び出し")} used={waiting} limit={queue} show={count} />
      {buckets.map(({ name, bytes, max_bytes, keys, max_keys }) => (
        <Fragment key={name}>
          <Meter label={t(`Bucket ${name}`, `バケット ${name}`)} used={bytes} limit={max_bytes} show={size} />
          <Meter label={t(`Keys of ${name}`, `${name} のキー`)} used={keys} limit={max_keys} show={count} />
        </Fragment>
      ))}
    </>
  );
}

/** What was done, and the state that the plugin is in after it, if that is not what was wanted. */
function outcome({ status: { state } }: PluginDetails, done: string): string {
  return state.name === "ready" ? t(`${done}.`, `${done}。`) : t(`${done}; it is ${stateName(state.name)}.`, `${done}が、状態は「${stateName(state.name)}」です。`);
}

/** How often a plugin was loaded, and failed to be, since the start of the server. */
function loaded({ succeeded, failed }: PluginDetails["loads"]): string {
  const failures = Object.entries(failed).map(([reason, count]) => t(`${number(count)} failed (${reason})`, `失敗 ${number(count)}（${loadFailureName(reason)}）`));
  return [number(succeeded), ...failures].join(t(", ", "、"));
}

/** How what a component imports and what its plugin is granted relate. */
function requirementName(status: string): string {
  switch (status) {
    case "not required":
      return t("no grant needed", "許可は不要");
    case "granted":
      return t("granted", "許可済み");
    case "not granted":
      return t("not granted, perhaps not needed", "未許可（不要の場合あり）");
    case "missing":
      return t("missing", "不足");
    case "unused":
      return t("granted and not used", "許可済み・未使用");
    default:
      return t("always refused", "常に拒否");
  }
}

function GrantList({ grants }: { grants: Grants }) {
  const all = [
    ...grants.dirs.map(({ host, guest, writable }) => `${t("directory", "ディレクトリ")} ${host} → ${guest}${writable ? t(" (writable)", "（書き込み可）") : ""}`),
    ...grants.http.map((origin) => `HTTP ${origin}`),
    ...grants.env.map((name) => `${t("variable", "変数")} ${name}`),
    ...grants.keyvalue.map((name) => `${t("bucket", "バケット")} ${name}`),
    ...grants.sql.map((name) => `${t("database", "データベース")} ${name}`),
  ];
  if (all.length === 0) {
    return <p class="muted">{t("None", "なし")}</p>;
  }
  return (
    <ul class="plain">
      {all.map((one) => <li key={one}>{one}</li>)}
    </ul>
  );
}
