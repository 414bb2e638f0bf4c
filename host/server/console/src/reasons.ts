// What the server says in English of a closed list, in the language of the reader. What a provider, a program or a system says stays as it is.

import { currentLanguage, t, time } from "./language";

const FAULTS: Record<string, string> = {
  unavailable: "利用不可",
  internal: "内部エラー",
  trap: "トラップ",
  panic: "パニック",
  contract: "契約違反",
  deadline: "期限超過",
  cpu: "CPU 時間超過",
  memory: "メモリ超過",
  "response-size": "応答サイズ超過",
  "response-items": "応答件数超過",
  "listing-items": "一覧件数超過",
  handles: "ハンドル超過",
  "random-bytes": "乱数バイト超過",
  rate: "レート超過",
  queue: "キュー満杯",
  "queue-timeout": "キュー待ち時間超過",
  suspended: "遮断中",
  "faulty-input": "問題のある入力",
  grant: "許可を使用できない",
  host: "ホストのエラー",
};

const LOAD_FAILURES: Record<string, string> = {
  read: "読み取り不可",
  "not-a-component": "コンポーネントではない",
  "too-large": "大きすぎる",
  memory: "メモリ",
  digest: "ダイジェスト不一致",
  compile: "コンパイル",
  import: "インポート",
  "not-a-provider": "プロバイダーではない",
  cache: "キャッシュ",
  describe: "describe",
  database: "データベース",
  upstream: "アップストリーム",
};

const PROGRAM_ENDS: Record<string, [string, string]> = {
  exit: ["exited", "終了"],
  signal: ["by a signal", "シグナル"],
  memory: ["above the memory limit", "メモリ上限超過"],
  cpu: ["above the limit of processor time", "CPU 時間上限超過"],
  stopped: ["by the host", "ホストによる停止"],
  unknown: ["unknown", "不明"],
};

/** The kind of a fault. */
export function faultName(kind: string): string {
  return t(kind, FAULTS[kind] ?? kind);
}

/** Why a plugin could not be loaded, in a word. */
export function loadFailureName(reason: string): string {
  return t(reason, LOAD_FAILURES[reason] ?? reason);
}

/** Why a program has ended, in a few words. */
export function programEndName(reason: string): string {
  const [english, japanese] = PROGRAM_ENDS[reason] ?? [reason, reason];
  return t(english, japanese);
}

/** That a plugin could not be indexed for search. */
export function unindexedText(reason: string): string {
  return t(`it is not completely indexed for search: ${reason}`, `検索の索引が未完です: ${said(reason)}`);
}

