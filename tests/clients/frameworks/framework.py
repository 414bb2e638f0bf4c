"""What agents of Python frameworks send to a model of a tool's result.

    python framework.py FRAMEWORK TOOL ARGUMENTS COMMAND ARGUMENT…

FRAMEWORK is `langchain`, `openai-agents` or `pydantic-ai`, and COMMAND starts an MCP server over stdio. A stand-in for a model on
loopback speaks OpenAI's Chat Completions: it calls the tool once, with ARGUMENTS as JSON, and then answers. It prints one line of JSON:
`sent`, the content of the message with the result as the framework sent it, or `error`, what ended the agent before.
"""

import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

QUESTION = "What is there?"


class Model(BaseHTTPRequestHandler):
    """Calls the tool, and answers when it has the result."""

    call: dict[str, str] = {}
    results: list[object] = []

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        if results:
            Model.results = results
            message = {"role": "assistant", "content": "done"}
        else:
            call = {"id": "call-1", "type": "function", "function": self.call}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "stop" if results else "tool_calls"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


async def langchain(url: str, command: list[str]) -> None:
    from langchain.agents import create_agent
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_openai import ChatOpenAI

    server = {"transport": "stdio", "command": command[0], "args": command[1:]}
    tools = await MultiServerMCPClient({"host": server}).get_tools()
    model = ChatOpenAI(model="m", base_url=url, api_key="none", max_retries=0)
    await create_agent(model, tools).ainvoke({"messages": [("user", QUESTION)]})


async def openai_agents(url: str, command: list[str]) -> None:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from agents.mcp import MCPServerStdio
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("m", AsyncOpenAI(base_url=url, api_key="none", max_retries=0))
    params = {"command": command[0], "args": command[1:]}
    async with MCPServerStdio(params=params, client_session_timeout_seconds=60) as server:
        await Runner.run(Agent(name="a", model=model, mcp_servers=[server]), QUESTION)


async def pydantic_ai(url: str, command: list[str]) -> None:
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="none"))
    server = MCPToolset(StdioTransport(command=command[0], args=command[1:]), init_timeout=60)
    async with (agent := Agent(model, toolsets=[server])):
        await agent.run(QUESTION)


def causes(error: BaseException) -> list[str]:
    """The errors that a group of errors consists of: its own message says only how many they are."""
    if isinstance(error, BaseExceptionGroup):
        return [cause for part in error.exceptions for cause in causes(part)]
    return [f"{type(error).__name__}: {error}"]


def main(framework: str, tool: str, arguments: str, *command: str) -> None:
    Model.call = {"name": tool, "arguments": arguments}
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    run = {"langchain": langchain, "openai-agents": openai_agents, "pydantic-ai": pydantic_ai}[framework]
    try:
        asyncio.run(run(f"http://127.0.0.1:{model.server_port}/v1", list(command)))
        outcome = {"sent": Model.results[0]}
    except Exception as error:
        outcome = {"error": "; ".join(causes(error))}
    print(json.dumps(outcome, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
