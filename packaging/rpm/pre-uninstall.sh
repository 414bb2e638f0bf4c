# The last version is removed.
if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
    systemctl --no-reload disable --now mcp-host.socket mcp-host.service >/dev/null 2>&1 || :
fi
