// What an administrator is told on every page: that a reload failed, and that the audit log cannot be written.

import { t, time } from "./language";
import { Message } from "./message";
import { AuditProblem, link, usePoll } from "./parts";
import type { Status } from "./types";

/** The interval at which the server is asked. */
const INTERVAL = 3000;

/** `page` is the name of the page below, as the page of the config has the reason of a failed reload itself. */
export function Banners({ page }: { page: string }) {
  const status = usePoll<Status>("status?limit=1", INTERVAL).data;
  const failed = status?.reload_failure;
  return (
    <>
      <AuditProblem audit={status?.audit ?? null} />
      {failed && page !== "config" ? (
        <div class="problem" role="alert">
          <strong>{t(`The reload of ${time(failed.time)} failed, so the config file is not served as it is.`, `${time(failed.time)} の再読み込みは失敗し、設定ファイルは反映されていません。`)}</strong>
          <p class="uri"><Message text={firstLine(failed.reason)} /></p>
          <p><a href={link("config")}>{t("Why, and what is served", "理由と反映中の設定")}</a></p>
        </div>
      ) : null}
    </>
  );
}

/** The first line of a reason that says what is wrong: behind what is served instead, if an error of the config follows. */
function firstLine(reason: string): string {
  const lines = reason.split("\n").filter((line) => line.trim() !== "");
  return lines.find((line) => line.startsWith("error: ")) ?? lines[0] ?? "";
}
