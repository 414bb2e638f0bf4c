// Plugins: state, loads, failures, rates, limits, cache, circuit breaker; and what an administrator does about them.

import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "../api";
import { duration, number, size, t, time } from "../language";
import { Facts, link, Meter, Problem, usePoll, Waiting } from "../parts";
import { Sparkline } from "../sparkline";
import { SubscriptionTable } from "../subscriptions";
import type { Grants, PluginDetails, PluginState, PluginStatus, Status, Subscriptions } from "../types";

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
  useEffect(() => {
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
  const shown = data.plugins.items.filter(
    (plugin) => `${plugin.name} ${plugin.mount}`.toLowerCase().includes(wanted) && isIn(plugin, state),
  );
  const failing = data.plugins.items.filter((plugin) => isIn(plugin, NOT_SERVED)).length;
  return (
    <>
      <Problem error={error} />
      <Overview status={data} failing={failing} />
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
                <option value={NOT_SERVED}>{t("not served", "停止中")}</option>
                {STATES.map((name) => <option key={name} value={name}>{stateName(name)}</option>)}
              </select>
            </label>
          </form>
          <p class="muted" role="status">{t(`${number(shown.length)} of ${number(data.plugins.total)} plugins`, `${number(data.plugins.total)} 件中 ${number(shown.length)} 件`)}</p>
          <div class="scroll" tabIndex={0} role="region" aria-label={t("Table of plugins", "プラグインの表")}>
            <table>
              <thead>
                <tr>
                  <th scope="col">{t("Name", "名前")}</th>
                  <th scope="col">{t("State", "状態")}</th>
                  <th scope="col" class="figure">{t("Calls/s", "呼び出し/秒")}</th>
                  <th scope="col" class="figure">p99</th>
                  <th scope="col" class="figure">{t("Faults", "失敗")}</th>
                </tr>
              </thead>
              <tbody>
                {shown.map((plugin) => (
                  <PluginRow key={plugin.name} plugin={plugin} isSelected={plugin.name === selected} />
                ))}
              </tbody>
            </table>
          </div>
          {shown.length === 0 ? <p class="muted">{t("No plugin matches.", "該当するプラグインはありません。")}</p> : null}
          {data.plugins.next ? (
            <p class="muted">
              {t(`The first ${data.plugins.items.length} of ${data.plugins.total}.`, `${data.plugins.total} 件のうち最初の ${data.plugins.items.length} 件。`)}
            </p>
          ) : null}
        </section>
        {selected ? <Details key={selected} name={selected} samples={history.current.get(selected) ?? []} changed={refresh} /> : null}
      </div>
    </>
  );
}

function Overview({ status, failing }: { status: Status; failing: number }) {
  return (
    <>
      <Facts
        of={[
          [t("Ready", "準備完了"), status.ready ? t("yes", "はい") : t("no", "いいえ")],
          [t("Plugins", "プラグイン"), `${number(status.plugins.total)}${failing > 0 ? t(`, ${failing} not served`, `（停止中 ${failing}）`) : ""}`],
          [t("Sessions", "セッション"), number(status.sessions)],
          [t("Watched resources", "監視中のリソース"), number(status.watched.resources)],
          [t("Running for", "稼働時間"), duration(status.uptime_seconds * 1000)],
          [t("Version", "バージョン"), status.version],
        ]}
      />
      {status.not_ready.map((reason) => (
        <div class="problem" key={reason}>{reason}</div>
      ))}
    </>
  );
}

const STATES: PluginState["name"][] = ["ready", "loading", "failed", "suspended", "disabled"];
/** The choice of all states in which a plugin is not served. */
const NOT_SERVED = "not served";

function isIn({ state }: PluginStatus, chosen: string): boolean {
  return chosen === "" || (chosen === NOT_SERVED ? state.name !== "ready" && state.name !== "loading" : state.name === chosen);
}

function stateName(state: PluginState["name"]): string {
  switch (state) {
    case "ready":
      return t("ready", "稼働中");
    case "loading":
      return t("loading", "読み込み中");
    case "failed":
      return t("failed", "失敗");
    case "suspended":
      return t("suspended", "一時停止");
    case "disabled":
      return t("disabled", "無効");
  }
}

function PluginRow({ plugin, isSelected }: { plugin: PluginStatus; isSelected: boolean }) {
  const { recent, state } = plugin;
  const faults = Object.values(plugin.faults).reduce((sum, count) => sum + count, 0);
  return (
    <tr class={isSelected ? "selected" : ""}>
      <th scope="row">
        <a href={link("plugins", plugin.name)} aria-current={isSelected ? "true" : undefined}>{plugin.name}</a>
        <span class="muted block">{plugin.mount}</span>
      </th>
      <td><span class={`state ${state.name}`}>{stateName(state.name)}</span></td>
      <td class="figure">{recent && recent.window_ms > 0 ? number((recent.calls * 1000) / recent.window_ms, 1) : "–"}</td>
      <td class="figure">{recent?.p99_us != null ? duration(recent.p99_us / 1000) : "–"}</td>
      <td class="figure">{number(faults)}</td>
    </tr>
  );
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
    case "failed":
      return <pre class="problem">{state.reason}</pre>;
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

function Details({ name, samples, changed }: { name: string; samples: Sample[]; changed: () => void }) {
  const { data, error, refresh } = usePoll<PluginDetails>(`plugins/${encodeURIComponent(name)}`, INTERVAL);
  const mount = data?.status.mount;
  // Those after the mount are below it, but for what is sorted behind them.
  const subscriptions = usePoll<Subscriptions>(mount ? `subscriptions?after=${encodeURIComponent(mount)}` : null, INTERVAL);
  const watched = subscriptions.data?.resources.items.filter(({ uri }) => mount && uri.startsWith(mount)) ?? [];
  const [failure, setFailure] = useState<Error | null>(null);
  const [done, setDone] = useState("");
  const [isActing, setActing] = useState(false);
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
  const { status, config, search, requirements, log } = data;
  const act = async (path: string, said: string) => {
    // A button that is disabled would lose the focus of the keyboard.
    if (isActing) {
      return;
    }
    setActing(true);
    setFailure(null);
    setDone("");
    try {
      await post(path);
      setDone(said);
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
      {status.configured ? (
        <div class="buttons">
          {status.state.name === "disabled" ? (
            <button type="button" aria-disabled={isActing} onClick={() => act(action("enable"), t("Enabled.", "有効にしました。"))}>{t("Enable", "有効にする")}</button>
          ) : (
            <button type="button" aria-disabled={isActing} onClick={() => act(action("disable"), t("Disabled.", "無効にしました。"))}>{t("Disable", "無効にする")}</button>
          )}
          <button type="button" aria-disabled={isActing} onClick={() => act(action("reset"), t("Reset.", "リセットしました。"))}>{t("Reset", "リセット")}</button>
          <button type="button" aria-disabled={isActing} onClick={() => act("reload", t("Reloaded.", "再読み込みしました。"))}>{t("Reload the config", "設定を再読み込み")}</button>
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
      <Meter label={t("Cache", "キャッシュ")} used={status.cache.bytes} limit={status.cache.capacity} show={size} />
      <Facts
        of={[
          [t("Cache hits", "キャッシュヒット"), lookups > 0 ? `${number((100 * status.cache.hits) / lookups, 1)} % (${number(lookups)})` : "–"],
          [t("Watched resources", "監視中のリソース"), number(status.watched)],
          ...(search ? [[t("Indexed resources", "索引済みリソース"), `${number(search.documents)}${search.complete ? "" : t(", incomplete", "（未完）")}`] as [string, string]] : []),
          ...Object.entries(status.faults).map(([kind, count]): [string, string] => [`${t("Faults", "失敗")}: ${kind}`, number(count)]),
        ]}
      />
      {status.watched > 0 ? (
        <>
          <h3>{t("Subscriptions", "購読")}</h3>
          <SubscriptionTable resources={watched} total={Math.max(watched.length, status.watched)} />
        </>
      ) : null}
      {search?.gaps.map((gap) => <p class="muted" key={gap}>{gap}</p>)}
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
            ]}
          />
          <h3>{t("Grants", "許可")}</h3>
          <GrantList grants={config.grants} />
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
      <h3>{t("Log", "ログ")}</h3>
      {log.length === 0 ? <p class="muted">{t("Nothing was logged of it.", "記録はありません。")}</p> : null}
      <ol class="log">
        {[...log].reverse().map((line, index) => (
          <li key={`${line.time} ${log.length - index}`}>
            <span class="muted">{time(line.time)} {line.level}</span> {line.text}
          </li>
        ))}
      </ol>
    </section>
  );
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
