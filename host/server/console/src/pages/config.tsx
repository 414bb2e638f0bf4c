// Config: what is served, and whether the file on disk is that.

import { useEffect, useState } from "preact/hooks";
import { ApiError, post } from "../api";
import { duration, number, size, t, time } from "../language";
import { Message } from "../message";
import { Facts, link, Problem, usePoll, Waiting } from "../parts";
import { said, unindexedText } from "../reasons";
import type { ConfigView, LogView, Page, Reload, Status } from "../types";

export function Config() {
  const config = usePoll<ConfigView>("config", 5000);
  const status = usePoll<Status>("status?limit=1", 2000);
  // Without a config file, as with `serve DIRECTORY`, there is nothing to reload.
  const hasFile = config.data !== null && config.data.file !== null;
  const changes = usePoll<Reload>(hasFile ? "config/changes" : null, 5000);
  const warnings = usePoll<Page<string>>("config/warnings", 30_000);
  const [failure, setFailure] = useState<Error | null>(null);
  const [done, setDone] = useState<Reload | null>(null);
  const [isActing, setActing] = useState(false);
  const generation = config.data?.generation;
  useEffect(() => {
    // Another generation has others.
    if (generation !== undefined) {
      warnings.refresh();
    }
  }, [generation]);
  if (!config.data || !status.data) {
    const error = config.error ?? status.error;
    return error ? <Problem error={error} /> : <Waiting />;
  }
  const { server, rules, principals, groups, issuers, plugins } = config.data;
  const failed = status.data.reload_failure;
  const unindexed = Object.entries(status.data.search_failures);
  const reload = async () => {
    if (isActing) {
      return;
    }
    setActing(true);
    setFailure(null);
    setDone(null);
    try {
      setDone(await post<Reload>("reload"));
    } catch (error) {
      setFailure(error as Error);
    }
    setActing(false);
    config.refresh();
    status.refresh();
    changes.refresh();
  };
  return (
    <>
      <Problem error={config.error ?? status.error} />
      <section aria-label={t("State", "状態")}>
        <Facts
          of={[
            [t("File", "ファイル"), config.data.file ?? t("none: started without a config", "なし（設定ファイルなしで起動）")],
            [t("Generation", "世代"), number(config.data.generation)],
            ...(hasFile ? [[t("The file is served", "ファイルの反映"), served(failed !== null, changes.data, changes.error)] as [string, string]] : []),
            ...(changes.data ? [[t("Served for", "反映からの時間"), duration(changes.data.served_ms)] as [string, string]] : []),
          ]}
        />
        {failed ? (
          <>
            <p>{t(`The reload of ${time(failed.time)} failed:`, `${time(failed.time)} の再読み込みは失敗しました:`)}</p>
            <pre class="problem"><Message text={failed.reason} /></pre>
          </>
        ) : null}
        {changes.data && (changes.data.changed || changes.data.requires_restart.length > 0) ? (
          <div class="notice" role="status">
            <p>{t("A reload of the file, or a restart, would change:", "再読み込みまたは再起動で変わるもの:")}</p>
            <Difference reload={changes.data} />
          </div>
        ) : null}
        {changes.data ? <Failing reload={changes.data} /> : null}
        {changes.error instanceof ApiError && changes.error.status === 409 && !failed ? <pre class="problem"><Message text={changes.error.message} /></pre> : null}
        {hasFile ? (
          <div class="buttons">
            <button type="button" aria-disabled={isActing} onClick={reload}>{t("Reload", "再読み込み")}</button>
            <span role="status">{done ? <Changes reload={done} /> : null}</span>
          </div>
        ) : null}
        {failure ? <pre class="problem" role="alert"><Message text={failure.message} /></pre> : null}
      </section>
      <section aria-label={t("Warnings", "警告")}>
        <h2>{t("Warnings", "警告")}</h2>
        <Problem error={warnings.error} />
        {unindexed.map(([name, reason]) => (
          <p class="warning" key={name}>
            <a href={link("plugins", name)}>{name}</a>: <Message text={unindexedText(reason)} />
          </p>
        ))}
        {warnings.data?.total === 0 && unindexed.length === 0 ? <p class="muted">{t("None", "なし")}</p> : null}
        {warnings.data?.items.map((warning) => <pre class="warning" key={warning}><Message text={said(warning)} /></pre>)}
        {warnings.data ? <Cut page={warnings.data} /> : null}
      </section>
      <section aria-label={t("Server", "サーバー")}>
        <h2>{t("Server", "サーバー")}</h2>
        <Facts
          of={[
            ["name", server.name],
            ["http", server.http ?? t("none: stdio", "なし（標準入出力）")],
            ["TLS", server.tls ? t("yes", "はい") : t("no", "いいえ")],
            ["page-size", number(server.page_size)],
            ["response-cache", size(server.response_cache)],
            ["confine", String(server.confine)],
            ["drain-delay", duration(server.drain_delay_ms)],
            ["admin.listen", config.data.admin ?? "–"],
            ["audit", config.data.audit ?? t("none", "なし")],
          ]}
        />
      </section>
      <section aria-label={t("Access rules", "アクセス規則")}>
        <h2>{t("Access rules", "アクセス規則")}</h2>
        {rules.items.length === 0 ? <p class="muted">{t("None", "なし")}</p> : (
          <div class="scroll" tabIndex={0} role="region" aria-label={t("Table of rules", "規則の表")}>
            <table>
              <thead>
                <tr>
                  <th scope="col" class="figure">{t("Line", "行")}</th>
                  <th scope="col">{t("Principals and groups", "プリンシパルとグループ")}</th>
                  <th scope="col">{t("Operations", "操作")}</th>
                  <th scope="col">allow</th>
                  <th scope="col">deny</th>
                </tr>
              </thead>
              <tbody>
                {rules.items.map((rule, at) => (
                  <tr key={at}>
                    <td class="figure">{rule.line ?? "–"}</td>
                    <td>{[...rule.principals, ...rule.groups.map((name) => `${t("group", "グループ")} ${name}`)].join(", ")}</td>
                    <td>{rule.operations.join(", ")}</td>
                    <td class="uri">{rule.allow.join("\n")}</td>
                    <td class="uri">{rule.deny.join("\n")}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        <Cut page={rules} />
      </section>
      <section aria-label={t("Who may ask", "利用者")}>
        <h2>{t("Who may ask", "利用者")}</h2>
        <Facts
          of={[
            [t("Principals", "プリンシパル"), principals.items.join(", ") || t("none", "なし")],
            [t("Issuers", "発行者"), issuers.items.map(({ name, issuer }) => `${name} (${issuer})`).join(", ") || t("none", "なし")],
            [t("Groups", "グループ"), groups.items.map(({ name, principals, groups }) => `${name}: ${[...principals, ...groups].join(", ")}`).join("; ") || t("none", "なし")],
          ]}
        />
      </section>
      <section aria-label={t("Plugins", "プラグイン")}>
        <h2>{t("Plugins", "プラグイン")}</h2>
        <ul class="plain">
          {plugins.items.map((plugin) => (
            <li key={plugin.name}><a href={link("plugins", plugin.name)}>{plugin.name}</a> <span class="muted">{plugin.mount}</span></li>
          ))}
        </ul>
        <Cut page={plugins} />
      </section>
      <LogFilter log={status.data.log} changed={status.refresh} />
    </>
  );
}

/** Says that a list is not whole. */
function Cut({ page }: { page: Page<unknown> }) {
  return page.items.length < page.total ? (
    <p class="muted">{t(`The first ${number(page.items.length)} of ${number(page.total)}.`, `${number(page.total)} 件のうち最初の ${number(page.items.length)} 件。`)}</p>
  ) : null;
}

/** Whether the file is what is served. */
function served(hasFailed: boolean, changes: Reload | null, error: Error | null): string {
  if (hasFailed) {
    return t("no: the last reload failed", "いいえ（再読み込みに失敗）");
  }
  if (error) {
    return t("not known", "不明");
  }
  if (changes?.changed) {
    return t("no: it has changed", "いいえ（変更あり）");
  }
  return changes && changes.requires_restart.length > 0 ? t("in part: some keys need a restart", "一部（再起動が必要なキーあり）") : t("yes", "はい");
}

/** What a reload changes, by kind, with the names. */
function differences(reload: Reload): [string, string[]][] {
  const parts: [string, string[]][] = [
    [t("added", "追加"), reload.plugins_added],
    [t("changed", "変更"), reload.plugins_changed.map((name) => {
      const keys = reload.changed_keys[name];
      return keys ? `${name} (${keys.join(", ")})` : name;
    })],
    [t("removed", "削除"), reload.plugins_removed],
    [t("settings", "設定"), reload.settings_changed],
    [t("after a restart", "再起動後"), reload.requires_restart],
  ];
  return parts.filter(([, names]) => names.length > 0);
}

/** The plugins that fail, before a reload and after it. */
function Failing({ reload }: { reload: Reload }) {
  const failing = Object.entries(reload.plugins_failing);
  if (failing.length === 0) {
    return null;
  }
  return (
    <div class="problem">
      <strong>
        {reload.would_fail
          ? t("A reload would fail:", "再読み込みは失敗します:")
          : t("These fail, and a reload would not change that:", "次のプラグインは失敗しており、再読み込みでは変わりません:")}
      </strong>
      <ul class="plain">
        {failing.map(([name, reason]) => (
          <li key={name}><a href={link("plugins", name)}>{name}</a>: <Message text={said(reason)} /></li>
        ))}
      </ul>
    </div>
  );
}

function Difference({ reload }: { reload: Reload }) {
  return (
    <ul class="plain">
      {differences(reload).map(([kind, names]) => <li key={kind}>{kind}: <span class="uri">{names.join(", ")}</span></li>)}
    </ul>
  );
}

function Changes({ reload }: { reload: Reload }) {
  if (!reload.changed) {
    return <>{t("Nothing has changed.", "変更はありません。")}</>;
  }
  const shown = differences(reload).map(([kind, names]) => `${kind}: ${names.join(", ")}`);
  return <>{t(`Generation ${reload.generation}. `, `世代 ${reload.generation}。`)}{shown.join("; ")}</>;
}

function LogFilter({ log, changed }: { log: LogView; changed: () => void }) {
  const [filter, setFilter] = useState("");
  const [failure, setFailure] = useState<Error | null>(null);
  const set = async (wanted: { filter: string } | { restore: true }) => {
    setFailure(null);
    try {
      await post("log", wanted);
    } catch (error) {
      setFailure(error as Error);
    }
    changed();
  };
  if (log.filter === null) {
    return null;
  }
  return (
    <section aria-label={t("Log", "ログ")}>
      <h2>{t("Log", "ログ")}</h2>
      <Facts
        of={[
          [t("Filter", "フィルター"), log.filter],
          ...(log.until ? [[t("Until", "期限"), `${time(log.until)} (${log.by})`] as [string, string]] : []),
        ]}
      />
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          void set({ filter });
        }}
      >
        <label>
          {t("Another filter, for 10 minutes", "別のフィルター（10 分間）")}
          <input required value={filter} placeholder="debug" onInput={(event) => setFilter(event.currentTarget.value)} />
        </label>
        <button type="submit">{t("Set", "設定")}</button>
        {log.until ? <button type="button" onClick={() => set({ restore: true })}>{t("Restore", "元に戻す")}</button> : null}
      </form>
      <Problem error={failure} />
    </section>
  );
}
