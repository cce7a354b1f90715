// Mastra: an agent with a model of the AI SDK.
import { createOpenAI } from '@ai-sdk/openai';
import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { z } from 'zod';
import { collect, play } from './scenarios.mjs';

const openai = (url) => createOpenAI({ baseURL: url, apiKey: 'any' });

const agent = (url, more) =>
  new Agent({ id: 'assistant', name: 'Assistant', instructions: 'Be brief.', model: openai(url)('mock'), maxRetries: 0, ...more });

const weather = createTool({
  id: 'weather',
  description: 'The weather of a city',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

const person = z.object({ name: z.string(), age: z.number() });

const results = ({ toolResults }) => toolResults.map(({ payload }) => payload.result);

async function text(url) {
  const { text, usage } = await agent(url).generate('Hi');
  return { text, input: usage.inputTokens };
}

async function stream(url) {
  const { textStream } = await agent(url).stream('Hi');
  return await collect(textStream);
}

async function toolLoop(url) {
  const result = await agent(url, { instructions: '', tools: { weather } }).generate('Weather?');
  return { text: result.text, results: results(result.steps[0]) };
}

async function streamedToolLoop(url) {
  const result = await agent(url, { instructions: '', tools: { weather } }).stream('Weather?');
  await collect(result.fullStream);
  return { text: await result.text, results: results((await result.steps)[0]) };
}

async function object(url) {
  return (await agent(url).generate('Invent a person.', { structuredOutput: { schema: person } })).object;
}

async function twoTurns(url) {
  const assistant = agent(url, { instructions: '' });
  const messages = [{ role: 'user', content: 'My name is Ada.' }];
  const first = await assistant.generate(messages);
  messages.push(...first.response.messages, { role: 'user', content: 'What is my name?' });
  return (await assistant.generate(messages)).text;
}

// An MCP server that the gateway connects to.
const client = (url, server, requireApproval) =>
  agent(url, { tools: { mcp: openai(url).tools.mcp({ serverLabel: 'bad', serverUrl: server, requireApproval }) } });

const seen = (text, result) => ({
  text,
  calls: result.toolCalls.map(({ payload }) => payload.toolName),
  results: results(result),
});

async function mcp(url, server, requireApproval) {
  const result = await client(url, server, requireApproval).generate('Echo it');
  return seen(result.text, result);
}

async function mcpStreamed(url, server, requireApproval) {
  const result = await client(url, server, requireApproval).stream('Echo it');
  const parts = await collect(result.fullStream);
  for (const { type, payload } of parts) if (type === 'error') throw payload.error;
  return seen(await result.text, { toolCalls: await result.toolCalls, toolResults: await result.toolResults });
}

const failure = (answer) => answer.then(() => 'no error', ({ message }) => message);

await play({
  text,
  stream,
  toolLoop,
  streamedToolLoop,
  object,
  twoTurns,
  mcp: (url, { server }) => mcp(url, server, 'never'),
  mcpStreamed: (url, { server }) => mcpStreamed(url, server, 'never'),
  mcpAsked: (url, { server }) => mcp(url, server, 'always'),
  mcpAskedStreamed: (url, { server }) => mcpStreamed(url, server, 'always'),
  mcpFailed: (url, { server }) => failure(mcp(url, server, 'never')),
  mcpFailedStreamed: (url, { server }) => failure(mcpStreamed(url, server, 'never')),
});
