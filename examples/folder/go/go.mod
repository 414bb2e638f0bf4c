module example/folder

go 1.24

require mcp-host.example/provider v0.0.0

replace mcp-host.example/provider => ../../../sdk-guest/go
