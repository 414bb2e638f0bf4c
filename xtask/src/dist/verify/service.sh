# Runs in a container with a systemd: installs the package, uses the service, and removes it. A line that begins with `==` is a result;
# the last line is `verified`.
set -euo pipefail

config=/etc/mcp-host/mcp-host.toml
result() { printf '== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*"; journalctl --unit mcp-host --no-pager --output cat; exit 1; }
trap 'fail "line $LINENO"' ERR

# Waits until a command succeeds.
await() { for _ in $(seq 300); do if "$@" > /tmp/awaited 2>&1; then return; fi; sleep 0.1; done; cat /tmp/awaited; fail "waited for: $*"; }
is_ready() { mcp-host status --probe --config $config; }
pid() { systemctl show --property MainPID --value mcp-host; }
pid_differs_from() { [ "$(pid)" != 0 ] && [ "$(pid)" != "$1" ]; }

post() {
  curl --silent --show-error --max-time 30 --dump-header /tmp/headers --header "$session" --header 'Content-Type: application/json' \
    --header 'Accept: application/json, text/event-stream' --data "$1" http://127.0.0.1:8080/mcp
}
# A client that reads a file through a provider.
read_file() {
  session='X-No-Session: 1'
  post '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"v","version":"1"}}}' > /dev/null
  session=$(grep -i '^mcp-session-id:' /tmp/headers | tr -d '\r')
  post '{"jsonrpc":"2.0","method":"notifications/initialized"}' > /dev/null
  post '{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"files:///a.md"}}' > /tmp/read
  grep -q 'hello from the file' /tmp/read
}
is_denied() { ! read_file; }

# Clients in a loop, each request with a connection of its own.
start_clients() {
  rm -f /tmp/stop /tmp/refused; : > /tmp/answers; clients=()
  for _ in 1 2 3 4; do
    while [ ! -e /tmp/stop ]; do
      code=$(curl --silent --max-time 30 --output /dev/null --write-out '%{http_code}' http://127.0.0.1:8080/healthz) || echo "curl $?, HTTP $code" >> /tmp/refused
      echo "$code" >> /tmp/answers
    done &
    clients+=($!)
  done
}
# Waits for 20 more requests.
await_requests() { local wanted=$(($(wc -l < /tmp/answers) + 20)); await has_answers $wanted; }
has_answers() { [ "$(wc -l < /tmp/answers)" -ge "$1" ]; }
# Ends the clients, and fails if a connection was refused or reset.
stop_clients() {
  await_requests; touch /tmp/stop; wait "${clients[@]}"
  [ ! -e /tmp/refused ] || { cat /tmp/refused; fail "connections were refused"; }
}
answers() { sort /tmp/answers | uniq -c | awk '{ printf "%s%s × %s", separator, $1, $2; separator = ", " }'; }

export DEBIAN_FRONTEND=noninteractive
apt-get --yes install /verify/mcp-host.deb
[ "$(systemctl is-enabled mcp-host.service || true)" = disabled ]
[ "$(systemctl is-active mcp-host.service || true)" = inactive ]
id mcp-host
[ -e /usr/share/man/man1/mcp-host-serve.1.gz ] && [ -e /usr/share/bash-completion/completions/mcp-host ]
systemd-analyze verify --man=no /lib/systemd/system/mcp-host.service /lib/systemd/system/mcp-host.socket
result "installed $(dpkg-query --show mcp-host | tr '\t' ' '): the service is neither enabled nor active"

mkdir -p /srv/docs && echo 'hello from the file' > /srv/docs/a.md
sed -i -E 's/^# (\[\[|name|component|mount|grants|principals|allow)/\1/' $config
sed -i 's/^mount = .*/&\nrequired = true/' $config
mcp-host check --config $config
sed -i 's|^\[server\]|&\ncursor-key = { file = "/run/credentials/mcp-host.service/cursor-key" }|' $config
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > /etc/mcp-host/cursor-key
chmod 600 /etc/mcp-host/cursor-key
mkdir -p /etc/systemd/system/mcp-host.service.d
printf '[Service]\nLoadCredential=cursor-key:/etc/mcp-host/cursor-key\nWatchdogSec=3s\n' > /etc/systemd/system/mcp-host.service.d/verify.conf
systemctl daemon-reload
systemctl enable --now mcp-host.socket mcp-host.service
[ "$(systemctl is-active mcp-host.service)" = active ]
await is_ready
# A plugin is ready after its first call.
read_file
mcp-host status --config $config | tee /tmp/status
grep -q '^ready: ' /tmp/status && grep -q '^docs .* ready' /tmp/status
[ "$(ps -o user= -p "$(pid)")" = mcp-host ]
result "started as mcp-host with a key by LoadCredential: ready, and a client reads a file through a provider"

before=$(pid)
sed -i 's|^allow = .*|allow = ["files:///other/**"]|' $config
systemctl reload mcp-host
await is_denied
sed -i 's|^allow = .*|allow = ["files:///**"]|' $config
systemctl reload mcp-host
await read_file
[ "$(pid)" = "$before" ]
[ "$(journalctl --unit mcp-host --no-pager --output cat | grep --count SIGHUP)" = 2 ]
result "reloaded by ExecReload, in the same process"

start_clients
for _ in 1 2 3 4; do systemctl restart mcp-host; await_requests; done
stop_clients
systemctl reset-failed mcp-host # the limit of starts within 10 s
result "restarted 4 times: no connection of $(wc -l < /tmp/answers) was refused (HTTP $(answers))"

dpkg-deb --raw-extract /verify/mcp-host.deb /tmp/next
sed -i 's/^Version: .*/&+next/' /tmp/next/DEBIAN/control
dpkg-deb --build -Zgzip -z1 /tmp/next /tmp/next.deb > /dev/null
before=$(pid)
start_clients
await_requests
apt-get --yes install /tmp/next.deb
pid_differs_from "$before" || fail "the upgrade did not restart the service"
stop_clients
await is_ready
read_file
grep -q cursor-key $config
result "upgraded to $(dpkg-query --show --showformat '${Version}' mcp-host): restarted, the config is kept, no connection of $(wc -l < /tmp/answers) was refused"

before=$(pid)
kill -STOP "$before"
await pid_differs_from "$before"
await is_ready
journalctl --unit mcp-host --no-pager --output cat | grep -q 'Watchdog timeout'
result "a process that hangs was restarted by the watchdog"

apt-get --yes remove mcp-host
[ "$(systemctl is-active mcp-host.service || true)" = inactive ] && [ "$(systemctl is-active mcp-host.socket || true)" = inactive ]
[ ! -e /usr/bin/mcp-host ] && [ ! -e /usr/lib/mcp-host ] && [ -e $config ]
apt-get --yes purge mcp-host
[ ! -e $config ] && [ ! -e /var/cache/mcp-host ] && [ -e /var/lib/mcp-host ]
rm -r /etc/systemd/system/mcp-host.service.d
result "removed and purged: the service is stopped, its config and cache are gone, its state is kept"

tar --extract --file /verify/mcp-host.tar.gz --directory /usr/local --strip-components 1
mkdir -p /etc/mcp-host && cp /usr/local/share/doc/mcp-host/mcp-host.toml $config
sed -i -E 's/^# (\[\[|name|component|mount|grants|principals|allow)/\1/' $config
systemd-sysusers && systemd-tmpfiles --create mcp-host.conf && systemctl daemon-reload
hash -r
systemctl enable --now mcp-host.socket mcp-host.service
await is_ready
await read_file
[ "$(readlink "/proc/$(pid)/exe")" = /usr/local/bin/mcp-host ]
result "unpacked the tarball into /usr/local: the service serves a provider from there"

echo verified
