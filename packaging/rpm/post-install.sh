systemd-sysusers mcp-host.conf >/dev/null 2>&1 || :
if [ -d /run/systemd/system ]; then
    systemd-tmpfiles --create mcp-host.conf >/dev/null 2>&1 || :
    systemctl --system daemon-reload >/dev/null 2>&1 || :
    # An upgrade: the socket stays open meanwhile, so no connection is refused.
    if [ "$1" -gt 1 ]; then
        systemctl try-restart mcp-host.service >/dev/null 2>&1 || :
    fi
fi