/** A beginning of what the server says, and what it is in Japanese; `$1` and so on stand for its groups. */
const PHRASES: [RegExp, string][] = [
  [/^the server shuts down$/, "サーバーは停止処理中です"],
  [/^plugin `([^`]*)` could not be loaded: /, "プラグイン「$1」を読み込めませんでした: "],
  [/^plugin `([^`]*)` has not been reachable since (\S+): /, "プラグイン「$1」は $2 から接続できません: "],
  [/^plugin `([^`]*)` is disabled by (.*)$/, "プラグイン「$1」は $2 が無効にしました"],
  [/^plugin `([^`]*)` is being loaded$/, "プラグイン「$1」を読み込み中です"],
  [/^the audit log(.*) has not been written since (\S+): /, "監査ログ$1は $2 から書き込めません: "],
  [/^it could not be loaded; the server's log says why$/, "読み込めませんでした（理由はサーバーのログにあります）"],
  [/^it could not be loaded$/, "読み込めませんでした"],
  [/^most of its calls fail, last: /, "呼び出しの多くが失敗しています。最後の理由: "],
  [/^it asks for `([^`]*)` in `([^`]*)`, which is not granted/, "`$2` の「$1」が必要ですが、許可されていません"],
  [/^it asks for `([^`]*)` in `([^`]*)`, and is granted it read-only/, "`$2` の「$1」への書き込みが必要ですが、読み取りのみ許可されています"],
  [/^it asks for `(limits\.[^`]*)` of at least (.+), and the plugin has ([^ ]+)/, "`$1` は $2 以上が必要ですが、$3 に設定されています"],
  [/^it reads `([^`]*)` \(([^)]*)\), which is required and not set/, "必須の `$1`（$2）が設定されていません"],
  [/^a directory that it needs cannot be opened/, "必要なディレクトリを開けません"],
  [/^`([^`]*)` is granted but unused: it does not import `([^`]*)`/, "`$1` は許可されていますが、`$2` がインポートされていないため使用されません"],
  [/^it imports `([^`]*)`, which is of no use without `([^`]*)`: /, "`$1` は `$2` がなければ使用できません: "],
  [/^`(allow|deny)` of rule (\d+) \(line (\d+)\) has `([^`]*)`, which matches nothing below any mount/, "規則 $2（$3 行目）の `$1` の `$4` は、どのマウントにも一致しません"],
  [/^; the most similar mount is /, "。最も近いマウント: "],
  // A plugin, and what a warning says of it.
  [/^([\w.-]+): (?=`|it )/, "$1: "],
  [/^an administrator disabled it$/, "管理者が無効にしました"],
  [/^it is still being loaded; try again shortly$/, "読み込み中です。しばらくしてからもう一度お試しください"],
  [/^it failed$/, "失敗しました"],
  [/^it failed; the server's log says why$/, "失敗しました（理由はサーバーのログにあります）"],
  [/^the upstream cannot be connected to at the moment$/, "現在アップストリームに接続できません"],
  [/^the upstream cannot be connected to: /, "アップストリームに接続できません: "],
  [/^the provider cannot describe itself: /, "プロバイダーの describe が失敗しました: "],
  [/^its key-value store cannot be used: /, "キーバリューストアを使用できません: "],
  [/^the host was shut down before it was loaded$/, "読み込み前にホストが停止しました"],
  [/^the program has ended: /, "プログラムが終了しました: "],
  [/^it exited with code (-?\d+)/, "終了コード $1"],
  [/^signal (\d+) ended it/, "シグナル $1 により終了"],
  [/^it was killed above `limits\.memory`/, "`limits.memory` を超えたため強制終了"],
  [/^it was killed above `limits\.program-cpu`/, "`limits.program-cpu` を超えたため強制終了"],
  [/^it used up `limits\.prepare\.cpu` \(([^)]*)\)/, "`limits.prepare.cpu`（$1）を使い切りました"],
  [/^, and the last call failed: /, "。最後の呼び出しの失敗: "],
  [/^out of memory: it requested more than `limits\.prepare\.memory` \(([^)]*)\) leaves/, "メモリ不足: `limits.prepare.memory`（$1）を超えて要求しました"],
  [/^the host ended it/, "ホストが終了させました"],
  [/^its supervisor was killed/, "監視プロセスが強制終了されました"],
  [/^(list-entries|list-templates|read|stat|complete|changes|describe): /, "$1: "],
  [/^unavailable: /, "利用不可: "],
  [/^failed: /, "失敗: "],
  [/^denied: /, "拒否: "],
  [/^invalid request: /, "不正なリクエスト: "],
  [/^not found$/, "見つかりません"],
  [/^matches /, "一致: "],
  [/^near to the question/, "質問に近い内容"],
  [/^priority ([\d.]+)/, "優先度 $1"],
];

/** What the server says: known phrases at its beginning are translated, one behind the other, and the rest stays. */
export function said(text: string): string {
  if (currentLanguage() !== "ja") {
    return text;
  }
  let [done, rest] = ["", text];
  for (let count = 0; count < 6; count += 1) {
    const found = PHRASES.find(([phrase]) => phrase.test(rest));
    const matched = found && found[0].exec(rest)?.[0];
    if (!found || !matched) {
      break;
    }
    done += matched.replace(found[0], found[1]).replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/, (at) => time(at));
    rest = rest.slice(matched.length);
  }
  return done + rest;
}

/** The same of several reasons, separated by semicolons. */
export function saidEach(text: string): string {
  return currentLanguage() === "ja" ? text.split("; ").map(said).join("、") : text;
}
