// The programs of an upstream: processes, restarts, what they use of what they may, and how the last one ended.

import { duration, number, size, t, time } from "./language";
import { Message } from "./message";
import { Facts, Meter } from "./parts";
import { programEndName, said } from "./reasons";
import type { Program, Programs } from "./types";

export function ProgramList({ all }: { all: Programs }) {
  const { programs, starts, ends, last_end } = all;
  const counted = Object.entries(ends).map(([reason, count]) => `${programEndName(reason)}: ${number(count)}`);
  return (
    <section aria-label={t("Programs", "プログラム")}>
      <h3>{t("Programs", "プログラム")}</h3>
      {last_end ? (
        <p class={last_end.reason === "memory" || last_end.reason === "cpu" ? "problem" : "muted"}>
          <Message text={t(`The last end was at ${time(last_end.time)}: ${last_end.text}.`, `最後の終了は ${time(last_end.time)}: ${said(last_end.text)}`)} />
        </p>
      ) : null}
      <Facts
        of={[
          [t("Starts since it was loaded", "読み込み後の起動回数"), number(starts)],
          [t("Ends", "終了"), counted.join(t(", ", "、")) || t("none", "なし")],
        ]}
      />
      {programs.map((program, at) => <OneProgram key={at} program={program} />)}
    </section>
  );
}

function OneProgram({ program }: { program: Program }) {
  const { process, state, started, restarts } = program;
  const isRunning = state === "running";
  const name = process === null ? t("Process", "プロセス") : t(`Process ${process}`, `プロセス ${process}`);
  return (
    <section class="program" aria-label={name}>
      <h4>
        {name} <span class={`state ${isRunning ? "ready" : "failed"}`}>{isRunning ? t("running", "実行中") : t("ended", "終了")}</span>
      </h4>
      <Use label={t("Memory", "メモリ")} used={program.memory} limit={program.memory_limit} show={size} />
      <Use label={t("Processes and threads", "プロセスとスレッド")} used={program.processes} limit={program.processes_limit} show={(value) => number(value)} />
      <Use label={t("Processor time", "CPU 時間")} used={program.cpu_ms} limit={program.cpu_limit_ms} show={duration} />
      <Facts
        of={[
          [t("Started", "起動"), time(started)],
          [t("Restarts", "再起動"), number(restarts)],
        ]}
      />
    </section>
  );
}

interface UseProps {
  label: string;
  used: number | null;
  limit: number | null;
  show: (value: number) => string;
}

/** What is used of a limit, or without one what is used. */
function Use({ label, used, limit, show }: UseProps) {
  if (used === null) {
    return null;
  }
  if (limit !== null) {
    return <Meter label={label} used={used} limit={limit} show={show} />;
  }
  return (
    <div class="meter">
      <span>{label}</span>
      <span class="muted">{t("no limit", "上限なし")}</span>
      <span class="figures">{show(used)}</span>
    </div>
  );
}
