// Who is subscribed to which resources.

import { number, t } from "./language";
import { link } from "./parts";
import type { WatchedResource } from "./types";

export function SubscriptionTable({ resources, total }: { resources: WatchedResource[]; total: number }) {
  const subscribed = resources.filter(({ subscribers }) => subscribers > 0);
  if (subscribed.length === 0) {
    return <p class="muted">{t("Nobody is subscribed to a resource.", "購読者はいません。")}</p>;
  }
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={t("Table of subscriptions", "購読の表")}>
        <table>
          <thead>
            <tr>
              <th scope="col">URI</th>
              <th scope="col" class="figure">{t("Subscribers", "購読者")}</th>
              <th scope="col">{t("Principals", "プリンシパル")}</th>
            </tr>
          </thead>
          <tbody>
            {subscribed.map(({ uri, subscribers, unheard, principals }) => (
              <tr key={uri}>
                <td class="uri"><a href={link("resources", uri)}>{uri}</a></td>
                <td class="figure">
                  {number(subscribers)}
                  {unheard > 0 ? <span class="muted block">{t(`${number(unheard)} without a stream`, `うちストリームなし ${number(unheard)}`)}</span> : null}
                </td>
                <td>{principals.join(", ")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {resources.length < total ? (
        <p class="muted">{t(`The first ${number(resources.length)} of ${number(total)} watched resources.`, `監視中の ${number(total)} 件のうち最初の ${number(resources.length)} 件。`)}</p>
      ) : null}
    </>
  );
}
