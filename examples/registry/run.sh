#!/bin/sh
# A registry on loopback, from publishing a component to serving it: push, add, an update that wants more and is refused, serve.
#
#     examples/registry/run.sh            all steps, then serve over stdio until the end of the input
#     examples/registry/run.sh --list     all steps, then list what is served
#
# It needs `mcp-host`, the components in target/plugins (`cargo xtask plugins`), openssl, and Debian's `docker-registry`. MCP_HOST,
# PLUGINS and REGISTRY name them if they are elsewhere. Everything is written into a temporary directory, which is removed.
set -eu

here=$(cd "$(dirname "$0")/../.." && pwd)
host=${MCP_HOST:-mcp-host}
plugins=${PLUGINS:-$here/target/plugins}
registry=${REGISTRY:-docker-registry}
port=${PORT:-5443}
at=127.0.0.1:$port

dir=$(mktemp -d)
running=
trap 'if [ -n "$running" ]; then kill "$running" 2>/dev/null || true; fi; rm -rf "$dir"' EXIT INT TERM
cd "$dir"
step() { printf '\n# %s\n' "$*" >&2; }

step "A certificate authority, a certificate of the registry, and the key of the publisher"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=example CA" \
    -keyout ca.key -out ca.pem 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=registry" -keyout tls.key -out tls.csr 2>/dev/null
echo "subjectAltName=IP:127.0.0.1" > tls.ext
openssl x509 -req -in tls.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile tls.ext -out tls.pem 2>/dev/null
openssl genpkey -algorithm ed25519 -out acme.pem
openssl pkey -in acme.pem -pubout -out acme.pub

step "The registry, at https://$at"
cat > registry.yml <<END
version: 0.1
storage: { filesystem: { rootdirectory: $dir/data } }
http: { addr: "$at", tls: { certificate: $dir/tls.pem, key: $dir/tls.key } }
END
> registry.log
"$registry" serve registry.yml > registry.log 2>&1 &
running=$!
tries=0
until grep -q "listening on" registry.log; do
    kill -0 "$running" 2>/dev/null || { cat registry.log >&2; exit 1; }
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { echo "the registry does not start" >&2; exit 1; }
    sleep 0.1
done

step "A config that trusts the publisher, and has no plugin yet"
cat > mcp-host.toml <<END
[server]
state = "state"

[registry]
ca = ["ca.pem"]

[[trust]]
sources = ["oci://$at/acme/"]
keys = [{ file = "acme.pub" }]
END
cat mcp-host.toml >&2

step "The publisher publishes version 1.0.0"
"$host" push "$plugins/hello.wasm" "oci://$at/acme/hello:1.0.0" --sign acme.pem >&2

step "The admin adds it: verified, shown, locked"
"$host" add hello "oci://$at/acme/hello:1" >&2

step "Version 1.1.0 is another program, which wants more: the update is refused with exit code 3"
"$host" push "$plugins/http-cache.wasm" "oci://$at/acme/hello:1.1.0" --sign acme.pem >&2
code=0
"$host" update hello >&2 || code=$?
[ "$code" -eq 3 ] || { echo "expected exit code 3, found $code" >&2; exit 1; }

step "The registry is stopped: what is locked is served without it"
kill "$running"
wait "$running" 2>/dev/null || true
running=
"$host" store verify >&2
if [ "${1-}" = --list ]; then
    "$host" list
else
    "$host" serve --stdio
fi
