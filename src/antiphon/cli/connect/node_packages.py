"""Packages of Node: a whole program for each, as docs/clients.md has it."""

from antiphon.cli.connect.client import CHAT, MESSAGES, RESPONSES, Client

NODE_PACKAGES = (
    Client(
        name="openai-node",
        title="openai (Node)",
        api=RESPONSES,
        language="js",
        node="openai",
        text="""\
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: 'URL/v1', apiKey: KEY });
const response = await client.responses.create({ model: 'MODEL', input: 'Name a colour.' });
console.log(response.output_text);
""",
    ),
    Client(
        name="openai-chat-node",
        title="openai, Chat Completions (Node)",
        api=CHAT,
        language="js",
        node="openai",
        text="""\
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: 'URL/v1', apiKey: KEY });
const messages = [{ role: 'user', content: 'Name a colour.' }];
const completion = await client.chat.completions.create({ model: 'MODEL', messages });
console.log(completion.choices[0].message.content);
""",
    ),
    Client(
        name="anthropic-node",
        title="anthropic (Node)",
        api=MESSAGES,
        language="js",
        node="@anthropic-ai/sdk",
        text="""\
import Anthropic from '@anthropic-ai/sdk';

const client = new Anthropic({ baseURL: 'URL', apiKey: KEY });
const message = await client.messages.create({
  model: 'MODEL',
  max_tokens: 100,
  messages: [{ role: 'user', content: 'Name a colour.' }],
});
console.log(message.content[0].text);
""",
    ),
    Client(
        name="agents-node",
        title="OpenAI Agents SDK (Node)",
        api=RESPONSES,
        language="js",
        node="@openai/agents",
        text="""\
import { Agent, OpenAIProvider, Runner } from '@openai/agents';
import OpenAI from 'openai';

const openAIClient = new OpenAI({ baseURL: 'URL/v1', apiKey: KEY });
const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses: true }), tracingDisabled: true });
const result = await runner.run(new Agent({ name: 'Assistant', model: 'MODEL' }), 'Name a colour.');
console.log(result.finalOutput);
""",
    ),
    Client(
        name="ai-sdk",
        title="Vercel's AI SDK",
        api=RESPONSES,
        language="js",
        node="@ai-sdk/openai",
        text="""\
import { createOpenAI } from '@ai-sdk/openai';
import { generateText } from 'ai';

const antiphon = createOpenAI({ baseURL: 'URL/v1', apiKey: KEY });
const { text } = await generateText({ model: antiphon('MODEL'), prompt: 'Name a colour.' });
console.log(text);
""",
    ),
    Client(
        name="ai-sdk-chat",
        title="Vercel's AI SDK, Chat Completions",
        api=CHAT,
        language="js",
        node="@ai-sdk/openai-compatible",
        text="""\
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText } from 'ai';

const antiphon = createOpenAICompatible({
  name: 'antiphon', baseURL: 'URL/v1', apiKey: KEY, includeUsage: true, supportsStructuredOutputs: true,
});
const { text } = await generateText({ model: antiphon('MODEL'), prompt: 'Name a colour.' });
console.log(text);
""",
    ),
    Client(
        name="ai-sdk-anthropic",
        title="Vercel's AI SDK, Messages",
        api=MESSAGES,
        language="js",
        node="@ai-sdk/anthropic",
        text="""\
import { createAnthropic } from '@ai-sdk/anthropic';
import { generateText } from 'ai';

const antiphon = createAnthropic({ baseURL: 'URL/v1', apiKey: KEY });
const { text } = await generateText({ model: antiphon('MODEL'), prompt: 'Name a colour.' });
console.log(text);
""",
    ),
    Client(
        name="mastra",
        title="Mastra",
        api=RESPONSES,
        language="js",
        node="@mastra/core",
        text="""\
import { createOpenAI } from '@ai-sdk/openai';
import { Agent } from '@mastra/core/agent';

const antiphon = createOpenAI({ baseURL: 'URL/v1', apiKey: KEY });
const agent = new Agent({ id: 'assistant', name: 'Assistant', instructions: 'Be brief.', model: antiphon('MODEL') });
console.log((await agent.generate('Name a colour.')).text);
""",
    ),
    Client(
        name="langchain-node",
        title="LangChain (Node)",
        api=RESPONSES,
        language="js",
        node="@langchain/openai",
        text="""\
import { ChatOpenAI } from '@langchain/openai';

const model = new ChatOpenAI({
  model: 'MODEL', apiKey: KEY, useResponsesApi: true, configuration: { baseURL: 'URL/v1' },
});
console.log((await model.invoke('Name a colour.')).text);
""",
    ),
)
