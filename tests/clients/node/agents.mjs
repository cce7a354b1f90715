// The Agents SDK of OpenAI for Node.
import {
  Agent,
  MemorySession,
  OpenAIConversationsSession,
  OpenAIProvider,
  OpenAIResponsesCompactionSession,
  Runner,
  applyPatchTool,
  codeInterpreterTool,
  fileSearchTool,
  hostedMcpTool,
  shellTool,
  tool,
  toolNamespace,
  toolSearchTool,
  withResponsesWebSocketSession,
} from '@openai/agents';
import OpenAI from 'openai';
import WebSocket from 'ws';
import { z } from 'zod';
import { collect, play } from './scenarios.mjs';

globalThis.WebSocket ??= WebSocket; // Node 20 has none

const client = (url) => new OpenAI({ baseURL: url, apiKey: 'any', maxRetries: 0 });

const runner = (url) =>
  new Runner({
    modelProvider: new OpenAIProvider({ openAIClient: client(url), useResponses: true }),
    tracingDisabled: true,
  });

const weather = tool({
  name: 'weather',
  description: 'The weather of a city',
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

const person = z.object({ name: z.string(), age: z.number() });

const agent = new Agent({ name: 'Assistant', model: 'mock' });
const weatherman = new Agent({ name: 'Weatherman', model: 'mock', tools: [weather] });
const inventor = new Agent({ name: 'Inventor', model: 'mock', outputType: person });
const stateless = new Agent({
  name: 'Stateless',
  model: 'mock',
  tools: [weather],
  modelSettings: {
    store: false,
    reasoning: { effort: 'low', summary: 'auto' },
    providerData: { include: ['reasoning.encrypted_content'] },
  },
});

async function text(url) {
  const brief = new Agent({ name: 'Brief', model: 'mock', instructions: 'Be brief.' });
  const result = await runner(url).run(brief, 'Hi');
  return { text: result.finalOutput, input: result.rawResponses[0].usage.inputTokens };
}

async function stream(url) {
  const result = await runner(url).run(agent, 'Hi', { stream: true });
  return await collect(result.toTextStream());
}

async function toolLoop(url, agent) {
  const result = await runner(url).run(agent, 'Weather?');
  return { text: result.finalOutput, items: result.newItems.map(({ type }) => type) };
}

async function streamedToolLoop(url) {
  const result = await runner(url).run(stateless, 'Weather?', { stream: true });
  const events = await collect(result);
  const names = events.filter(({ type }) => type === 'run_item_stream_event').map(({ name }) => name);
  return { text: result.finalOutput, names };
}

async function object(url) {
  return (await runner(url).run(inventor, 'Invent a person.')).finalOutput;
}

async function history(url) {
  const first = await runner(url).run(agent, 'My name is Ada.');
  const second = await runner(url).run(agent, [...first.history, { role: 'user', content: 'What is my name?' }]);
  return second.finalOutput;
}

async function previousResponse(url) {
  const first = await runner(url).run(agent, 'My name is Ada.');
  const second = await runner(url).run(agent, 'What is my name?', { previousResponseId: first.lastResponseId });
  return second.finalOutput;
}

async function session(url) {
  const session = new OpenAIConversationsSession({ client: client(url) });
  await runner(url).run(agent, 'My name is Ada.', { session });
  return (await runner(url).run(agent, 'What is my name?', { session })).finalOutput;
}

async function compaction(url) {
  const session = new OpenAIResponsesCompactionSession({
    client: client(url),
    model: 'gpt-5',
    underlyingSession: new MemorySession(),
    shouldTriggerCompaction: ({ sessionItems }) => sessionItems.length === 2,
  });
  await runner(url).run(agent, 'My name is Ada.', { session });
  return (await runner(url).run(agent, 'What is my name?', { session })).finalOutput;
}

async function shell(url) {
  const run = (command) => ({ stdout: `ran ${command}`, stderr: '', outcome: { type: 'exit', exitCode: 0 } });
  const shell = { run: async ({ commands }) => ({ output: commands.map(run) }) };
  const admin = new Agent({ name: 'Admin', model: 'mock', tools: [shellTool({ shell })] });
  return (await runner(url).run(admin, 'Look.')).finalOutput;
}

async function patch(url) {
  const done = async ({ type, path }) => ({ status: 'completed', output: `${type} ${path}` });
  const editor = { createFile: done, updateFile: done, deleteFile: done };
  const coder = new Agent({ name: 'Coder', model: 'mock', tools: [applyPatchTool({ editor })] });
  return (await runner(url).run(coder, 'Patch it.')).finalOutput;
}

async function handoff(url) {
  const spanish = new Agent({ name: 'Spanish', model: 'mock', instructions: 'Speak Spanish.' });
  const triage = new Agent({ name: 'Triage', model: 'mock', handoffs: [spanish] });
  const result = await runner(url).run(triage, 'Hola');
  return { text: result.finalOutput, agent: result.lastAgent.name };
}

async function toolSearch(url, stream) {
  const orders = tool({
    name: 'list_orders',
    description: 'The open orders of a customer',
    parameters: z.object({ customer: z.string() }),
    deferLoading: true,
    execute: async ({ customer }) => `two orders of ${customer}`,
  });
  const time = tool({
    name: 'time',
    description: 'The time in a city',
    parameters: z.object({ city: z.string() }),
    deferLoading: true,
    execute: async ({ city }) => `noon in ${city}`,
  });
  const crm = toolNamespace({ name: 'crm', description: 'Customers and their orders', tools: [orders] });
  const clerk = new Agent({ name: 'Clerk', model: 'mock', tools: [toolSearchTool(), time, ...crm] });
  const result = await runner(url).run(clerk, 'Orders of Ada, and the time in Rome?', { stream });
  if (stream) await collect(result);
  return { text: result.finalOutput, items: result.newItems.map(({ type }) => type) };
}

// A server that the gateway knows by its label.
async function hostedServer(url, approve, stream) {
  const approval =
    approve === undefined
      ? { requireApproval: 'never' }
      : { requireApproval: 'always', onApproval: async () => ({ approve, reason: 'Not today.' }) };
  const server = hostedMcpTool({ serverLabel: 'bad', ...approval });
  const echo = new Agent({ name: 'Echo', model: 'mock', tools: [server] });
  const result = await runner(url).run(echo, 'Echo it', { stream });
  if (stream) await collect(result);
  return { text: result.finalOutput, items: result.newItems.map(({ type, rawItem }) => rawItem.name ?? type) };
}

// The gateway searches the files.
async function fileSearch(url, includeSearchResults, stream) {
  const files = fileSearchTool(['vs_1'], { maxNumResults: 3, includeSearchResults });
  const librarian = new Agent({ name: 'Librarian', model: 'mock', tools: [files] });
  const first = await runner(url).run(librarian, 'Capital?', { stream });
  if (stream) await collect(first);
  const second = await runner(url).run(librarian, [...first.history, { role: 'user', content: 'Thanks' }]);
  const message = first.newItems.at(-1).rawItem;
  return {
    texts: [first.finalOutput, second.finalOutput],
    items: first.newItems.map(({ rawItem }) => rawItem.name ?? rawItem.type),
    annotations: message.content[0].providerData?.annotations ?? message.content[0].annotations,
  };
}

// Code that the gateway runs: the second run finds the container of the first in the history.
async function codeInterpreter(url, stream) {
  const modelSettings = { providerData: { include: ['code_interpreter_call.outputs'] } };
  const analyst = new Agent({ name: 'Analyst', model: 'mock', tools: [codeInterpreterTool()], modelSettings });
  const first = await runner(url).run(analyst, 'Plot it', { stream });
  if (stream) await collect(first);
  const second = await runner(url).run(analyst, [...first.history, { role: 'user', content: 'Again' }]);
  const items = first.newItems.map(({ type, rawItem }) => rawItem.name ?? type);
  return { texts: [first.finalOutput, second.finalOutput], items };
}

async function webSocket(url) {
  const providerOptions = { openAIClient: client(url) };
  return await withResponsesWebSocketSession(
    async ({ run }) => (await run(weatherman, 'Weather?')).finalOutput,
    { providerOptions, runnerConfig: { tracingDisabled: true } },
  );
}

await play({
  text,
  stream,
  toolLoop: (url) => toolLoop(url, weatherman),
  toolLoopStateless: (url) => toolLoop(url, stateless),
  streamedToolLoop,
  object,
  history,
  previousResponse,
  session,
  compaction,
  shell,
  patch,
  handoff,
  toolSearch: (url) => toolSearch(url, false),
  toolSearchStreamed: (url) => toolSearch(url, true),
  hostedServer: (url) => hostedServer(url, undefined, false),
  hostedServerStreamed: (url) => hostedServer(url, undefined, true),
  hostedServerApproved: (url) => hostedServer(url, true, false),
  hostedServerApprovedStreamed: (url) => hostedServer(url, true, true),
  hostedServerRefused: (url) => hostedServer(url, false, false),
  fileSearch: (url) => fileSearch(url, false, false),
  fileSearchWithResults: (url) => fileSearch(url, true, false),
  fileSearchStreamed: (url) => fileSearch(url, true, true),
  codeInterpreter: (url) => codeInterpreter(url, false),
  codeInterpreterStreamed: (url) => codeInterpreter(url, true),
  webSocket,
});
