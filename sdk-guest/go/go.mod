module mcp-host.example/provider

go 1.24
