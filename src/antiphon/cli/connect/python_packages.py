"""Packages of Python: a whole program for each, as docs/clients.md has it."""

from antiphon.cli.connect.client import CHAT, MESSAGES, RESPONSES, Client

PYTHON_PACKAGES = (
    Client(
        name="openai-python",
        title="openai (Python)",
        api=RESPONSES,
        language="python",
        python="openai",
        text="""\
from openai import OpenAI

client = OpenAI(base_url="URL/v1", api_key=KEY)
print(client.responses.create(model="MODEL", input="Name a colour.").output_text)
""",
    ),
    Client(
        name="openai-chat-python",
        title="openai, Chat Completions (Python)",
        api=CHAT,
        language="python",
        python="openai",
        text="""\
from openai import OpenAI

client = OpenAI(base_url="URL/v1", api_key=KEY)
messages = [{"role": "user", "content": "Name a colour."}]
completion = client.chat.completions.create(model="MODEL", messages=messages)
print(completion.choices[0].message.content)
""",
    ),
    Client(
        name="anthropic-python",
        title="anthropic (Python)",
        api=MESSAGES,
        language="python",
        python="anthropic",
        text="""\
from anthropic import Anthropic

client = Anthropic(base_url="URL", api_key=KEY)
message = client.messages.create(model="MODEL", max_tokens=100, messages=[{"role": "user", "content": "Name a colour."}])
print(message.content[0].text)
""",
    ),
    Client(
        name="agents-python",
        title="OpenAI Agents SDK (Python)",
        api=RESPONSES,
        language="python",
        python="openai-agents",
        text="""\
from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
client = AsyncOpenAI(base_url="URL/v1", api_key=KEY)
agent = Agent(name="Assistant", model=OpenAIResponsesModel("MODEL", openai_client=client))
print(Runner.run_sync(agent, "Name a colour.").final_output)
""",
    ),
    Client(
        name="langchain",
        title="LangChain (Python)",
        api=RESPONSES,
        language="python",
        python="langchain-openai",
        text="""\
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="MODEL", base_url="URL/v1", api_key=KEY, use_responses_api=True)
print(model.invoke("Name a colour.").text)
""",
    ),
    Client(
        name="langchain-chat",
        title="LangChain, Chat Completions (Python)",
        api=CHAT,
        language="python",
        python="langchain-openai",
        text="""\
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="MODEL", base_url="URL/v1", api_key=KEY)
print(model.invoke("Name a colour.").text)
""",
    ),
    Client(
        name="langchain-anthropic",
        title="LangChain, Messages (Python)",
        api=MESSAGES,
        language="python",
        python="langchain-anthropic",
        text="""\
from langchain_anthropic import ChatAnthropic

model = ChatAnthropic(model="MODEL", base_url="URL", api_key=KEY, max_tokens=1024)
print(model.invoke("Name a colour.").text)
""",
    ),
    Client(
        name="pydantic-ai",
        title="Pydantic AI",
        api=RESPONSES,
        language="python",
        python="pydantic-ai-slim",
        text="""\
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

client = AsyncOpenAI(base_url="URL/v1", api_key=KEY)
agent = Agent(OpenAIResponsesModel("MODEL", provider=OpenAIProvider(openai_client=client)))
print(agent.run_sync("Name a colour.").output)
""",
    ),
    Client(
        name="pydantic-ai-chat",
        title="Pydantic AI, Chat Completions",
        api=CHAT,
        language="python",
        python="pydantic-ai-slim",
        text="""\
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url="URL/v1", api_key=KEY)
print(Agent(OpenAIChatModel("MODEL", provider=provider)).run_sync("Name a colour.").output)
""",
    ),
    Client(
        name="pydantic-ai-anthropic",
        title="Pydantic AI, Messages",
        api=MESSAGES,
        language="python",
        python="pydantic-ai-slim",
        text="""\
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

provider = AnthropicProvider(base_url="URL", api_key=KEY)
print(Agent(AnthropicModel("MODEL", provider=provider)).run_sync("Name a colour.").output)
""",
    ),
    Client(
        name="semantic-kernel",
        title="Semantic Kernel",
        api=RESPONSES,
        language="python",
        python="semantic-kernel",
        text="""\
import asyncio

from openai import AsyncOpenAI
from semantic_kernel.agents import OpenAIResponsesAgent

client = AsyncOpenAI(base_url="URL/v1", api_key=KEY)
agent = OpenAIResponsesAgent(ai_model_id="MODEL", client=client, name="Assistant")
print(asyncio.run(agent.get_response("Name a colour.")))
""",
    ),
    Client(
        name="strands",
        title="Strands",
        api=RESPONSES,
        language="python",
        python="strands-agents",
        text="""\
from strands import Agent
from strands.models.openai_responses import OpenAIResponsesModel

connection = {"base_url": "URL/v1", "api_key": KEY}
agent = Agent(model=OpenAIResponsesModel(client_args=connection, model_id="MODEL"), callback_handler=None)
print(agent("Name a colour."))
""",
    ),
    Client(
        name="llama-index",
        title="LlamaIndex",
        api=RESPONSES,
        language="python",
        python="llama-index-llms-openai",
        text="""\
from llama_index.llms.openai import OpenAIResponses

model = OpenAIResponses(model="MODEL", api_base="URL/v1", api_key=KEY, context_window=WINDOW)
print(model.complete("Name a colour."))
""",
    ),
    Client(
        name="haystack",
        title="Haystack",
        api=RESPONSES,
        language="python",
        python="haystack-ai",
        text="""\
from haystack.components.generators.chat import OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

key = Secret.from_token(KEY)
generator = OpenAIResponsesChatGenerator(model="MODEL", api_base_url="URL/v1", api_key=key)
print(generator.run([ChatMessage.from_user("Name a colour.")])["replies"][0].text)
""",
    ),
    Client(
        name="inspect",
        title="Inspect",
        api=RESPONSES,
        language="python",
        python="inspect-ai",
        text="""\
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.solver import generate

model = get_model("openai/MODEL", base_url="URL/v1", api_key=KEY, responses_api=True)
(log,) = eval(Task(dataset=[Sample(input="Name a colour.")], solver=generate()), model=model, display="none")
print(log.samples[0].output.completion)
""",
    ),
)
