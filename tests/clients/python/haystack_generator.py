"""Haystack: `OpenAIResponsesChatGenerator`, alone and in an agent."""

import json

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool
from haystack.utils import Secret
from scenarios import Person, play


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


REASONS = {"reasoning": {"effort": "low", "summary": "auto"}}
STATELESS = {**REASONS, "store": False, "include": ["reasoning.encrypted_content"]}


def generator(url, **more):
    key = Secret.from_token("any")
    return OpenAIResponsesChatGenerator(model="mock", api_base_url=url, api_key=key, max_retries=0, **more)


def text(url):
    messages = [ChatMessage.from_system("Be brief."), ChatMessage.from_user("Hi")]
    (reply,) = generator(url).run(messages)["replies"]
    return {"text": reply.text, "input": reply.meta["usage"]["input_tokens"]}


def stream(url):
    pieces = []
    generator(url, streaming_callback=lambda chunk: pieces.append(chunk.content)).run([ChatMessage.from_user("Hi")])
    return [piece for piece in pieces if piece]


def cut(url):
    settings = {"max_output_tokens": 16}
    (reply,) = generator(url, generation_kwargs=settings).run([ChatMessage.from_user("Hi")])["replies"]
    return [reply.text, reply.meta["finish_reason"]]


def thought(url):
    (reply,) = generator(url, generation_kwargs=REASONS).run([ChatMessage.from_user("Think.")])["replies"]
    return {"reasoning": reply.reasoning.reasoning_text, "text": reply.text}


def run_agent(generator):
    state = Agent(chat_generator=generator, tools=[weather]).run([ChatMessage.from_user("Weather?")])
    results = [result.result for message in state["messages"] for result in message.tool_call_results]
    return {"text": state["last_message"].text, "results": sorted(results)}


def structured(url):
    settings = {"text_format": Person}
    (reply,) = generator(url, generation_kwargs=settings).run([ChatMessage.from_user("Invent a person.")])["replies"]
    return json.loads(reply.text)


def talk(speaker):
    messages = [ChatMessage.from_user("My name is Ada.")]
    messages += speaker.run(messages)["replies"]
    messages += [ChatMessage.from_user("What is my name?")]
    return speaker.run(messages)["replies"][0].text


def previous_response(url):
    speaker = generator(url)
    (first,) = speaker.run([ChatMessage.from_user("My name is Ada.")])["replies"]
    settings = {"previous_response_id": first.meta["id"]}
    return speaker.run([ChatMessage.from_user("What is my name?")], generation_kwargs=settings)["replies"][0].text


play(
    text,
    stream,
    cut,
    thought,
    structured,
    previous_response,
    agent=lambda url: run_agent(generator(url)),
    agent_without_store=lambda url: run_agent(generator(url, generation_kwargs=STATELESS)),
    streamed_agent=lambda url: run_agent(generator(url, generation_kwargs=REASONS, streaming_callback=lambda chunk: None)),
    two_turns=lambda url: talk(generator(url)),
    two_turns_without_store=lambda url: talk(generator(url, generation_kwargs=STATELESS)),
)
