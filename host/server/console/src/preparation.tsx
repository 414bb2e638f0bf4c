// The preparation of a plugin: work of its provider that takes longer than a call.

import { duration, number, t, time } from "./language";
import { Message } from "./message";
import { Facts, Meter } from "./parts";
import { said } from "./reasons";
import type { Preparation } from "./types";

/** The class of a state, as those of plugins have one. */
const CLASSES: Record<Preparation["state"], string> = {
  off: "disabled",
  waiting: "loading",
  running: "loading",
  done: "ready",
  failing: "failed",
  stopped: "failed",
};

function stateName(state: Preparation["state"]): string {
  switch (state) {
    case "off":
      return t("off", "無効");
    case "waiting":
      return t("waiting", "待機中");
    case "running":
      return t("running", "実行中");
    case "done":
      return t("done", "完了");
    case "failing":
      return t("failing", "失敗中");
    case "stopped":
      return t("stopped", "停止");
  }
}

/** How far it is, in a few words; nothing of one that is done, or is not to be made. */
export function preparationNote({ state, percent }: Preparation): string | null {
  switch (state) {
    case "off":
    case "done":
      return null;
    case "failing":
    case "stopped":
      return t("preparation fails", "準備に失敗");
    default:
      return percent === null ? t("being prepared", "準備中") : t(`being prepared, ${percent} %`, `準備中 ${percent} %`);
  }
}

export function PreparationView({ preparation }: { preparation: Preparation }) {
  const { state, since, percent, message, reason, calls, cpu_ms, cpu_limit_ms } = preparation;
  return (
    <section aria-label={t("Preparation", "データの準備")}>
      <h3>
        {t("Preparation", "データの準備")} <span class={`state ${CLASSES[state]}`}>{stateName(state)}</span>
      </h3>
      {state === "off" ? (
        <div class="problem">
          {t(
            "The provider wants to prepare its data in the background, which the config does not allow: add to the plugin ",
            "プロバイダーはバックグラウンドでのデータの準備を求めていますが、設定で許可されていません。プラグインに追加してください: ",
          )}
          <code>limits.prepare = {'{ cpu = "1m", memory = "64MiB" }'}</code>
        </div>
      ) : null}
      {reason ? (
        <pre class="problem">
          <Message text={state === "failing"
            ? t(`It has failed since ${time(since)}, and is tried again: ${reason}`, `${time(since)} から失敗し、再試行しています: ${said(reason)}`)
            : t(`It ended at ${time(since)} without being done: ${reason}`, `${time(since)} に未完のまま終了しました: ${said(reason)}`)} />
        </pre>
      ) : null}
      {percent === null ? null : <Meter label={t("Prepared", "準備済み")} used={percent} limit={100} show={(value) => `${number(value)} %`} isGood />}
      {cpu_limit_ms === null ? null : <Meter label={t("Its CPU time", "準備の CPU 時間")} used={cpu_ms} limit={cpu_limit_ms} show={duration} />}
      <Facts
        of={[
          [t("Since", "開始"), time(since)],
          [t("Calls", "呼び出し"), number(calls)],
          [t("The provider says", "プロバイダーの報告"), message ?? "–"],
        ]}
      />
    </section>
  );
}
