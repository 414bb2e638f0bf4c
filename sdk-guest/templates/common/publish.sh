#!/bin/sh
# Builds {{component}}, tests whether it keeps the contract, and publishes it as a version that there is not yet:
#
#   sh publish.sh oci://registry.example.com/acme/{{name}}:0.1.0 --sign acme.pem
#
# What follows the reference is for `mcp-host push`, which says how to make a key, and what else can be added.
set -eu
case "${1-}" in
    oci://*) ;;
    *) sed -n 's/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
{{build}}
mcp-host test {{component}} --plugin {{name}}
mcp-host push {{component}} "$@"
